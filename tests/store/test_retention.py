"""Single rows of history that must go while their day stays (R25)."""

import re

import pytest
from django.db import Error

from djqueue.store import db, faults, history, retention
from djqueue.store.retention import Keep
from tests.helpers import raw_connection
from tests.store.history_rows import count, days_ago, finished, finished_elsewhere

pytestmark = pytest.mark.usefixtures("live_database")


@pytest.fixture(autouse=True)
def ten_days(live_database: object) -> None:
    """Partitions for the last ten days and the next one."""
    history.ensure_partitions("default", 1)
    for day in db.rows("default", "select (now() at time zone 'UTC')::date - n from generate_series(2, 10) n"):
        history._make_day("default", day[0])


def delete_all(keep: Keep, whole_days: bool = True) -> int:
    return sum(retention.delete_old("default", keep, whole_days_are_dropped=whole_days))


def test_a_queue_row_overrides_the_days_of_the_settings() -> None:
    db.rows("default", "insert into djqueue_queue (name, history_days) values ('a', 0), ('b', 30), ('c', null)")

    keep = retention.keep("default", 7)

    assert [keep.days(name) for name in "abcd"] == [0, 30, 7, 7]
    assert keep.longest == 30


def test_r25_a_queue_with_fewer_days_loses_its_old_rows_alone() -> None:
    for queue in ("short", "long"):
        finished(days_ago(3), queue=queue)
        finished(days_ago(1), queue=queue)

    assert delete_all(Keep(default=7, queues={"short": 2})) == 1

    assert (count(queue="short"), count(queue="long")) == (1, 2)


def test_r25_a_queue_with_more_days_keeps_its_rows_while_others_go() -> None:
    finished(days_ago(9), queue="long")
    finished(days_ago(9), queue="other")

    assert delete_all(Keep(default=7, queues={"long": 30})) == 1

    assert (count(queue="long"), count(queue="other")) == (1, 0)


def test_r25_where_whole_days_are_dropped_no_row_is_deleted_for_the_default() -> None:
    finished(days_ago(9))

    assert delete_all(Keep(default=7)) == 0
    assert delete_all(Keep(default=7), whole_days=False) == 1


def test_r25_with_no_days_of_history_a_row_stays_a_minute() -> None:
    finished(days_ago(0))
    finished(days_ago(90 / 86_400))

    assert delete_all(Keep(default=0)) == 1
    assert count() == 1


def test_r25_old_rows_of_the_overflow_go_too() -> None:
    finished(days_ago(9), table="djqueue_history_overflow")
    finished(days_ago(0), table="djqueue_history_overflow")

    assert delete_all(Keep(default=7)) == 1
    assert count("djqueue_history_overflow") == 1


def test_r25_a_batch_is_small_and_takes_only_old_rows_of_its_queue() -> None:
    for age in (5, 4, 3, 0):
        finished(days_ago(age), count=700)
        finished(days_ago(age), count=10, queue="other")

    steps = list(retention.delete_old("default", Keep(default=7, queues={"default": 2}), whole_days_are_dropped=True))

    assert sum(steps) == 2_100
    assert max(steps) < 2 * retention.BATCH
    assert (count(), count(queue="other")) == (700, 40)


def test_r25_a_batch_waits_for_no_reader_and_stops_no_ack() -> None:
    finished(days_ago(3), count=10)
    with raw_connection() as reader, raw_connection() as acker:
        reader.autocommit = False
        reader.execute("select count(*) from djqueue_history")
        acker.execute("set lock_timeout = '100ms'")
        steps = retention.delete_old("default", Keep(default=1), whole_days_are_dropped=False)

        with history._briefly("default"):
            assert next(steps) == 10
            finished_elsewhere(acker, days_ago(3))
        reader.rollback()

    assert count() == 1


def test_r25_a_statement_timeout_that_one_large_delete_would_meet_stops_no_batch() -> None:
    finished(days_ago(9), table="djqueue_history_overflow", count=6_000)
    make_each_delete_take_some_time()
    db.rows("default", "set statement_timeout = '5s'")
    with pytest.raises(Error) as raised:
        db.rows("default", "delete from djqueue_history_overflow")
    assert faults.sqlstate(raised.value) == "57014"

    assert delete_all(Keep(default=7)) == 6_000
    assert count("djqueue_history_overflow") == 0


def make_each_delete_take_some_time() -> None:
    """Stand in for millions of rows."""
    db.rows(
        "default",
        "create function slow() returns trigger language plpgsql as "
        "$$ begin perform pg_sleep(0.001); return old; end $$",
    )
    db.rows(
        "default",
        "create trigger slow before delete on djqueue_history_overflow for each row execute function slow()",
    )


@pytest.mark.parametrize("table", ["djqueue_history", "djqueue_history_overflow"])
def test_a_batch_reads_no_whole_table(table: str) -> None:
    for age in range(9):
        finished(days_ago(age), count=3_000, table=table)
    db.rows("default", f"analyze {table}")
    overflow = table == "djqueue_history_overflow"
    statement = retention.DELETE_FROM_OVERFLOW if overflow else retention.DELETE_FROM_HISTORY

    found = db.rows("default", f"explain {statement}", {"queue": "default", "seconds": 86_400})

    plan = "\n".join(row[0] for row in found)
    assert plan.count("Scan") > 2
    assert not re.findall(r"Seq Scan on .*cost=0.00..(?!0.00)", plan), "only empty days may be read whole"
