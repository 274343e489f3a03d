"""How statements reach the database, and what its errors mean."""

import threading

import psycopg
import pytest
from django.db import DataError, Error, IntegrityError, OperationalError, connections, transaction
from django.test.utils import CaptureQueriesContext

from djqueue.store import db, enqueue, faults
from tests.helpers import raw_connection
from tests.store.factories import ALIAS, Party, ack, add, count, new_job, take


def test_rows_returns_nothing_for_a_statement_without_rows(store: str) -> None:
    assert db.rows(ALIAS, "set local work_mem = '8MB'") == []
    assert db.rows(ALIAS, "select 1, 'x' where %(yes)s", {"yes": True}) == [(1, "x")]


def test_a_statement_takes_part_in_the_callers_transaction(committed: None) -> None:
    with transaction.atomic():
        add()
        transaction.set_rollback(True)

    assert count() == 0


def test_a_large_statement_runs_by_its_kept_plan_and_is_never_compiled_and_the_session_forgets_both(
    adopted: None,
) -> None:
    settings = "select current_setting('plan_cache_mode'), current_setting('jit')"
    db.rows(ALIAS, "set jit = on")

    assert db.rows_by_generic_plan(ALIAS, settings, {}) == [("force_generic_plan", "off")]
    assert db.rows(ALIAS, settings) == [("auto", "on")]


def test_r12_an_adopted_connection_keeps_no_log_of_its_statements(
    adopted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connections[ALIAS]
    monkeypatch.setattr(connection, "force_debug_cursor", True)
    connection.queries_log.clear()

    add(5)
    take(5)

    assert len(connection.queries_log) == 0


@pytest.mark.parametrize("prepared", [True, False])
def test_statements_are_prepared_where_that_is_asked_for(committed: None, prepared: bool) -> None:
    db.adopt(ALIAS, prepared=prepared)

    take()
    take()

    assert (db.rows(ALIAS, "select count(*) from pg_prepared_statements")[0][0] > 0) is prepared


PREPARED = "select count(*) from pg_prepared_statements where statement like 'select 4711%%'"


def test_a_prepared_statement_is_kept_and_the_connection_stays_as_django_made_it(committed: None) -> None:
    threshold = connections[ALIAS].connection.prepare_threshold if connections[ALIAS].connection else None

    assert db.rows_prepared(ALIAS, "select 4711 + %(n)s::int", {"n": 1}) == [(4712,)]
    assert db.rows_prepared(ALIAS, "select 4711 + %(n)s::int", {"n": 2}) == [(4713,)]

    assert db.rows(ALIAS, PREPARED) == [(1,)]
    assert connections[ALIAS].connection.prepare_threshold == threshold


def test_a_prepared_statement_goes_by_djangos_cursor_where_queries_are_watched(committed: None) -> None:
    with CaptureQueriesContext(connections[ALIAS]) as seen:
        db.rows_prepared(ALIAS, "select 4711", {})

    assert [query["sql"] for query in seen] == ["select 4711"]


def test_an_error_of_a_prepared_statement_is_djangos_and_breaks_the_transaction_as_usual(committed: None) -> None:
    with pytest.raises(DataError), transaction.atomic():
        db.rows_prepared(ALIAS, "select 1 / %(n)s::int", {"n": 0})

    with transaction.atomic():
        transaction.set_rollback(True)
        with pytest.raises(transaction.TransactionManagementError):
            db.rows_prepared(ALIAS, "select 4711", {})


def test_a_prepared_statement_takes_part_in_the_callers_transaction(committed: None) -> None:
    with transaction.atomic():
        enqueue.enqueue(ALIAS, new_job(), prepared=True)
        transaction.set_rollback(True)

    assert count() == 0


def test_adopting_again_keeps_a_good_connection(adopted: None) -> None:
    before = db.rows(ALIAS, "select pg_backend_pid()")

    db.adopt(ALIAS, prepared=True)

    assert db.rows(ALIAS, "select pg_backend_pid()") == before


def kill_this_connection() -> None:
    [(pid,)] = db.rows(ALIAS, "select pg_backend_pid()")
    with raw_connection() as other:
        other.execute("select pg_terminate_backend(%s, 5000)", [pid])


def test_r15_a_killed_connection_is_lost_and_the_next_one_is_adopted(adopted: None) -> None:
    kill_this_connection()

    with pytest.raises(psycopg.Error) as caught:
        db.rows(ALIAS, "select 1")
    assert faults.connection_is_lost(ALIAS, caught.value)

    db.drop(ALIAS)
    with pytest.raises(psycopg.OperationalError, match="adopt it again"):
        db.execute(ALIAS, "select 1")
    db.adopt(ALIAS, prepared=True)
    assert db.fetch(db.execute(ALIAS, "select 1")) == [(1,)]


def test_adopting_replaces_a_connection_that_has_died_unnoticed(adopted: None) -> None:
    kill_this_connection()

    db.adopt(ALIAS, prepared=True)

    assert db.rows(ALIAS, "select 1") == [(1,)]


def test_a_connection_is_dropped_in_whatever_state_it_is(committed: None) -> None:
    transaction.set_autocommit(False)
    with pytest.raises(Error):
        db.rows(ALIAS, "select 1 / 0")
    kill_connection = connections[ALIAS].connection.close
    kill_connection()

    db.drop(ALIAS)

    assert db.rows(ALIAS, "select 1") == [(1,)]
    assert connections[ALIAS].get_autocommit()


@pytest.mark.parametrize("way", [db.together, db.one_transaction])
def test_statements_of_a_block_commit_or_fail_as_one(adopted: None, other: Party, way: object) -> None:
    with pytest.raises(psycopg.Error), way(ALIAS):  # type: ignore[operator]
        db.execute(ALIAS, "insert into djqueue_worker (id) values ('w')")
        db.execute(ALIAS, "select 1 / 0")
    assert other.do(count, "worker") == 0

    with way(ALIAS):  # type: ignore[operator]
        db.execute(ALIAS, "insert into djqueue_worker (id) values ('w')")
    assert other.do(count, "worker") == 1


@pytest.mark.parametrize("way", [db.together, db.one_transaction])
def test_the_same_blocks_work_on_djangos_connection(committed: None, other: Party, way: object) -> None:
    with pytest.raises(Error), way(ALIAS):  # type: ignore[operator]
        db.rows(ALIAS, "insert into djqueue_worker (id) values ('w')")
        db.rows(ALIAS, "select 1 / 0")
    assert other.do(count, "worker") == 0

    with way(ALIAS):  # type: ignore[operator]
        db.rows(ALIAS, "insert into djqueue_worker (id) values ('w')")
    assert other.do(count, "worker") == 1


def test_r22_a_column_added_under_a_running_worker_disturbs_no_prepared_statement(adopted: None, other: Party) -> None:
    add(4)
    ack(*take(2))

    other.do(db.rows, ALIAS, "alter table djqueue_job add column of_the_next_version text not null default 'x'")
    other.do(db.rows, ALIAS, "alter table djqueue_history add column of_the_next_version text")

    assert len(ack(*take(2))) == 2
    assert len(add(1)) == 1


def test_each_thread_has_its_own_way(adopted: None) -> None:
    """An adopted connection is the thread's, not the alias's."""
    found: list[bool] = []

    def look() -> None:
        add()
        found.append(getattr(connections[ALIAS], db._ADOPTED, False))
        db.drop(ALIAS)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()

    assert found == [False]
    assert count() == 1


# ------------------------------------------------------------------------------------------------ faults


def caused(error: Exception, sqlstate: str) -> Exception:
    """An error of Django around psycopg's, as Django raises it."""
    inner = psycopg.Error("inner")
    inner.sqlstate = sqlstate
    error.__cause__ = inner
    return error


def test_r19_the_sqlstate_decides_not_the_class(store: str) -> None:
    assert faults.should_repeat(caused(OperationalError("deadlock detected"), "40P01"))
    assert faults.should_repeat(caused(Error("whatever"), "40001"))
    assert not faults.should_repeat(caused(OperationalError("too large"), "54000"))
    assert not faults.should_repeat(OperationalError("no state"))


@pytest.mark.parametrize("state", ["08006", "08P01", "57P01", "57P02", "57P03", "25P03", "25006"])
def test_r19_a_connection_is_lost_when_the_server_or_the_primary_is(store: str, state: str) -> None:
    assert faults.connection_is_lost(ALIAS, caused(OperationalError("x"), state))


@pytest.mark.parametrize("state", ["54000", "57014", "55P03", "40P01", "40001", "23505", "53200"])
def test_r19_an_error_of_a_statement_costs_no_connection(store: str, state: str) -> None:
    assert not faults.connection_is_lost(ALIAS, caused(OperationalError("x"), state))


def test_a_missing_partition_is_told_by_its_state() -> None:
    assert faults.is_missing_partition(caused(IntegrityError("x"), "23514"))
    assert not faults.is_missing_partition(caused(IntegrityError("x"), "23505"))


def test_the_words_of_an_error_are_one_line_with_its_state() -> None:
    assert faults.words(caused(OperationalError("first\nsecond"), "57P01")) == "first [57P01]"
    assert faults.words(OperationalError("")) == "OperationalError"
