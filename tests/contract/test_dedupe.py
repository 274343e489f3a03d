"""R8: a duplicate returns the job that holds the key; no exception, no aborted transaction, whatever the race."""

from uuid import UUID

import pytest
from django.db import OperationalError, connection, transaction
from pytest_django.asserts import assertNumQueries

from djqueue.compat import AnyTaskResult, task_signals
from djqueue.store import db
from djqueue.store.enqueue import CHUNK
from djqueue.testing import run_jobs
from tests.contract.examples import add, fail, receipt
from tests.store.factories import Party, ack, all_at_once, bend, count, parties, row, take

once = add.using(dedupe_key="k")


def test_a_duplicate_returns_the_existing_job_in_one_round_trip(db: None) -> None:
    first = once.enqueue(1)

    with assertNumQueries(1):
        second = once.enqueue(2)

    assert (first.created, second.created) == (True, False)
    assert second.id == first.id
    assert add.get_result(second.id).args == [1]


def test_a_duplicate_leaves_the_callers_transaction_usable(committed: None) -> None:
    once.enqueue(1)

    with transaction.atomic():
        once.enqueue(2)
        other = add.enqueue(3)

    assert row(UUID(other.id)) == "ready"
    assert count() == 2


def test_nobody_is_told_of_a_duplicate(db: None) -> None:
    told: list[str] = []

    def hear(task_result: AnyTaskResult, **_: object) -> None:
        told.append(task_result.id)

    task_signals.task_enqueued.connect(hear)
    try:
        first = once.enqueue(1)
        once.enqueue(1)
    finally:
        task_signals.task_enqueued.disconnect(hear)

    assert told == [first.id]


def test_the_key_may_be_a_function_of_the_arguments(db: None) -> None:
    first = receipt.enqueue(7)
    second = receipt.enqueue(order_id=7, copies=2)
    third = receipt.enqueue(8)

    assert (second.id, second.created) == (first.id, False)
    assert third.created
    assert row(UUID(first.id), "dedupe_key") == "receipt:7"


def test_the_key_of_each_row_of_many_is_its_own(db: None) -> None:
    results = receipt.enqueue_many([(1,), (2,), {"order_id": 1}])

    assert [r.created for r in results] == [True, True, False]
    assert results[2].id == results[0].id


def test_a_key_holds_within_its_queue(db: None) -> None:
    assert once.enqueue(1).created
    assert once.using(queue_name="emails").enqueue(1).created


@pytest.mark.parametrize("change", ["state = 'scheduled', run_at = now() + interval '1 hour'", "attempts = 1"])
def test_a_delayed_or_retrying_job_holds_its_key(db: None, change: str) -> None:
    first = once.enqueue(1)
    bend(change, UUID(first.id))

    assert once.enqueue(1).id == first.id


def test_a_running_job_holds_its_key_and_keeps_its_arguments(db: None) -> None:
    first = once.enqueue(1)
    take(queue="default")

    second = once.enqueue(2)

    assert (second.id, second.created) == (first.id, False)
    assert row(UUID(first.id), "args -> 'args' ->> 0") == "1"


def test_a_finished_job_frees_its_key(db: None) -> None:
    first = once.enqueue(1)
    run_jobs()

    second = once.enqueue(1)

    assert second.created
    assert second.id != first.id


def test_a_dead_job_frees_its_key(db: None) -> None:
    first = fail.using(dedupe_key="k").enqueue("no luck")
    run_jobs(due_now=True)

    assert fail.using(dedupe_key="k").enqueue("again").id != first.id


def test_r8_when_the_first_enqueuer_rolls_back_the_second_one_creates_the_job(committed: None) -> None:
    with parties(2) as [first, second]:
        first.begin()
        undone = first.do(once.enqueue, 1)
        answer = second.start(once.enqueue, 2)
        second.wait_until_blocked()
        first.rollback()
        result = answer.result(timeout=20)

    assert result.created
    assert result.id != undone.id
    assert add.get_result(result.id).args == [2]


def test_r8_when_the_first_enqueuer_commits_the_second_one_gets_its_job(committed: None) -> None:
    with parties(2) as [first, second]:
        first.begin()
        created = first.do(once.enqueue, 1)
        answer = second.start(once.enqueue, 2)
        second.wait_until_blocked()
        first.commit()
        result = answer.result(timeout=20)

    assert (result.id, result.created) == (created.id, False)


def test_r8_when_the_holder_ends_meanwhile_the_key_is_free(committed: None) -> None:
    once.enqueue(1)
    with parties(2) as [worker, second]:
        worker.begin()
        worker.do(lambda: ack(*take(queue="default")))
        answer = second.start(once.enqueue, 2)
        second.wait_until_blocked()
        worker.commit()
        result = answer.result(timeout=20)

    assert result.created
    assert count("history") + count("history_overflow") == 1


def test_r8_eight_threads_at_once_make_one_job(committed: None) -> None:
    results = all_at_once([lambda n=n: once.enqueue(n) for n in range(8)])  # type: ignore[misc]

    assert len({result.id for result in results}) == 1
    assert sorted(result.created for result in results) == [False] * 7 + [True]
    assert count() == 1


def test_r8_two_large_calls_with_the_same_keys_in_opposite_orders_do_not_deadlock(committed: None) -> None:
    rows = [(n,) for n in range(CHUNK + 50)]

    one, other = all_at_once([lambda: receipt.enqueue_many(rows), lambda: receipt.enqueue_many(rows[::-1])])

    assert [r.id for r in one] == [r.id for r in other[::-1]]
    assert [r.args[0] for r in one] == [n for (n,) in rows]
    assert count() == len(rows)


def test_r8_opposite_orders_over_several_calls_deadlock_and_the_error_says_how_to_avoid_it(committed: None) -> None:
    a, b = add.using(dedupe_key="a"), add.using(dedupe_key="b")
    with parties(2) as [first, second]:
        first.begin()
        second.begin()
        first.do(a.enqueue, 1)
        second.do(b.enqueue, 1)
        waiting = [first.start(b.enqueue, 2)]
        first.wait_until_blocked()
        waiting.append(second.start(a.enqueue, 2))
        faults = [fault for future in waiting if (fault := future.exception(timeout=20))]
        for party in (first, second):
            party.rollback()

    [fault] = faults
    assert isinstance(fault, OperationalError)
    assert "deadlock detected" in str(fault)
    assert "enqueue keys in one order (one enqueue_many sorts them)" in str(fault)


def test_r8_a_stricter_isolation_level_can_fail_and_the_error_says_how_to_avoid_it(committed: None) -> None:
    with pytest.raises(OperationalError) as caught, transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("set transaction isolation level repeatable read")
            cursor.execute("select 1 from djqueue_job")
        with parties(1) as [other]:
            other.do(once.enqueue, 1)
        once.enqueue(2)

    assert "could not serialize access" in str(caught.value)
    assert "use READ COMMITTED" in str(caught.value)


def test_an_error_that_has_nothing_to_do_with_keys_is_left_as_it_is(committed: None) -> None:
    with parties(1) as [holder]:
        hold_the_table(holder)
        with pytest.raises(OperationalError) as caught, transaction.atomic():
            db.rows("default", "set local lock_timeout to '50ms'")
            once.enqueue(1)
        holder.rollback()

    assert "lock timeout" in str(caught.value)
    assert "READ COMMITTED" not in str(caught.value)
    assert caught.value.__cause__ is not caught.value


def hold_the_table(party: Party) -> None:
    """Let the party keep everybody from the jobs."""
    party.begin()
    party.do(db.rows, "default", "lock table djqueue_job in access exclusive mode")
