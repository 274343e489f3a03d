"""`manage.py djqueue pause` and `resume`: of a queue, a task or a tenant; what they refuse."""

from datetime import datetime, timedelta

import pytest
from django.core.management import CommandError
from django.utils import timezone

from djqueue.models import Pause, Queue
from tests.management.saying import answer, run

NOOP = "testproject.shop.tasks.noop"

pytestmark = pytest.mark.django_db


def test_a_queue_is_paused_for_a_while_with_reason_and_who() -> None:
    said = answer("pause", "emails", "--for", "2h", "--reason", "moving", "--by", "ada")

    queue = Queue.objects.get()
    assert queue.paused_until is not None
    assert abs(queue.paused_until - timezone.now() - timedelta(hours=2)) < timedelta(minutes=1)
    assert (queue.name, queue.paused_reason, queue.paused_by) == ("emails", "moving", "ada")
    assert said == {
        "kind": "queue", "name": "emails", "until": queue.paused_until.isoformat(), "reason": "moving", "by": "ada",
    }  # fmt: skip


@pytest.mark.parametrize(("option", "kind", "name"), [("--task", "task", NOOP), ("--tenant", "tenant", "acme")])
def test_a_task_and_a_tenant_are_paused_until_a_moment_and_resumed(option: str, kind: str, name: str) -> None:
    said = run("pause", option, name, "--until", "2040-05-06T07:08+00:00", "--by", "ada")

    pause = Pause.objects.get()
    assert (pause.kind, pause.name, pause.paused_by, pause.swept) == (kind, name, "ada", False)
    assert pause.paused_until == datetime.fromisoformat("2040-05-06T07:08+00:00")
    assert said == f"{kind} {name} is paused until 2040-05-06 07:08:00 UTC; what runs goes on.\n"

    assert run("resume", option, name) == f"{kind} {name} goes on.\n"
    assert not Pause.objects.exists()


def test_without_an_end_a_pause_lasts_until_somebody_resumes_it() -> None:
    assert "until it is resumed" in run("pause", "emails")
    assert Queue.objects.get().paused_by != ""

    assert answer("resume", "emails") == {"kind": "queue", "name": "emails"}
    assert Queue.objects.get().paused_until is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pause"], "expected one of QUEUE, --task and --tenant, got none"),
        (["pause", "emails", "--tenant", "x"], "got 2 of them"),
        (["pause", "emials"], "did you mean 'emails'"),
        (["pause", "--task", "testproject.shop.tasks.nop"], "did you mean 'testproject.shop.tasks.noop'"),
        (["pause", "--tenant", ""], "tenant: expected a name of 1 to 200"),
        (["pause", "--tenant", "x" * 201], "tenant: expected a name of 1 to 200"),
        (["pause", "emails", "--for", "soon"], "--for: expected a duration"),
        (["pause", "emails", "--until", "soon"], "--until: expected a date"),
        (["pause", "emails", "--until", "2020-01-01"], "--until: expected a moment ahead"),
        (["pause", "emails", "--until", "2040-01-01", "--for", "1h"], "expected --until or --for, got both"),
        (["pause", "emails", "--backend", "none"], "--backend: expected"),
        (["pause", "emails", "--until", "9999-12-31T23:00-12:00"], "--until: expected a date"),
        (["pause", "emails", "--reason", "a\0b"], "--reason: expected text without NUL"),
        (["pause", "emails", "--by", "a\udcffb"], "--by: expected valid Unicode"),
        (["pause", "--tenant", "a\udcffb"], "tenant: expected valid Unicode"),
        (["pause", "--tenant", "a\0b"], "tenant: expected text without NUL"),
        (["resume"], "expected one of QUEUE, --task and --tenant, got none"),
        (["resume", "emails"], "resume: expected something that is paused, got queue 'emails'"),
        (["resume", "--tenant", "acme"], "resume: expected something that is paused, got tenant 'acme'"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_changed(words: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        run(*words)
    assert not Pause.objects.exists()
    assert not Queue.objects.exists()
