"""Cancel by filter: waiting jobs end, running ones are asked, nothing else is touched."""

import pytest

from djqueue.states import State
from djqueue.store import operate
from djqueue.store.operate import CancelAnswer, Jobs
from tests.store.factories import ALIAS, add, count, take


def cancel(jobs: Jobs) -> dict[CancelAnswer, int]:
    """Cancel what matches; count the answers."""
    found = [answer for batch in operate.cancel_matching(ALIAS, jobs) for answer in batch.values()]
    return {answer: found.count(answer) for answer in set(found)}


def test_jobs_are_cancelled_by_queue_task_tag_and_state(store: str) -> None:
    add(2, queue_name="a", task_name="x")
    add(2, queue_name="a", task_name="y", options='{"tags": ["nightly"]}')
    add(2, queue_name="b", task_name="x", delay_seconds=60)

    assert cancel(Jobs(queue_name="a", task_name="x")) == {CancelAnswer.CANCELLED: 2}
    assert cancel(Jobs(tag="nightly")) == {CancelAnswer.CANCELLED: 2}
    assert cancel(Jobs(state=State.SCHEDULED)) == {CancelAnswer.CANCELLED: 2}
    assert (count(), count("history")) == (0, 6)


def test_running_jobs_are_asked(store: str) -> None:
    add(2)
    take(1)

    assert cancel(Jobs(queue_name="q")) == {CancelAnswer.CANCELLED: 1, CancelAnswer.ASKED: 1}


def test_more_jobs_than_one_batch_are_all_cancelled(store: str) -> None:
    add(2_500)

    assert cancel(Jobs(queue_name="q")) == {CancelAnswer.CANCELLED: 2_500}


def test_a_filter_that_asks_for_nothing_is_refused(store: str) -> None:
    add(1)

    with pytest.raises(ValueError, match="expected a queue, a task, a tenant, a tag or a state"):
        cancel(Jobs())
    assert count() == 1
