"""Pauses of tasks and tenants in the admin."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.utils import timezone

from djqueue.models import Pause
from tests.admin import rows
from tests.admin.conftest import Login
from tests.admin.pages import act, add_to, list_of, page_of, text_of

FORM = {
    "kind": "task", "name": rows.TASK, "paused_until_0": "2040-01-02", "paused_until_1": "03:04:05", "reason": "moving",
}  # fmt: skip


def make_pause(**fields: object) -> Pause:
    base = {"kind": "tenant", "name": "acme", "paused_until": timezone.now() + timedelta(hours=1), "paused_by": "bob"}
    return Pause.objects.create(**{**base, **fields})


def test_a_task_is_paused_with_who_why_and_until(login: Login) -> None:
    client = login("view_pause", "change_pauses")

    client.post(add_to("pause"), FORM)

    pause = Pause.objects.get()
    assert (pause.kind, pause.name, pause.reason, pause.paused_by, pause.swept) == (
        "task", rows.TASK, "moving", "ada", False,
    )  # fmt: skip
    assert pause.paused_until == datetime(2040, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert LogEntry.objects.filter(object_id=str(pause.pk)).count() == 1


def test_a_pause_is_listed_shown_and_lifted(login: Login) -> None:
    client = login("view_pause", "change_pauses")
    pause = make_pause(reason="<b>late</b>")

    listed, shown = text_of(client.get(list_of("pause"))), text_of(client.get(page_of(pause)))
    [said] = act(client, "resume", [pause])

    assert "acme" in listed and "being set aside" in listed and "&lt;b&gt;late" in listed
    assert "bob" in shown
    assert said == "Resume: 1 resumed."
    assert not Pause.objects.exists()


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("name", "no.such.task", "Expected a task that this project has"),
        ("name", "", "This field is required"),
        ("kind", "queue", "Select a valid choice"),
        ("paused_until_0", "2020-01-01", "Expected a moment ahead"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_paused(login: Login, field: str, value: str, words: str) -> None:
    client = login("view_pause", "change_pauses")

    assert words in text_of(client.post(add_to("pause"), {**FORM, field: value}))
    assert not Pause.objects.exists()


def test_who_may_only_look_pauses_and_resumes_nothing(login: Login) -> None:
    client = login("view_pause")
    pause = make_pause()

    assert client.post(add_to("pause"), FORM).status_code == 403
    act(client, "resume", [pause])

    assert list(Pause.objects.values_list("name", flat=True)) == ["acme"]
