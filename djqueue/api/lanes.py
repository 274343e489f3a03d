"""The lane that a new job goes into: the gates that can hold it back together with others.

Where a task has none of those options, which is the rule, this costs a look at its fields and nothing else.
"""

from collections.abc import Iterator
from typing import Any

from djqueue.policy.gates import Gate, lane


def of(task: Any) -> str:
    """Return the lane of a task's jobs; '' where nothing can hold them back as a group."""
    return lane(_gates(task))


def _gates(task: Any) -> Iterator[tuple[Gate, str | None]]:
    """Name the gates of a job, each with what it is named after."""
    if task.circuit:
        yield Gate.CIRCUIT, task.circuit
