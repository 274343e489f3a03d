"""What the marks pass over: late commits, retries and better priorities wait no longer than the rescan interval."""

import time
from collections.abc import Callable, Iterator

import pytest

from djqueue.conf import Options
from djqueue.policy.weights import QueueSelection
from djqueue.runtime import claimer
from djqueue.runtime.claimer import Claimer
from djqueue.runtime.plan import Plan
from djqueue.store import claim, db
from djqueue.store.claim import Claimed
from tests.store.factories import ALIAS, load

BATCH = 10
LATE = 77
"""The time limit by which a job is known again."""


class Clock:
    """A monotonic clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(time, "monotonic", found)
    return found


@pytest.fixture
def busy(committed: None, clock: Clock) -> Iterator[Callable[[], list[Claimed]]]:
    """A worker's claimer with a backlog of an hour, which has claimed for a while: its marks have moved on."""
    load(1_000, "queue_name, run_at", "'q', now() - interval '1 h' + n * interval '3 s'")
    db.adopt(ALIAS, prepared=False)
    plan = Plan(backend="default", options=Options(), selection=QueueSelection.parse("q"), known_queues=("q",))
    found = Claimer(plan, "w1")
    found.refresh()

    def take() -> list[Claimed]:
        with db.one_transaction(ALIAS):
            cursor = found.start(BATCH, BATCH)
        assert cursor is not None
        jobs = claim.claimed(cursor)
        found.learn(jobs, BATCH)
        return jobs

    for _ in range(5):
        take()
    yield take
    db.drop(ALIAS)


@pytest.mark.parametrize(
    "values",
    [f"'q', 0, now() - interval '2 h', {LATE}", f"'q', 50, now(), {LATE}"],
    ids=["an older moment, as of a late commit or a retry", "a better priority"],
)
def test_what_the_marks_pass_over_is_claimed_first_once_the_rescan_interval_is_over(
    busy: Callable[[], list[Claimed]], clock: Clock, values: str
) -> None:
    load(1, "queue_name, priority, run_at, timeout_seconds", values)
    before = [job.timeout_seconds for job in busy()]

    clock.now += claimer.RESCAN_SECONDS
    after = [job.timeout_seconds for job in busy()]

    assert LATE not in before
    assert after[0] == LATE
    assert len(after) == BATCH
