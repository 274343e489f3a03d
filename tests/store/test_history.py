"""Partitions of history: made ahead, dropped when old, never in the way of an ack."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from django.db import Error, connection, connections, transaction

from djqueue.store import db, faults, history
from tests.helpers import eventually, raw_connection
from tests.live import LiveDatabase
from tests.store.history_rows import (
    count,
    days_ago,
    digits,
    finished,
    finished_elsewhere,
    is_waiting,
    midday,
    partitions,
    tables,
    today,
)


@pytest.fixture(autouse=True)
def no_partitions(live_database: LiveDatabase) -> None:
    """Start from a partitioned history without partitions, whatever migrating made."""
    for day in partitions():
        db.rows("default", f"drop table djqueue_history_p{day}")


@pytest.fixture
def reader() -> Iterator[psycopg.Connection]:
    """A second session that holds history and all its partitions open until it is committed or closed."""
    with raw_connection() as other:
        other.autocommit = False
        other.execute("select count(*) from djqueue_history")
        yield other


@pytest.fixture(params=["django", "adopted"])
def connection_kind(request: pytest.FixtureRequest, live_database: LiveDatabase) -> Iterator[str]:
    """Both kinds of connection that the store runs on."""
    if request.param == "adopted":
        db.adopt("default", prepared=True)
    yield request.param
    db.drop("default")


def expected_days(first: int = -1, last: int = 14) -> list[str]:
    return [digits(today() + timedelta(days=n)) for n in range(first, last + 1)]


def make_old_days(*ages: int) -> None:
    for age in ages:
        history._make_day("default", today() - timedelta(days=age))


def test_ensure_makes_the_days_from_yesterday_to_two_weeks_ahead(connection_kind: str) -> None:
    assert history.ensure_partitions("default") == 16

    assert partitions() == expected_days()


def test_ensure_makes_only_what_is_missing(connection_kind: str) -> None:
    history.ensure_partitions("default", 3)

    assert history.ensure_partitions("default", 5) == 2
    assert history.ensure_partitions("default", 5) == 0
    assert partitions() == expected_days(last=5)


def test_a_day_begins_and_ends_at_midnight_utc_whatever_the_session_says(live_database: LiveDatabase) -> None:
    db.rows("default", "set time zone 'Pacific/Auckland'")
    history.ensure_partitions("default", 1)
    start = midday(today()) - timedelta(hours=12)

    finished(start)
    finished(start + timedelta(hours=24) - timedelta(microseconds=1))

    assert count(f"djqueue_history_p{digits(today())}") == 2


def test_partitions_carry_the_indexes_of_the_whole(live_database: LiveDatabase) -> None:
    history.ensure_partitions("default", 0)

    indexes = "select regexp_replace(indexdef, '.* USING ', '') from pg_indexes where tablename = %(name)s order by 1"
    whole = db.rows("default", indexes, {"name": "djqueue_history"})
    today_only = db.rows("default", indexes, {"name": f"djqueue_history_p{digits(today())}"})

    assert len(whole) >= 2
    assert today_only == whole


def test_several_may_make_partitions_at_once(live_database: LiveDatabase) -> None:
    together = threading.Barrier(4)

    def make(_: int) -> int:
        try:
            together.wait()
            return history.ensure_partitions("default")
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(make, range(4)))

    assert sum(made) == 16
    assert partitions() == expected_days()


def test_ensure_works_inside_a_transaction_and_keeps_its_lock_timeout(live_database: LiveDatabase) -> None:
    with transaction.atomic():
        db.rows("default", "set local lock_timeout = '7s'")
        history.ensure_partitions("default", 2)

        assert db.rows("default", "show lock_timeout") == [("7s",)]
    assert partitions() == expected_days(last=2)
    assert db.rows("default", "show lock_timeout") == [("0",)]


def test_ensure_gives_up_on_a_lock_that_is_not_given_back(
    live_database: LiveDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "TRIES", 2)
    with raw_connection() as other, other.transaction():
        other.execute("lock table djqueue_history in share update exclusive mode")

        with pytest.raises(Error) as raised:
            history.ensure_partitions("default")

    assert faults.sqlstate(raised.value) == "55P03"
    assert history.ensure_partitions("default") == 16


def test_ensure_does_nothing_on_a_plain_history(live_database: LiveDatabase) -> None:
    """R26: tables that were made without the migrations."""
    db.rows("default", "drop table djqueue_history")
    db.rows("default", "create table djqueue_history (like djqueue_history_overflow including all)")

    assert history.ensure_partitions("default") == 0
    assert not history.can_partition("default")
    assert history.drop_partitions("default", 1) == 0


def test_ensure_does_nothing_where_there_is_no_history(live_database: LiveDatabase) -> None:
    db.rows("default", "drop table djqueue_history")

    assert history.ensure_partitions("default") == 0


def test_ensure_does_nothing_for_a_role_that_may_not_make_tables(live_database: LiveDatabase) -> None:
    db.rows("default", f"create role reader_{live_database.name}")
    db.rows("default", f"set role reader_{live_database.name}")
    try:
        assert history.ensure_partitions("default") == 0
        assert history.drop_partitions("default", 1) == 0
    finally:
        db.rows("default", "reset role")
        db.rows("default", f"drop role reader_{live_database.name}")


def test_ensure_leaves_a_day_that_a_larger_partition_covers(live_database: LiveDatabase) -> None:
    db.rows("default", "create table whole partition of djqueue_history for values from (minvalue) to (maxvalue)")

    assert history.ensure_partitions("default", 1) == 0
    assert tables() == []


def test_days_with_rows_in_overflow_get_their_partition_and_then_the_rows(connection_kind: str) -> None:
    ids = finished(days_ago(0), table="djqueue_history_overflow", count=3)
    ids += finished(days_ago(40), table="djqueue_history_overflow")
    history.ensure_partitions("default")

    assert history.drain_overflow("default") == 4

    assert count("djqueue_history_overflow") == 0
    assert {row[0] for row in db.rows("default", "select id from djqueue_history")} == set(ids)
    assert partitions() == [digits(today() - timedelta(days=40)), *expected_days()]


def test_overflow_is_moved_in_batches(live_database: LiveDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    finished(days_ago(0), table="djqueue_history_overflow", count=history.BATCH * 2 + 1)
    monkeypatch.setattr(history, "MOVE_FOR_SECONDS", 0)

    assert history.drain_overflow("default") == history.BATCH
    assert history.drain_overflow("default") == history.BATCH
    assert history.drain_overflow("default") == 1
    assert history.drain_overflow("default") == 0


def test_a_row_on_its_way_from_overflow_is_never_seen_twice_or_not_at_all(live_database: LiveDatabase) -> None:
    (id_,) = finished(days_ago(0), table="djqueue_history_overflow")
    history.ensure_partitions("default")
    with raw_connection() as other:
        with transaction.atomic():
            history.drain_overflow("default")
            before = seen_by(other, id_)
        after = seen_by(other, id_)

    assert (before, after) == (1, 1)


def seen_by(other: psycopg.Connection, id_: UUID) -> int:
    rows = other.execute(
        "select id from djqueue_history where id = %(id)s union all "
        "select id from djqueue_history_overflow where id = %(id)s",
        {"id": id_},
    ).fetchall()
    return len(rows)


def test_r25_days_older_than_the_limit_are_dropped_with_their_rows(connection_kind: str) -> None:
    history.ensure_partitions("default", 1)
    make_old_days(7, 8, 9)
    finished(midday(today() - timedelta(days=7)))
    finished(midday(today() - timedelta(days=8)), count=5)

    assert history.drop_partitions("default", 7) == 2

    assert tables() == [digits(today() - timedelta(days=7)), *expected_days(last=1)]
    assert count() == 1


def test_r25_yesterday_stays_even_where_nothing_is_to_be_kept(live_database: LiveDatabase) -> None:
    history.ensure_partitions("default", 0)
    make_old_days(2)

    assert history.drop_partitions("default", 0) == 1
    assert tables() == expected_days(last=0)


def test_dropping_is_refused_inside_a_transaction(live_database: LiveDatabase) -> None:
    with transaction.atomic(), pytest.raises(transaction.TransactionManagementError):
        history.drop_partitions("default", 7)


def test_r25_a_reader_that_holds_history_open_stops_no_ack_and_no_partition_work(
    live_database: LiveDatabase, reader: psycopg.Connection
) -> None:
    reader.rollback()
    history.ensure_partitions("default", 0)
    make_old_days(9)
    reader.execute("select count(*) from djqueue_history")
    pruner = Pruning()

    with raw_connection() as acker:
        acker.execute("set lock_timeout = '50ms'")
        eventually(lambda: is_waiting(acker, "alter table djqueue_history detach"))
        acked = finished_elsewhere(acker, days_ago(0))
        assert seen_by(acker, acked) == 1
        pruner.end(within=10)
        finished_elsewhere(acker, days_ago(0))

    assert pruner.dropped == 0
    assert history.ensure_partitions("default", 3) == 3
    assert digits(today() - timedelta(days=9)) in tables()


def test_r25_a_detach_that_was_cut_short_is_finished_by_a_later_call(
    live_database: LiveDatabase, reader: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, connection_kind: str
) -> None:
    monkeypatch.setattr(history, "DETACH_WITHIN_SECONDS", 0.2)
    reader.rollback()
    make_old_days(9, 10)
    reader.execute("select count(*) from djqueue_history")

    assert history.drop_partitions("default", 7) == 0
    assert history.drop_partitions("default", 7) == 0
    assert len(tables()) == 2
    reader.rollback()

    assert history.drop_partitions("default", 7) == 2
    assert tables() == []


def test_r25_a_detached_table_that_could_not_be_dropped_is_dropped_later(live_database: LiveDatabase) -> None:
    make_old_days(9)
    name = f"djqueue_history_p{digits(today() - timedelta(days=9))}"
    db.rows("default", f"alter table djqueue_history detach partition {name}")
    with raw_connection() as other, other.transaction():
        other.execute(f"select from {name}")
        assert history.drop_partitions("default", 7) == 0
        assert len(tables()) == 1

    assert history.drop_partitions("default", 7) == 1
    assert tables() == []


def test_tables_that_only_look_like_partitions_are_left_alone(live_database: LiveDatabase) -> None:
    db.rows("default", "create table djqueue_history_p20260230 ()")
    db.rows("default", "create table djqueue_history_precious ()")

    assert history.drop_partitions("default", 7) == 0
    assert tables() == ["20260230"]


class Pruning:
    """`drop_partitions` in a thread of its own."""

    def __init__(self) -> None:
        self.dropped = -1
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.dropped = history.drop_partitions("default", 7)
        finally:
            connection.close()

    def end(self, within: float) -> None:
        self._thread.join(within)
        assert not self._thread.is_alive()
