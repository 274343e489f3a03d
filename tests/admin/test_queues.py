"""Queues in the admin: settings, pause and resume."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.utils import timezone

from djqueue.models import BulkAct, Job, Queue
from tests.admin import rows
from tests.admin.conftest import Login
from tests.admin.pages import act, add_to, list_of, page_of, text_of

FORM = {"weight": "", "history_days": "", "paused_until_0": "", "paused_until_1": "", "paused_reason": ""}


def test_a_queue_is_paused_for_an_hour_by_the_database_s_clock_and_resumed(login: Login) -> None:
    client = login("view_queue", "pause_queue")
    queue = Queue.objects.create(name="emails")

    [paused] = act(client, "pause", [queue])

    queue.refresh_from_db()
    assert queue.paused_until is not None
    assert abs(queue.paused_until - timezone.now() - timedelta(hours=1)) < timedelta(minutes=1)
    assert queue.paused_by == "ada"
    assert paused == "Pause: 1 paused for an hour."

    [*_, resumed] = act(client, "resume", [queue])

    queue.refresh_from_db()
    assert (queue.paused_until, queue.paused_by) == (None, "")
    assert resumed == "Resume: 1 resumed."
    assert sorted(LogEntry.objects.values_list("change_message", flat=True)) == ["Paused for an hour.", "Resumed."]


def test_a_longer_pause_is_not_shortened_and_a_running_queue_not_resumed(login: Login) -> None:
    client = login("view_queue", "pause_queue")
    queue = Queue.objects.create(name="emails", paused_until=rows.LAST_MOMENT)
    running = Queue.objects.create(name="images")

    [paused] = act(client, "pause", [queue])
    [*_, resumed] = act(client, "resume", [running])

    queue.refresh_from_db()
    assert queue.paused_until == rows.LAST_MOMENT
    assert paused == "Pause: 0 paused for an hour. Refused: 1 paused for longer already (emails)."
    assert resumed == "Resume: 0 resumed. Refused: 1 not paused (images)."


def test_saving_settings_leaves_the_leader_s_figures_as_they_are_now(
    login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = login("*")
    queue = Queue.objects.create(name="emails", ready=1)
    save = Queue.save

    def leader_writes_first(self: Any, **options: Any) -> None:
        Queue.objects.update(ready=500)
        save(self, **options)

    monkeypatch.setattr(Queue, "save", leader_writes_first)
    client.post(page_of(queue), {**FORM, "weight": "7", "history_days": "3"})

    queue.refresh_from_db()
    assert (queue.weight, queue.history_days, queue.ready) == (7, 3, 500)


def test_a_pause_in_the_form_says_who_paused(login: Login) -> None:
    client = login("view_queue", "change_queue", "pause_queue")
    queue = Queue.objects.create(name="emails")
    form = {**FORM, "paused_until_0": "2040-05-06", "paused_until_1": "07:08:09", "paused_reason": "moving"}

    client.post(page_of(queue), form)

    queue.refresh_from_db()
    assert queue.paused_until is not None
    assert queue.paused_until.isoformat() == "2040-05-06T07:08:09+00:00"
    assert (queue.paused_reason, queue.paused_by) == ("moving", "ada")


@pytest.mark.parametrize(
    ("field", "value"),
    [("weight", "0"), ("weight", "1001"), ("history_days", "3651"), ("history_days", "-1"), ("weight", "x")],
)
def test_settings_out_of_their_limits_are_refused(login: Login, field: str, value: str) -> None:
    client = login("*")
    queue = Queue.objects.create(name="emails")

    page = text_of(client.post(page_of(queue), {**FORM, field: value}))

    assert "Please correct the error below" in page
    queue.refresh_from_db()
    assert (queue.weight, queue.history_days) == (None, None)


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
@pytest.mark.parametrize("day", ["9999-12-31", "0001-01-01"])
def test_r18_a_pause_until_the_end_of_time_can_be_read_back(login: Login, settings: Any, zone: str, day: str) -> None:
    settings.TIME_ZONE = zone
    client = login("*")
    queue = Queue.objects.create(name="emails")
    time = "23:59:59" if day.startswith("9") else "00:00:00"

    client.post(page_of(queue), {**FORM, "paused_until_0": day, "paused_until_1": time})

    queue.refresh_from_db()
    assert queue.paused_until is None or queue.paused_until.year in (1, 9999)
    assert text_of(client.get(list_of("queue")))
    assert text_of(client.get(page_of(queue)))


def test_settings_can_be_given_to_a_queue_before_it_has_jobs(login: Login) -> None:
    client = login("view_queue", "add_queue")

    client.post(add_to("queue"), {"name": "fresh", "weight": "3", "history_days": ""})
    again = text_of(client.post(add_to("queue"), {"name": "fresh", "weight": "4", "history_days": ""}))

    assert Queue.objects.get().weight == 3
    assert "has settings already" in again


def test_a_pause_has_a_span_and_a_reason(login: Login) -> None:
    client = login("view_queue", "pause_queue")
    queue = Queue.objects.create(name="emails")

    [paused] = act(client, "pause", [queue], span="1d", reason=" the partner moves ")

    queue.refresh_from_db()
    assert queue.paused_until is not None
    assert abs(queue.paused_until - timezone.now() - timedelta(days=1)) < timedelta(minutes=1)
    assert (queue.paused_reason, queue.paused_by) == ("the partner moves", "ada")
    assert paused == "Pause: 1 paused for a day."
    assert LogEntry.objects.get().change_message == "Paused for a day. the partner moves"
    assert "the partner moves" in text_of(client.get(list_of("queue")))


def purge(queue: Queue) -> str:
    return page_of(queue, "purge")


def test_a_queue_is_emptied_by_who_types_its_name_and_says_why(login: Login) -> None:
    client = login("view_queue", "purge_queue", "view_job", "view_bulkact")
    queue = Queue.objects.create(name="emails", ready=2)
    rows.make_job()
    rows.make_scheduled_job()
    running = rows.make_running_job()
    other = rows.make_job(queue_name="images")

    assert purge(queue) in text_of(client.get(page_of(queue)))
    wrong = text_of(client.post(purge(queue), {"name": "email", "reason": "x"}))
    text_of(client.post(purge(queue), {"name": "emails", "reason": ""}))
    assert Job.objects.count() == 4
    client.post(purge(queue), {"name": "emails", "reason": "a wrong campaign"})

    assert "Expected the name of the queue" in wrong
    assert {job.pk for job in Job.objects.all()} == {running.pk, other.pk}
    running.refresh_from_db()
    assert running.cancel_requested_at is not None
    assert "a wrong campaign" in LogEntry.objects.get(object_id="emails").change_message
    assert BulkAct.objects.get().reason == "a wrong campaign"


def test_a_queue_is_not_emptied_by_looking_nor_by_who_may_not(login: Login) -> None:
    client = login("view_queue", "change_queue", "pause_queue", "cancel_job")
    queue = Queue.objects.create(name="emails")
    rows.make_job()

    assert client.get(purge(queue)).status_code == 403
    assert client.post(purge(queue), {"name": "emails", "reason": "x"}).status_code == 403
    assert purge(queue) not in text_of(client.get(page_of(queue)))
    assert Job.objects.count() == 1


def test_a_queue_of_any_name_has_its_pages(login: Login) -> None:
    client = login("*")
    queue = Queue.objects.create(name="a/b <i>?&#_ü")

    assert purge(queue) in text_of(client.get(page_of(queue))).replace("&amp;", "&")
    assert "&lt;i&gt;" in text_of(client.get(purge(queue)))
    assert text_of(client.get(list_of("queue")))


def test_ageing_is_set_in_the_row_and_kept_within_its_limits(login: Login) -> None:
    client = login("*")
    queue = Queue.objects.create(name="emails")

    client.post(page_of(queue), {**FORM, "ageing_seconds": "60"})
    refused = text_of(client.post(page_of(queue), {**FORM, "ageing_seconds": "0"}))

    queue.refresh_from_db()
    assert queue.ageing_seconds == 60
    assert "Please correct the error below" in refused
