"""`manage.py djqueue import`: waiting jobs out of the real tables of other queues, moved once or left with a reason."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from importlib import resources
from importlib.util import find_spec
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from djqueue.models import Job
from djqueue.testing import assert_enqueued, assert_not_enqueued, enqueued_jobs, run_jobs
from testproject.shop.models import Receipt
from testproject.shop.tasks import noop, send_receipt
from tests.live import with_name
from tests.management.saying import answer, run
from tests.processes import ROOT

pytestmark = pytest.mark.django_db

NOOP = noop.module_path
LATER = datetime(2040, 1, 1, tzinfo=UTC)
SAMPLES = "tests/management/samples/import_apps.py"


def sql(statement: str, *params: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, params or None)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def procrastinate() -> None:
    schema = resources.files("procrastinate.sql").joinpath("schema.sql").read_text()
    sql(schema)


def todo(task: str, **columns: Any) -> int:
    """A job of procrastinate."""
    names = {"task_name": task, "queue_name": "default", "args": "{}", **columns}
    marks = ", ".join(["%s"] * len(names))
    [(id_,)] = sql(
        f"insert into procrastinate_jobs ({', '.join(names)}) values ({marks}) returning id", *names.values()
    )
    return int(id_)


def statuses() -> dict[int, str]:
    return dict(sql("select id, status::text from procrastinate_jobs order by id"))


@pytest.mark.usefixtures("procrastinate")
def test_waiting_jobs_of_procrastinate_are_moved_with_locks_times_and_order() -> None:
    first = todo(send_receipt.module_path, args='{"order_id": 7}', queue_name="emails", priority=5)
    second = todo(NOOP, scheduled_at=LATER, lock="account 1", queueing_lock="once")

    found = answer("import", "--from", "procrastinate")

    assert found["moved"] == {send_receipt.module_path: 1, NOOP: 1}
    assert (found["left"], found["notes"], found["not_waiting"]) == ([], {}, {})
    [mail] = assert_enqueued(send_receipt, kwargs={"order_id": 7}, queue_name="emails", count=1)
    assert mail.priority == 5
    assert_enqueued(noop, run_after=LATER, count=1)
    assert [job.task_name for job in enqueued_jobs()] == [send_receipt.module_path, NOOP]
    keyed = Job.objects.get(task_name=NOOP)
    assert (keyed.ordering_key, keyed.dedupe_key) == ("account 1", "once")
    assert keyed.options["tags"] == [f"procrastinate:{second}"]
    assert statuses() == {first: "cancelled", second: "cancelled"}
    assert sql("select count(*) from procrastinate_events where type = 'cancelled'") == [(2,)]
    assert run_jobs().succeeded == 1
    assert Receipt.objects.get().order_id == 7


@pytest.mark.usefixtures("procrastinate")
def test_a_second_import_finds_nothing_and_what_runs_there_is_left_and_named() -> None:
    todo(NOOP)
    running = todo(NOOP)
    sql("update procrastinate_jobs set status = 'doing' where id = %s", running)

    assert answer("import", "--from", "procrastinate")["moved"] == {NOOP: 1}
    again = answer("import", "--from", "procrastinate")

    assert (again["moved"], again["not_waiting"]) == ({}, {"doing": 1})
    assert_enqueued(noop, count=1)


@pytest.mark.usefixtures("procrastinate")
def test_a_dry_run_says_the_same_and_moves_nothing() -> None:
    ids = [todo(NOOP) for _ in range(5)]

    said = run("import", "--from", "procrastinate", "--dry-run", "--batch", "2")

    assert said == f"5 jobs of procrastinate would be moved.\n  5 {NOOP}\n"
    assert set(statuses().values()) == {"todo"}
    assert_not_enqueued()
    assert answer("import", "--from", "procrastinate", "--batch", "2")["moved"] == {NOOP: 5}
    assert list(statuses()) == ids


@pytest.mark.usefixtures("procrastinate")
def test_what_can_not_be_moved_stays_there_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    noop.using(dedupe_key="taken").enqueue()
    bad = {
        todo("old.tasks.gone"): "no task is called 'old.tasks.gone'",
        todo(send_receipt.module_path, args='{"order": 7}'): "missing a required argument: 'order_id'",
        todo(NOOP, queueing_lock="taken"): "an unfinished job here holds its dedupe key",
        todo(NOOP, args="[1]"): "its arguments are not a list and an object",
    }
    good = todo(NOOP, args='{"number": 3}', queue_name="nowhere", priority=5_000)

    with pytest.raises(SystemExit) as end:
        call_command("djqueue", "import", "--from", "procrastinate")

    said = capsys.readouterr().out
    assert end.value.code == 3
    for id_, reason in bad.items():
        assert statuses()[id_] == "todo"
        assert reason in said
        assert f"({id_})" in said
    assert statuses()[good] == "cancelled"
    assert "1: queue 'nowhere' is not one of QUEUES: moved to the task's own, 'default'" in said
    assert "1: priority 5000 became 100: here they go from -100 to 100" in said


@pytest.mark.usefixtures("procrastinate")
def test_tasks_and_queues_may_have_other_names_here() -> None:
    todo("old.tasks.gone", queue_name="mail")

    found = answer("import", "--from", "procrastinate", "--map", f"old.tasks.gone={NOOP}", "--queue", "mail=emails")

    assert (found["moved"], found["notes"]) == ({NOOP: 1}, {})
    assert_enqueued(noop, queue_name="emails", count=1)


@pytest.mark.slow
def test_waiting_jobs_of_three_apps_are_moved_out_of_the_tables_that_their_migrations_make() -> None:
    """In a process of its own, since an app that was installed once leaves its checks, signals and admin behind."""
    name = f"elsewhere_{uuid4().hex[:8]}"
    command = [sys.executable, "-m", "pytest", SAMPLES, "--ds", "tests.management.samples.settings"]
    env = {**os.environ, "DATABASE_URL": with_name(os.environ["DATABASE_URL"], name)}
    try:
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    finally:
        with psycopg.connect(with_name(os.environ["DATABASE_URL"], "postgres"), autocommit=True) as session:
            session.execute(f'drop database if exists "test_{name}" with (force)')  # type: ignore[arg-type]

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{2 + (find_spec('django_ox') is not None)} passed" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--from", "procrastinate"],
            "expected the table procrastinate_jobs of procrastinate in the database",
        ),
        (["--from", "procrastinate", "--map", "x"], "--map: expected OLD=NEW, got 'x'"),
        (["--from", "procrastinate", "--map", "x=testproject.shop.tasks.nop"], "did you mean"),
        (["--from", "procrastinate", "--batch", "0"], "--batch: expected a whole number from 1 to 10,000"),
    ],
)
def test_what_can_not_be_meant_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        run("import", *words)
