"""What the metrics read beside the figures of the control room: lately ended attempts, and circuits. It writes nothing.

Invariant: like `store.figures`, no statement here looks at jobs or history.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from djqueue.policy.histogram import merged
from djqueue.store import db

WINDOW_MINUTES = 5
MOST_CIRCUITS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Lately:
    """The attempts of one task and outcome that ended in the last five whole minutes."""

    task_name: str
    outcome: str
    count: int
    seconds: float
    runs: Sequence[float]
    waits: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitRow:
    """A circuit's state and what it has counted since it was made."""

    name: str
    state: str
    calls: int
    failures: int
    opened: int


# A range of the index of minutes: five minutes of queues, tasks and outcomes.
LATELY = f"""
select task_name, outcome, count, seconds, histogram, wait_histogram
from djqueue_stat
where minute >= date_trunc('minute', statement_timestamp()) - interval '{WINDOW_MINUTES} min'
    and minute < date_trunc('minute', statement_timestamp())
order by task_name, outcome
"""

CIRCUITS = f"""
select name, state, calls, failures, opened from djqueue_circuit order by name limit {MOST_CIRCUITS}
"""


def lately(alias: str) -> list[Lately]:
    """Return what ended in the last five whole minutes, by task and outcome."""
    found: dict[tuple[str, str], Lately] = {}
    for task, outcome, count, seconds, runs, waits in db.rows(alias, LATELY):
        before = found.get((task, outcome))
        found[task, outcome] = Lately(
            task_name=task,
            outcome=outcome,
            count=count + (before.count if before else 0),
            seconds=seconds + (before.seconds if before else 0.0),
            runs=merged([runs, before.runs if before else ()]),
            waits=merged([waits, before.waits if before else ()]),
        )
    return list(found.values())


def circuits(alias: str) -> list[CircuitRow]:
    """Return the first 500 circuits by name."""
    return [
        CircuitRow(name=name, state=state, calls=calls, failures=failures, opened=opened)
        for name, state, calls, failures, opened in db.rows(alias, CIRCUITS)
    ]
