"""What a job costs, in statements, commits, rows and notifications: counted, never timed."""

from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from djqueue.runtime.slot_table import RECORDS
from djqueue.store import workers
from testproject.shop.tasks import noop
from tests.helpers import eventually, raw_connection
from tests.runtime.trial import Trial, rows
from tests.store.factories import ALIAS

BATCH = 2_000

STATISTICS = """
select n_tup_ins, n_tup_upd, n_tup_del from pg_stat_user_tables where relid = 'djqueue_job'::regclass
"""
COMMITS = "select xact_commit from pg_stat_database where datname = current_database()"
IN_HISTORY = "select count(*), sum(attempts) from djqueue_history where outcome = 'succeeded'"


def statements(seen: CaptureQueriesContext) -> list[str]:
    """What was sent, by the first word of each statement."""
    return [query["sql"].split()[0].lower() for query in seen]


# ------------------------------------------------------------------------------------------------ enqueue


def test_an_enqueue_is_one_statement(committed: None) -> None:
    with CaptureQueriesContext(connection) as seen:
        noop.enqueue(1)
        noop.using(dedupe_key="k").enqueue(2)
        noop.using(dedupe_key="k").enqueue(3)

    assert statements(seen) == ["insert", "with", "with"]


def test_an_enqueue_in_a_transaction_adds_one_statement_and_no_savepoint(committed: None) -> None:
    with transaction.atomic(), CaptureQueriesContext(connection) as seen:
        noop.enqueue(1)

    assert statements(seen) == ["insert"]


def test_many_jobs_are_one_statement_for_each_thousand_in_one_transaction(committed: None) -> None:
    with CaptureQueriesContext(connection) as seen:
        noop.enqueue_many([(number,) for number in range(2_500)])

    assert [word for word in statements(seen) if word not in ("begin", "commit")] == ["with"] * 3
    assert statements(seen).count("commit") <= 1


# ------------------------------------------------------------------------------------------------ notifications


@pytest.fixture
def listening(committed: None) -> Any:
    with raw_connection() as session:
        session.execute("listen djqueue")
        yield session


def told(session: psycopg.Connection) -> list[str]:
    """The queues that a listening session was told of, once all is delivered that was committed before."""
    session.execute("select pg_notify('djqueue', 'the last')")
    names: list[str] = []
    for notice in session.notifies(timeout=5):
        if notice.payload == "the last":
            break
        names.append(notice.payload)
    return names


def register(wants_news: bool) -> None:
    info = workers.WorkerInfo(
        id="w", supervisor_id="s", host="h", pid=1, version="", slots=1, queues=["*"], task_names=[], tasks_hash=""
    )
    workers.register(ALIAS, info)
    workers.wants_news(ALIAS, "w", wants_news)


@pytest.mark.parametrize("has_worker", [False, True], ids=["no worker", "a busy worker"])
def test_nobody_is_told_while_no_worker_wants_news(listening: psycopg.Connection, has_worker: bool) -> None:
    if has_worker:
        register(wants_news=False)

    for number in range(20):
        noop.enqueue(number)
    noop.enqueue_many([(number,) for number in range(1_500)])

    assert told(listening) == []


def test_a_waiting_worker_is_told_once_for_each_transaction_and_queue(listening: psycopg.Connection) -> None:
    register(wants_news=True)

    with transaction.atomic():
        for number in range(20):
            noop.enqueue(number)
        noop.using(queue_name="emails").enqueue(1)
        noop.enqueue_many([(number,) for number in range(1_500)])
    noop.enqueue(1)

    assert sorted(told(listening)) == ["default", "default", "emails"]


# ------------------------------------------------------------------------------------------------ a worker


@pytest.mark.slow
def test_a_drain_writes_each_job_twice_and_commits_once_for_many(trial: Trial) -> None:
    """Claim and ack: one update and one delete per job, one row of history; acks ride with the next claim.

    A heartbeat that falls into the drain updates what the worker holds at that moment, at most its whole table.
    """
    noop.enqueue_many([(number,) for number in range(BATCH)])
    rows("select pg_stat_force_next_flush()")
    eventually(
        lambda: rows("select n_tup_ins from pg_stat_user_tables where relid = 'djqueue_job'::regclass") == [(BATCH,)]
    )
    [(commits_before,)] = rows(COMMITS)
    [before] = rows(STATISTICS)

    assert trial.supervisor("--drain").wait(within=60) == 0

    assert rows(IN_HISTORY) == [(BATCH, BATCH)]
    written = eventually(lambda: deleted_since(before), within=10)
    [(commits_after,)] = rows(COMMITS)
    inserted, updated, deleted = written
    assert (inserted, deleted) == (0, BATCH)
    assert BATCH <= updated <= BATCH + RECORDS
    assert commits_after - commits_before < BATCH / 5


def deleted_since(before: tuple[Any, ...]) -> tuple[int, ...] | None:
    """Rows inserted, updated and deleted since then, once the server has counted all deletions."""
    [now] = rows(STATISTICS)
    counts = tuple(late - early for early, late in zip(before, now, strict=True))
    return counts if counts[2] >= BATCH else None
