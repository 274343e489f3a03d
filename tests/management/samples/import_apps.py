"""Waiting jobs in the tables of three apps that are installed. `tests.management.test_import` runs this by itself."""

from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command

from djqueue.models import Job
from djqueue.testing import assert_enqueued, run_jobs
from testproject.shop.tasks import call_partner, make_thumbnail, noop
from tests.management.saying import answer

pytestmark = pytest.mark.django_db

NOOP = noop.module_path
LATER = datetime(2040, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


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
