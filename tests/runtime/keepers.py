"""Keepers for tests of the leader's duties: one that leads, one that does not, and the clock they go by."""

from collections.abc import Iterator
from contextlib import contextmanager

from djqueue.runtime.leader import LeaderDuty
from djqueue.store import db


class Clock:
    """A monotonic clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def keeper(name: str, clock: Clock | None = None) -> LeaderDuty:
    """A keeper that has asked for the lease once."""
    duty = LeaderDuty("default", name, clock=clock or Clock())
    duty.tick()
    return duty


def end_lease() -> None:
    """Let the lease be over, whoever has it."""
    db.rows("default", "update djqueue_leader set until = clock_timestamp() - interval '1 ms'")


@contextmanager
def connection_of(kind: str) -> Iterator[str]:
    """Use an `adopted` connection, as duties do in a keeper, or `django`'s own, as commands do."""
    if kind == "adopted":
        db.adopt("default", prepared=True)
    try:
        yield kind
    finally:
        db.drop("default")
