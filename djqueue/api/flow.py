"""Jobs that follow one another: `chain(charge.s(7), ship.s(7)).enqueue()`.

A chain is an ordering key of its own, with `on_dead="block"`: all steps are written in one transaction, the first
leads, each end lets the next one out in its own transaction. Invariant: a step starts only after the one before it has
succeeded; behind a dead one the chain waits for people, behind a cancelled one the rest is cancelled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction

from djqueue.api import arguments
from djqueue.api.results import JobResult
from djqueue.exceptions import EnqueueError
from djqueue.policy.ids import uuid7

MOST_STEPS = 1_000

_ALONE = ("dedupe_key", "ordering_key", "expires_after")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A task with the arguments of one job, validated; made by `task.s(…)`."""

    task: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    def __post_init__(self) -> None:
        arguments.frozen(self.task, self.args, self.kwargs)

    def enqueue(self) -> JobResult:
        """Write the job."""
        return self.task.enqueue(*self.args, **self.kwargs)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Chain:
    """Steps that follow one another; nothing is written before `enqueue`."""

    steps: tuple[Signature, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.steps) <= MOST_STEPS:
            raise EnqueueError(f"chain: expected 1 to {MOST_STEPS:,} steps, got {len(self.steps):,}")
        for step in self.steps:
            _check(step, self.steps[0])

    def enqueue(self) -> list[JobResult]:
        """Write all steps, or none, in the open transaction where there is one; return their results in order."""
        first = self.steps[0].task
        key, done = f"chain:{uuid7()}", list[JobResult]()
        first.get_backend().ready_for(first)
        with transaction.atomic(using=first.get_backend().alias_of_database):
            for step in self.steps:
                follows = done[-1].id if done else None
                task = replace(step.task, ordering_key=key, on_dead="block", follows=follows)
                done.append(task.enqueue(*step.args, **step.kwargs))
        return done

    async def aenqueue(self) -> list[JobResult]:
        """Write all steps; see `enqueue`."""
        return await sync_to_async(self.enqueue, thread_sensitive=True)()


def chain(*steps: Signature) -> Chain:
    """Make a chain of signatures, `chain(a.s(1), b.s(2))`; its steps are of one queue.

    Raises `EnqueueError` for steps that can't follow one another.
    """
    return Chain(steps)


def _check(step: object, first: Signature) -> None:
    if not isinstance(step, Signature):
        raise EnqueueError(f"chain: expected signatures, task.s(…), got {type(step).__name__}")
    task, name = step.task, step.task.module_path
    if not hasattr(task.get_backend(), "alias_of_database"):
        raise EnqueueError(f"chain: {name}: expected a task of a djqueue backend, got one of {task.backend!r}")
    if (task.backend, task.queue_name) != (first.task.backend, first.task.queue_name):
        raise EnqueueError(
            f"chain: {name}: expected the queue of the first step, {first.task.queue_name!r}, got {task.queue_name!r}; "
            "order holds within a queue: say .using(queue_name=…)"
        )
    for option in _ALONE:
        if getattr(task, option) is not None:
            raise EnqueueError(
                f"chain: {name}: expected a step without {option}, got one with it; a chain is its order"
            )
