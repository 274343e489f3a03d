"""`manage.py djqueue health`: silent for idle and busy workers, and each fault, really made, is found."""

import json
import os
import signal
import subprocess
import sys

import pytest
from django.core.management import CommandError

from djqueue.store import db
from testproject.trials import tasks
from tests.helpers import eventually, raw_connection
from tests.live import LiveDatabase
from tests.management.saying import partly, run
from tests.processes import ROOT, Supervisor
from tests.runtime.trial import Trial, rows

pytestmark = pytest.mark.slow

OFTEN = {"heartbeat_seconds": 0.3, "poll_seconds": 0.2}


def ids() -> list[str]:
    """What is not healthy, judged by looks that may be three seconds old."""
    code, found = partly("health", "--max-age", "3s")
    assert code == (0 if found["healthy"] else 4)
    return [each["id"] for each in found["problems"]]


def started(trial: Trial, *args: str) -> Supervisor:
    supervisor = trial.supervisor("--processes", "1", *args, options=OFTEN)
    eventually(lambda: ids() == [], 30, message=lambda: f"{ids()} {supervisor.output()}")
    return supervisor


def assert_healthy_for_four_seconds() -> None:
    """Longer than a look may be old."""
    since = rows("select clock_timestamp()")[0][0]

    eventually(lambda: rows("select clock_timestamp() - %s > interval '4 s'", since)[0][0], 20)

    assert ids() == []


def test_an_idle_worker_is_healthy_and_a_frozen_one_is_not(trial: Trial) -> None:
    started(trial)
    assert "Healthy: 1 workers." in run("health", "--this-host")
    [(pid,)] = rows("select pid from djqueue_worker")

    os.kill(pid, signal.SIGSTOP)

    eventually(lambda: ids() == ["worker_stuck"], 30)


def test_a_fully_busy_worker_is_healthy_however_long_its_jobs_run(trial: Trial) -> None:
    started(trial, "--threads", "2")
    tasks.hold.enqueue("a", trial.file("go"))
    tasks.hold.enqueue("b", trial.file("go"))
    trial.wait_for_starts("a", "b")

    assert_healthy_for_four_seconds()


def test_a_worker_that_runs_its_last_jobs_is_healthy_however_long_they_run(trial: Trial) -> None:
    supervisor = started(trial, "--threads", "2", "--max-jobs", "1")
    tasks.hold.enqueue("long", trial.file("go"))
    trial.wait_for_starts("long")

    assert_healthy_for_four_seconds()

    supervisor.signal(signal.SIGTERM)
    supervisor.wait_for_output("stopping, waiting", within=20)

    assert_healthy_for_four_seconds()


def test_a_claim_loop_that_is_stuck_is_found_though_the_worker_s_heartbeats_go_on(trial: Trial) -> None:
    started(trial)
    with raw_connection() as other:
        other.execute("begin")
        other.execute("lock table djqueue_queue in access exclusive mode")  # the loop reads it; heartbeats don't

        eventually(lambda: "worker_stuck" in ids(), 30)

        other.execute("rollback")
    eventually(lambda: ids() == [], 30)


def test_a_missing_leader_and_a_fleet_without_workers_are_found(live_database: LiveDatabase) -> None:
    assert ids() == ["no_worker", "no_leader"]
    db.rows(
        "default", "insert into djqueue_leader (name, holder, until) values ('djqueue', 'x', now() + interval '9 s')"
    )
    assert ids() == ["no_worker"]
    db.rows("default", "update djqueue_leader set until = clock_timestamp() - interval '6 s'")
    assert ids() == ["no_worker", "no_leader"]


def test_a_database_that_is_gone_is_said_with_the_same_exit_code(live_database: LiveDatabase) -> None:
    gone = {**os.environ, "DATABASE_URL": "postgres://nobody@127.0.0.1:1/nothing"}

    found = subprocess.run(
        [sys.executable, "manage.py", "djqueue", "health", "--json"], cwd=ROOT, env=gone, capture_output=True, text=True
    )

    assert found.returncode == 4, found.stderr
    assert [each["id"] for each in json.loads(found.stdout)["problems"]] == ["database"]


def test_an_age_that_is_none_is_refused(live_database: LiveDatabase) -> None:
    with pytest.raises(CommandError, match="--max-age: expected"):
        run("health", "--max-age", "soon")
