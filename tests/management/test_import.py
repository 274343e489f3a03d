"""`manage.py djqueue import`: waiting jobs out of the real tables of other queues, moved once or left with a reason."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import resources
from importlib.util import find_spec
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import modify_settings, override_settings

from djqueue.models import Job
from djqueue.testing import assert_enqueued, assert_not_enqueued, enqueued_jobs, run_jobs
from testproject.shop.models import Receipt
from testproject.shop.tasks import call_partner, make_thumbnail, noop, send_receipt
from tests.management.saying import answer, run

pytestmark = pytest.mark.django_db

NOOP = noop.module_path
LATER = datetime(2040, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def sql(statement: str, *params: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, params or None)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def procrastinate() -> None:
    schema = resources.files("procrastinate.sql").joinpath("schema.sql").read_text()
    sql(schema)


@pytest.fixture
def app(request: pytest.FixtureRequest) -> Iterator[None]:
    """Another queue's app with its tables, as its own migrations make them."""
    with (
        override_settings(Q_CLUSTER={"name": "shop", "orm": "default", "timeout": 60, "retry": 120}),
        modify_settings(INSTALLED_APPS={"append": request.param}),
    ):
        call_command("migrate", apps.get_containing_app_config(f"{request.param}.models").label, verbosity=0)
        yield


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


@pytest.mark.parametrize("app", ["django_tasks_db"], indirect=True)
@pytest.mark.usefixtures("app")
def test_waiting_jobs_of_django_tasks_db_are_moved() -> None:
    from django_tasks_db.models import DBTaskResult, get_date_max

    def row(status: str = "READY", **fields: Any) -> Any:
        call = {"args": [1], "kwargs": {"failures": 0}}
        given = {"run_after": get_date_max(), "args_kwargs": call, "queue_name": "partner", "status": status}
        return DBTaskResult.objects.create(
            task_path=call_partner.module_path, backend_name="default", exception_class_path="", traceback="",
            **{**given, **fields},
        )  # fmt: skip

    row(priority=7)
    row(run_after=LATER)
    kept = [row("RUNNING"), row("SUCCESSFUL")]

    found = answer("import", "--from", "django-tasks-db")

    assert (found["moved"], found["not_waiting"]) == ({call_partner.module_path: 2}, {"RUNNING": 1})
    assert {each.pk for each in DBTaskResult.objects.all()} == {each.pk for each in kept}
    assert_enqueued(call_partner, args=[1], kwargs={"failures": 0}, queue_name="partner", count=2)
    assert_enqueued(call_partner, run_after=LATER, count=1)
    assert_enqueued(call_partner, run_after=timedelta(0), count=1)
    assert run_jobs().succeeded == 1


@pytest.mark.skipif(find_spec("django_ox") is None, reason="django-ox needs Python 3.12")
@pytest.mark.parametrize("app", ["django_ox"], indirect=True)
@pytest.mark.usefixtures("app")
def test_waiting_jobs_of_django_ox_are_moved_with_the_attempts_that_are_left() -> None:
    from django_ox.models import OxTask

    def row(status: str = "READY", **fields: Any) -> Any:
        given = {"args": ["a.png"], "kwargs": {"width": 3}, "queue_name": "images", "status": status}
        return OxTask.objects.create(
            task_path=make_thumbnail.module_path, backend_name="default", enqueued_at=NOW, **{**given, **fields}
        )

    first = row(attempts=1, max_attempts=3)
    row(run_after=LATER, id=UUID(int=7))
    row("RUNNING")
    row("WAITING")

    found = answer("import", "--from", "django-ox")

    assert (found["moved"], found["not_waiting"]) == ({make_thumbnail.module_path: 2}, {"RUNNING": 1, "WAITING": 1})
    assert sorted(each.status for each in OxTask.objects.all()) == ["DISCARDED", "DISCARDED", "RUNNING", "WAITING"]
    assert_enqueued(make_thumbnail, args=["a.png", 3], count=2)
    assert_enqueued(make_thumbnail, run_after=LATER, count=1)
    assert Job.objects.get(options__tags__contains=[f"django-ox:{first.pk}"]).max_attempts == 2


@pytest.mark.parametrize("app", ["django_q"], indirect=True)
@pytest.mark.usefixtures("app")
def test_waiting_jobs_of_django_q2_are_moved_by_its_own_code(capsys: pytest.CaptureFixture[str]) -> None:
    from django_q.models import OrmQ
    from django_q.tasks import async_task

    async_task(call_partner.module_path, 1, failures=0, timeout=9, group="g")
    async_task(noop, 5)  # as a function that has become a task since is read back
    async_task(NOOP, hook="shop.hooks.done")
    OrmQ.objects.create(key="shop", payload="tampered", lock=NOW)
    async_task(NOOP)
    OrmQ.objects.filter(pk=OrmQ.objects.latest("pk").pk).update(lock=LATER)

    with pytest.raises(SystemExit) as end:
        call_command("djqueue", "import", "--from", "django-q2", "--queue", "shop=partner")

    said = capsys.readouterr().out
    assert end.value.code == 3
    assert "2 jobs of django-q2 moved." in said
    assert "1 left: it asks for hook, which no job here can do" in said
    assert "1 left: its payload can't be opened: BadSignature" in said
    assert "1 locked there: its own workers have them" in said
    assert OrmQ.objects.count() == 3
    assert_enqueued(call_partner, args=[1], kwargs={"failures": 0}, queue_name="partner", count=1)
    assert_enqueued(noop, args=[5], count=1)
    assert Job.objects.get(task_name=call_partner.module_path).timeout_seconds == 9


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
