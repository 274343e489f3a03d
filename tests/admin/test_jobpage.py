"""A job's own page: its life to scale, why it does not run, its family, and what may be done to it."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from djqueue.admin import tree
from djqueue.models import DeadLetter, History, Job
from tests.admin import rows
from tests.admin.conftest import Login
from tests.admin.pages import page_of, text_of, told

PLACES = ("view_job", "view_history", "view_deadletter")
MAKERS = [rows.make_job, rows.make_scheduled_job, rows.make_running_job, rows.make_finished, rows.make_dead_letter]


def widths(page: str) -> list[float]:
    """How wide the stretches of the timeline are, of 1,000."""
    picture = re.search(r'<svg class="djq-timeline".*?</svg>', page)
    assert picture
    return [float(width) for width in re.findall(r'width="([\d.]+)" height="40"', picture[0])]


def alter(client: Client, job: Any, act: str, **fields: str) -> list[str]:
    """Send one of the forms of a job's page; return what the user is told."""
    form = {f"{act}-{name}": value for name, value in fields.items()}
    return told(client.post(reverse("admin:djqueue_job_alter", args=[job.pk]), {"act": act, **form}))


def test_the_timeline_is_to_scale(login: Login) -> None:
    now = timezone.now()
    begin = now - timedelta(seconds=100)
    error = {**rows.ERROR, "started_at": (begin + timedelta(seconds=20)).isoformat()}
    error["at"] = (begin + timedelta(seconds=30)).isoformat()
    job = rows.make_finished(
        created_at=begin, started_at=begin + timedelta(seconds=80), finished_at=now, attempts=2, errors=[error]
    )

    page = text_of(login(*PLACES).get(page_of(job)))

    assert widths(page) == [200, 100, 500, 200]
    assert "attempt 2: succeeded" in page


@pytest.mark.parametrize("make", MAKERS)
def test_r20_every_page_of_a_job_takes_at_most_twelve_queries(login: Login, make: Any) -> None:
    client = login(*PLACES, "view_payload", "edit_job", "duplicate_job", "retry_job", "cancel_job")
    parent = rows.make_finished()
    job = make(options={"parent": str(parent.pk), "subject": "shop.order:7"})
    for _ in range(30):
        rows.make_job(options={"parent": str(job.pk)})
    client.get(page_of(job))

    with CaptureQueriesContext(connection) as found:
        text_of(client.get(page_of(job)))

    assert len(found) <= 12, [each["sql"][:80] for each in found]


def test_a_waiting_job_says_why_it_does_not_run(login: Login) -> None:
    page = text_of(login(*PLACES).get(page_of(rows.make_scheduled_job())))

    assert "Why is it not running" in page
    assert "djq-verdict djq-warn" in page


def test_the_family_stands_on_the_page_in_both_directions(login: Login) -> None:
    client = login(*PLACES)
    parent = rows.make_finished()
    children = [
        rows.make_job(options={"parent": str(parent.pk)}),
        rows.make_dead_letter(options={"parent": str(parent.pk)}),
    ]

    assert page_of(parent) in text_of(client.get(page_of(children[0])))
    of_parent = text_of(client.get(page_of(parent)))
    assert all(page_of(child) in of_parent for child in children)


def test_r20_who_may_not_see_a_place_gets_no_link_there(login: Login) -> None:
    parent = rows.make_finished()
    child = rows.make_job(options={"parent": str(parent.pk)})

    assert page_of(parent) not in text_of(login("view_job").get(page_of(child)))


@pytest.mark.parametrize("parent", ["x", "<b>", "0" * 36, 7, ["a"], None])
def test_rubbish_in_the_place_of_a_parent_is_no_error(login: Login, parent: Any) -> None:
    text_of(login(*PLACES).get(page_of(rows.make_job(options={"parent": parent}))))


def test_arguments_are_a_tree_with_the_names_of_the_parameters(login: Login) -> None:
    job = rows.make_job(args={"args": [7], "kwargs": {"extra": {"deep": [True, None]}}})

    page = text_of(login(*PLACES, "view_payload").get(page_of(job)))

    assert "<bdi>0 order_id</bdi>" in page
    assert '<bdi class="djq-leaf djq-leaf-other">true</bdi>' in page


def test_a_tree_is_bounded_whatever_it_shows() -> None:
    wide = tree.of({str(n): n for n in range(100_000)})
    deep: Any = 1
    for _ in range(500):
        deep = [deep]

    assert len(wide) < 500_000
    assert "more than is shown" in wide
    assert "deeper than is shown" in tree.of(deep)
    assert "2,000,000 characters" in tree.of({"a": "x" * 2_000_000})


def test_progress_is_a_bar(login: Login) -> None:
    job = rows.make_running_job(progress={"done": 30, "total": 120, "message": "secret"})

    page = text_of(login(*PLACES).get(page_of(job)))

    assert "30 of 120 (25 %)" in page
    assert "secret" not in page


# ------------------------------------------------------------------------------------------------ acts


@pytest.mark.parametrize(
    ("when", "state"), [("in 10m", "scheduled"), ("2h", "scheduled"), ("2020-01-01 00:00", "ready"), ("2099-13-01", "")]
)
def test_a_waiting_job_is_rescheduled(login: Login, when: str, state: str) -> None:
    client = login(*PLACES, "edit_job")
    job = rows.make_scheduled_job()

    said = alter(client, job, "reschedule", run_at=when, reason="later is better")

    job.refresh_from_db()
    if state:
        assert said[0].startswith("Reschedule: changed to ")
        assert job.state == state
        assert "Reason: later is better" in LogEntry.objects.get().change_message
    else:
        assert said == [
            "Reschedule: nothing changed. Expected a moment like 2026-12-31 08:00, or a duration like 10m or 2h."
        ]


def test_queue_and_priority_are_changed(login: Login) -> None:
    client = login(*PLACES, "edit_job")
    job = rows.make_job()

    assert alter(client, job, "queue", queue="images")[-1:] == ["Change queue: changed to images."]
    assert alter(client, job, "priority", priority="9")[-1:] == ["Change priority: changed to 9."]

    job.refresh_from_db()
    assert (job.queue_name, job.priority) == ("images", 9)
    assert LogEntry.objects.count() == 2


@pytest.mark.parametrize(
    ("act", "fields"),
    [("reschedule", {"run_at": "10m"}), ("queue", {"queue": "images"}), ("priority", {"priority": "9"})],
)
def test_r20_a_running_job_is_not_changed_from_a_stale_page(login: Login, act: str, fields: dict[str, str]) -> None:
    client = login(*PLACES, "edit_job")
    job = rows.make_job()
    rows.lease_behind_the_page(job.pk)
    before = Job.objects.filter(pk=job.pk).values().get()

    said = alter(client, job, act, **fields)

    assert "refused, it is running" in said[0]
    assert Job.objects.filter(pk=job.pk).values().get() == before


@pytest.mark.parametrize("fields", [{"priority": "101"}, {"priority": "x"}, {}])
def test_a_change_that_makes_no_sense_is_refused_with_words(login: Login, fields: dict[str, str]) -> None:
    client = login(*PLACES, "edit_job")

    assert alter(client, rows.make_job(), "priority", **fields)[0].startswith("Change priority: nothing changed.")


@pytest.mark.parametrize("make", [rows.make_job, rows.make_finished, rows.make_dead_letter])
def test_a_copy_is_enqueued_with_other_arguments(login: Login, make: Any) -> None:
    client = login(*PLACES, "view_payload", "duplicate_job")
    job = make(options={"subject": "shop.order:7"})
    address = reverse(f"admin:djqueue_{job._meta.model_name}_copy", args=[job.pk])
    assert rows.SECRET in text_of(client.get(address))
    before = {model: model.objects.count() for model in (Job, History, DeadLetter)}

    form = {"arguments": '{"args": [8], "kwargs": {}}', "queue": "emails", "priority": "5", "reason": "again"}
    said = told(client.post(address, form))

    copy = Job.objects.order_by("created_at", "id").last()
    assert copy is not None
    assert said == [f"Duplicate: enqueued as {copy.pk}."]
    assert (copy.args, copy.priority, copy.state) == ({"args": [8], "kwargs": {}}, 5, "ready")
    assert copy.options == {"subject": "shop.order:7"}
    assert {model: model.objects.count() for model in before} == {**before, Job: before[Job] + 1}
    assert LogEntry.objects.get().change_message == f"Duplicate: enqueued as {copy.pk}. Reason: again"


@pytest.mark.parametrize("text", ["{}", "x", '{"args": [], "kwargs": {}}', '{"args": [1, 2], "kwargs": {}}'])
def test_a_copy_must_fit_the_signature(login: Login, text: str) -> None:
    client = login(*PLACES, "view_payload", "duplicate_job")
    job = rows.make_job()

    page = text_of(
        client.post(
            reverse("admin:djqueue_job_copy", args=[job.pk]), {"arguments": text, "queue": "emails", "priority": "5"}
        )
    )

    assert "errorlist" in page
    assert Job.objects.count() == 1


@pytest.mark.parametrize("lacking", ["view_payload", "duplicate_job", "view_job"])
def test_r20_a_copy_needs_its_permissions(login: Login, lacking: str) -> None:
    client = login(*{*PLACES, "view_payload", "duplicate_job"} - {lacking})
    job = rows.make_job()
    address = reverse("admin:djqueue_job_copy", args=[job.pk])

    assert client.get(address).status_code == 403
    assert client.post(address, {"arguments": '{"args": [8], "kwargs": {}}'}).status_code == 403
    assert Job.objects.count() == 1


def test_a_reason_stands_in_the_log_of_a_single_act(login: Login) -> None:
    client = login(*PLACES, "cancel_job")
    job = rows.make_job()

    client.post(
        reverse("admin:djqueue_job_changelist"),
        {"action": "cancel", "index": "0", "_selected_action": [str(job.pk)], "reason": "not needed"},
    )

    assert LogEntry.objects.get().change_message == "Cancel: cancelled. Reason: not needed"
