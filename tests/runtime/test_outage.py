"""The database is away for a while: what runs goes on, what has ended is written later, and a stop still ends."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.db import connection
from psycopg import sql

from testproject.trials import tasks
from tests.helpers import database_url, eventually
from tests.live import with_name
from tests.runtime.trial import Trial, dead, history, rows

pytestmark = pytest.mark.slow


@contextmanager
def database_away() -> Iterator[None]:
    """Let nobody connect to the test's database, and end all its sessions; then let them again."""
    name = connection.settings_dict["NAME"]
    connection.close()
    with psycopg.connect(with_name(database_url(), "postgres"), autocommit=True) as session:
        allow = sql.SQL("alter database {} with allow_connections {}")
        session.execute(allow.format(sql.Identifier(name), sql.Literal(False)))
        session.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))
        try:
            yield
        finally:
            session.execute(allow.format(sql.Identifier(name), sql.Literal(True)))


def test_a_job_that_ended_while_the_database_was_away_is_acked_later_whatever_its_limit(trial: Trial) -> None:
    """R19: the outage is longer than its limit, and longer than its lease: one run all the same."""
    tasks.hold.using(timeout_seconds=4.0).enqueue("through", trial.file("go"))
    supervisor = trial.supervisor("--threads", "2", options={"lease_seconds": 3})
    trial.wait_for_starts("through")
    with database_away():
        trial.make("go")
        eventually(lambda: trial.events("end")["through"])
        began = os.times().elapsed
        eventually(lambda: os.times().elapsed - began > 6, 10)

    trial.wait_until_done()

    assert (trial.events()["through"], history(), dead()) == (1, {"succeeded": 1}, [])
    assert "replacing worker" not in supervisor.output()


def test_a_job_that_runs_on_while_the_database_is_away_is_not_given_to_another(trial: Trial) -> None:
    """R19: afterwards the heartbeats come before the reapers of both supervisors."""
    tasks.hold.enqueue("through", trial.file("go"))
    for _ in range(2):
        trial.supervisor("--threads", "1", options={"lease_seconds": 3})
    trial.wait_for_starts("through")
    eventually(lambda: rows("select count(*) from djqueue_worker")[0][0] == 2, 20)
    with database_away():
        began = os.times().elapsed
        eventually(lambda: os.times().elapsed - began > 4, 10)
    eventually(lambda: rows("select lease_until > clock_timestamp() from djqueue_job")[0][0], 10)
    trial.make("go")
    trial.wait_until_done()

    assert (trial.events()["through"], history()) == (1, {"succeeded": 1})


def test_a_stop_ends_although_the_database_is_away(trial: Trial) -> None:
    """R6: with an exit code that says that leases were left to run out; a further signal shortens the wait."""
    tasks.hold.enqueue("long", trial.file("never"))
    supervisor = trial.supervisor(options={"grace_seconds": 0})
    trial.wait_for_starts("long")
    with database_away():
        supervisor.signal(signal.SIGTERM)
        supervisor.wait_for_output("stopping")
        eventually(lambda: len(supervisor.children()) == 1)
        supervisor.signal(signal.SIGTERM)

        assert supervisor.wait(within=10) == 1


def test_workers_that_can_not_connect_yet_end_when_told_to(trial: Trial) -> None:
    """R6"""
    with database_away():
        supervisor = trial.supervisor("--processes", "2")
        supervisor.wait_for_output("database trouble", within=20)

        supervisor.signal(signal.SIGTERM)

        assert supervisor.wait(within=10) == 0
        assert len(supervisor.output()) < 20_000


def test_a_stop_while_the_database_is_away_is_prompt_where_nothing_was_held(trial: Trial) -> None:
    """R6: nothing can be left to give back, so nobody waits for the database."""
    tasks.note.enqueue("before")
    supervisor = trial.supervisor("--processes", "2")
    trial.wait_until_done()
    with database_away():
        supervisor.wait_for_output("database trouble")
        supervisor.signal(signal.SIGTERM)

        assert supervisor.wait(within=10) == 0
