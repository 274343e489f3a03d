"""R7: enqueue is an insert in the caller's transaction on the queue's database; it raises at once, nothing waits."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from django.db import ProgrammingError, connection, transaction
from pytest_django.asserts import assertNumQueries

from djqueue.exceptions import ArgumentsError, TransactionError
from djqueue.store.enqueue import CHUNK
from tests.contract.examples import add
from tests.helpers import raw_connection
from tests.store.factories import count, row


class Oops(Exception):
    """What goes wrong in a request."""


def seen_by_others() -> int:
    """How many jobs another session sees."""
    with raw_connection() as session:
        found = session.execute("select count(*) from djqueue_job").fetchone()
    return int(found[0]) if found else 0


def test_an_enqueue_is_one_round_trip(db: None) -> None:
    with assertNumQueries(1):
        result = add.enqueue(1)

    assert result.created
    assert UUID(result.id).version == 7
    assert row(UUID(result.id)) == "ready"


def test_many_are_one_round_trip_per_thousand(db: None) -> None:
    with assertNumQueries(1):
        few = add.enqueue_many((n,) for n in range(CHUNK))

    assert [result.args for result in few] == [[n] for n in range(CHUNK)]
    assert count() == CHUNK


def test_many_are_all_written_or_none_also_over_several_statements(committed: None) -> None:
    rows = [(n,) for n in range(CHUNK + 1)]
    connection.ensure_connection()
    with connection.cursor() as cursor:
        cursor.execute("alter table djqueue_job add constraint no_last check (args -> 'args' <> '[1000]')")

    with pytest.raises(Exception, match="no_last"):
        add.enqueue_many(rows)
    assert count() == 0

    assert len(add.enqueue_many(rows[:-1])) == CHUNK


def test_rows_of_enqueue_many_are_tuples_or_dicts_from_any_iterable(db: None) -> None:
    results = add.enqueue_many(row for row in [(1,), {"left": 2, "right": 3}, [4, 5]])

    assert [(r.args, r.kwargs) for r in results] == [([1], {}), ([], {"left": 2, "right": 3}), ([4, 5], {})]


@pytest.mark.parametrize("row", [1, "ab", None])
def test_a_row_that_is_neither_is_refused_before_anything_is_written(db: None, row: object) -> None:
    with assertNumQueries(0), pytest.raises(ArgumentsError, match="each row to be a tuple"):
        add.enqueue_many([(1,), row])  # type: ignore[list-item]


def test_no_rows_are_no_statement(db: None) -> None:
    with assertNumQueries(0):
        assert add.enqueue_many([]) == []


def test_r7_others_see_the_job_when_the_transaction_commits_and_nothing_waits_for_the_commit(committed: None) -> None:
    with transaction.atomic():
        result = add.enqueue(1)

        assert row(UUID(result.id)) == "ready"
        assert seen_by_others() == 0
        assert connection.run_on_commit == []

    assert seen_by_others() == 1


def test_r7_a_rolled_back_transaction_leaves_no_job(committed: None) -> None:
    with pytest.raises(Oops), transaction.atomic():
        add.enqueue(1)
        raise Oops

    assert seen_by_others() == 0


def test_r7_a_rolled_back_savepoint_removes_its_job_only(committed: None) -> None:
    with transaction.atomic():
        kept = add.enqueue(1)
        with pytest.raises(Oops), transaction.atomic():
            add.enqueue(2)
            raise Oops

    assert seen_by_others() == 1
    assert row(UUID(kept.id)) == "ready"


def test_r7_an_error_of_the_database_is_raised_by_the_enqueue_itself(committed: None) -> None:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("set transaction read only")
        with pytest.raises(Exception, match="read-only transaction"):
            add.enqueue(1)
        transaction.set_rollback(True)


def test_r7_a_transaction_on_another_database_only_is_refused_with_two_remedies(committed: None, sqlite: str) -> None:
    with transaction.atomic(using=sqlite):
        with pytest.raises(TransactionError) as caught:
            add.enqueue(1)
        with pytest.raises(TransactionError):
            add.enqueue_many([(1,)])

    said = str(caught.value)
    assert "a transaction is open on 'other', but jobs are written to 'default'" in said
    assert "open the transaction on 'default' as well" in said
    assert ".using(outside_transaction=True)" in said
    assert seen_by_others() == 0


def test_r7_outside_transaction_writes_the_job_whatever_becomes_of_the_other_database(
    committed: None, sqlite: str
) -> None:
    with pytest.raises(Oops), transaction.atomic(using=sqlite):
        add.using(outside_transaction=True).enqueue(1)
        raise Oops

    assert seen_by_others() == 1


def test_r7_a_transaction_on_both_databases_is_fine(committed: None, sqlite: str) -> None:
    with transaction.atomic(using=sqlite), transaction.atomic():
        add.enqueue(1)

    assert seen_by_others() == 1


def test_a_delay_is_counted_by_the_databases_clock(db: None) -> None:
    result = add.using(run_after=timedelta(minutes=5)).enqueue(1)

    assert row(UUID(result.id), "state, run_at - created_at") == ("scheduled", timedelta(minutes=5))


def test_the_later_of_two_times_is_the_one_that_counts(db: None) -> None:
    moment = datetime(2100, 1, 1, tzinfo=UTC)

    by_moment = add.using(run_after=timedelta(minutes=5)).using(run_after=moment).enqueue(1)
    by_delay = add.using(run_after=moment).using(run_after=timedelta(0)).enqueue(1)

    assert row(UUID(by_moment.id), "run_at") == moment
    assert row(UUID(by_delay.id)) == "ready"


def test_options_of_the_task_and_of_the_call_reach_the_row(db: None) -> None:
    call = add.using(priority=7, queue_name="emails", max_attempts=3, timeout_seconds=1.5, tags=["a", "b"])

    result = call.enqueue(1)

    columns = "queue_name, priority, max_attempts, timeout_seconds, options -> 'tags', task_name"
    assert row(UUID(result.id), columns) == ("emails", 7, 3, 1.5, '["a", "b"]', "tests.contract.examples.add")


def test_what_the_task_leaves_open_comes_from_the_backends_options(db: None) -> None:
    result = add.enqueue(1)

    assert row(UUID(result.id), "max_attempts, timeout_seconds, options") == (8, 300.0, "{}")


def test_r28_numbers_beyond_2_to_the_53_arrive_as_they_were(db: None) -> None:
    number = 2**63 + 1

    result = add.enqueue(number)

    assert add.get_result(result.id).args == [number]


def test_missing_tables_are_named_with_the_remedy_and_django_s_error_is_kept(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("alter table djqueue_job rename to elsewhere")

    with pytest.raises(
        ProgrammingError, match=r"relation \"djqueue_job\" does not exist.*run manage.py migrate"
    ) as told:
        add.enqueue(1)

    assert isinstance(told.value.__cause__, ProgrammingError)
