"""R17: what the form of a cron entry accepts can fire, and nothing fires because somebody saved."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.utils import timezone

from djqueue.models import CronEntry, CronFire, Job
from djqueue.policy.ids import uuid7
from tests.admin import rows
from tests.admin.conftest import Login
from tests.admin.pages import act, add_to, list_of, page_of, text_of

RECEIPT = "testproject.shop.tasks.send_receipt"
PARTNER = "testproject.shop.tasks.call_partner"
FORM = {
    "name": "nightly",
    "enabled": "on",
    "task_name": "testproject.shop.tasks.noop",
    "args": "",
    "kwargs": "",
    "queue_name": "",
    "schedule": "30 2 * * *",
    "timezone": "Europe/Paris",
    "missed": "run_once",
    "missed_max": "100",
    "grace_seconds": "60",
    "overlap": "allow",
    "jitter_seconds": "0",
}


def saved(client: Client, **fields: str) -> CronEntry:
    """Add an entry through the form, which must accept it."""
    response = client.post(add_to("cronentry"), {**FORM, **fields})
    assert response.status_code == 302, text_of(response)
    return CronEntry.objects.get()


def test_r17_a_new_entry_has_no_plan_and_fires_nothing(login: Login) -> None:
    entry = saved(login("view_cronentry", "add_cronentry"))

    assert (entry.next_fire_at, entry.args, entry.kwargs, entry.enabled) == (None, [], {}, True)
    assert not Job.objects.exists()
    assert not CronFire.objects.exists()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"schedule": "0 0 31 2 *"}, "fires some day"),
        ({"schedule": ""}, "required"),
        ({"schedule": "   "}, "required"),
        ({"schedule": "* * * * * *"}, "five fields"),
        ({"schedule": "@reboot"}, "@daily"),
        ({"schedule": "*/0 * * * *"}, "step from 1"),
        ({"schedule": "61 * * * *"}, "0 to 59"),
        ({"timezone": "Mars/Olympus"}, "Europe/Paris"),
        ({"timezone": "../../etc/passwd"}, "Europe/Paris"),
        ({"timezone": "/etc/localtime"}, "Europe/Paris"),
        ({"timezone": ""}, "required"),
        ({"task_name": "os.system"}, "Select a valid choice"),
        ({"task_name": ""}, "required"),
        ({"queue_name": "nowhere"}, "Select a valid choice"),
        ({"args": "{}"}, "JSON list"),
        ({"args": '"text"'}, "JSON list"),
        ({"args": "0"}, "JSON list"),
        ({"kwargs": "[]"}, "JSON object"),
        ({"args": "[1"}, "valid JSON"),
        ({"args": "[1, 2, 3]"}, "noop"),
        ({"kwargs": '{"nobody": 1}'}, "nobody"),
        ({"task_name": RECEIPT}, "order_id"),
        ({"task_name": PARTNER}, "order_id"),
        ({"args": "[NaN]"}, "finite number"),
        ({"args": '["\\u0000"]'}, "NUL"),
        ({"name": "x" * 201}, "at most 200"),
        ({"missed": "sometimes"}, "Select a valid choice"),
        ({"missed_max": "0"}, "greater than or equal to 1"),
        ({"missed_max": "1001"}, "less than or equal to 1000"),
        ({"overlap": "maybe"}, "Select a valid choice"),
        ({"jitter_seconds": "-1"}, "greater than or equal to 0"),
    ],
)
def test_r17_the_form_refuses_what_can_not_fire_or_run(login: Login, fields: dict[str, str], words: str) -> None:
    client = login("view_cronentry", "add_cronentry")

    page = text_of(client.post(add_to("cronentry"), {**FORM, **fields}))

    assert not CronEntry.objects.exists()
    assert words in page.replace("&quot;", '"').replace("&#x27;", "'")


def test_the_form_takes_arguments_that_fit_and_leaves_the_context_out(login: Login) -> None:
    entry = saved(login("*"), task_name=PARTNER, args="[7]", kwargs='{"failures": 0}', queue_name="emails")

    assert (entry.args, entry.kwargs, entry.queue_name) == ([7], {"failures": 0}, "emails")


def test_the_form_takes_h_and_says_that_the_two_days_are_a_union(login: Login) -> None:
    client = login("*")

    assert "either is enough" in text_of(client.get(add_to("cronentry")))
    assert saved(client, schedule="H H * * *").schedule == "H H * * *"


def test_two_entries_can_not_have_one_name(login: Login) -> None:
    client = login("*")
    rows.make_entry(name="nightly")

    assert "has this name" in text_of(client.post(add_to("cronentry"), FORM))
    assert CronEntry.objects.count() == 1


@pytest.mark.parametrize(
    ("fields", "replanned"),
    [
        ({"schedule": "0 3 * * *"}, True),
        ({"timezone": "UTC"}, True),
        ({"enabled": ""}, True),
        ({"name": "other"}, True),
        ({"task_name": RECEIPT, "args": "[1]"}, True),
        ({"args": "[1]"}, False),
        ({"queue_name": "emails"}, False),
        ({}, False),
    ],
)
def test_r17_an_edit_of_when_it_fires_takes_the_plan_away(
    login: Login, fields: dict[str, str], replanned: bool
) -> None:
    client = login("view_cronentry", "change_cronentry")
    overdue = timezone.now() - timedelta(hours=6)
    entry = rows.make_entry(timezone="Europe/Paris", next_fire_at=overdue)

    response = client.post(page_of(entry), {**FORM, **fields})

    assert response.status_code == 302, text_of(response)
    entry.refresh_from_db()
    assert entry.next_fire_at == (None if replanned else overdue)
    assert not Job.objects.exists()


def test_r17_mending_an_entry_in_error_does_not_fire_what_is_overdue(login: Login) -> None:
    client = login("view_cronentry", "change_cronentry")
    overdue = timezone.now() - timedelta(hours=6)
    entry = rows.make_entry(timezone="Europe/Paris", next_fire_at=overdue, args=[1, 2], last_error="does not fit")

    client.post(page_of(entry), {**FORM, "args": "[1]"})

    entry.refresh_from_db()
    assert (entry.args, entry.next_fire_at, entry.last_error) == ([1], None, "")


def test_r17_saving_arguments_leaves_the_plan_that_the_leader_wrote_meanwhile(
    login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = login("*")
    entry = rows.make_entry(timezone="Europe/Paris", next_fire_at=timezone.now())
    planned = timezone.now() + timedelta(days=1)
    save = CronEntry.save

    def leader_plans_first(self: Any, **options: Any) -> None:
        CronEntry.objects.update(next_fire_at=planned)
        save(self, **options)

    monkeypatch.setattr(CronEntry, "save", leader_plans_first)
    client.post(page_of(entry), {**FORM, "args": "[1]"})

    entry.refresh_from_db()
    assert (entry.args, entry.next_fire_at) == ([1], planned)


def test_r17_the_page_shows_the_next_five_fires_in_utc_and_in_the_zone(login: Login) -> None:
    client = login("view_cronentry")
    entry = rows.make_entry(schedule="0 0 29 2 *", timezone="Asia/Tokyo")

    page = text_of(client.get(page_of(entry)))

    fires = page.partition('aria-label="Next fires"')[2].partition("</table>")[0]
    assert "at 00:00 on day 29 of the month in February, Tokyo time" in page
    assert fires.count("<tr>") == 6
    assert "2028-02-28 15:00</th><td>2028-02-29 00:00 JST</td>" in fires


@pytest.mark.parametrize(
    "fields",
    [
        {"schedule": "nonsense"},
        {"timezone": "Mars/Olympus"},
        {"timezone": ""},
        {"timezone": "/etc/passwd"},
        {"schedule": "0 0 31 2 *"},
        {"task_name": "gone.task"},
        {"args": {"not": "a list"}, "kwargs": [1]},
        {"queue_name": "gone"},
    ],
)
def test_r17_a_bad_row_written_by_sql_shows_what_is_wrong_and_breaks_no_page(
    login: Login, fields: dict[str, Any]
) -> None:
    client = login("*")
    entry = rows.make_entry(last_error="wrong, <b>", **fields)

    assert "wrong, &lt;b&gt;" in text_of(client.get(page_of(entry)))
    assert "wrong, &lt;b&gt;" in text_of(client.get(list_of("cronentry")))


def test_a_task_that_is_no_longer_known_stays_visible_but_can_not_be_saved(login: Login) -> None:
    client = login("*")
    entry = rows.make_entry(task_name="gone.task")

    assert "gone.task (not known)" in text_of(client.get(page_of(entry)))
    page = text_of(client.post(page_of(entry), {**FORM, "task_name": "gone.task"}))
    assert "No task with this name is known" in page


def test_policies_are_saved_and_leave_the_plan_alone(login: Login) -> None:
    planned = timezone.now() + timedelta(days=1)
    entry = rows.make_entry(timezone="Europe/Paris", next_fire_at=planned)

    policies = {"missed": "run_all", "missed_max": "5", "overlap": "queue_one", "jitter_seconds": "30"}
    login("*").post(page_of(entry), {**FORM, **policies})

    entry.refresh_from_db()
    assert (entry.missed, entry.missed_max, entry.overlap, entry.jitter_seconds) == ("run_all", 5, "queue_one", 30)
    assert entry.next_fire_at == planned


def test_of_an_entry_in_the_code_only_the_switch_can_be_changed(login: Login) -> None:
    client = login("*")
    entry = rows.make_entry(in_code=True, timezone="Europe/Paris")

    page = text_of(client.get(page_of(entry)))
    client.post(page_of(entry), {**FORM, "enabled": "", "schedule": "0 3 * * *", "jitter_seconds": "30"})

    entry.refresh_from_db()
    assert 'name="enabled"' in page
    assert not any(f'name="{field}"' in page for field in FORM if field != "enabled")
    assert (entry.enabled, entry.schedule, entry.jitter_seconds) == (False, "30 2 * * *", 0)
    shown = text_of(client.get(list_of("cronentry")))
    assert ">paused<" in shown
    assert "from the code" in shown


def test_an_entry_that_the_code_declares_can_not_be_deleted_until_it_is_removed_there(login: Login) -> None:
    client = login("*")
    entry = rows.make_entry(in_code=True)
    assert client.post(page_of(entry, "delete"), {"post": "yes"}).status_code == 403

    CronEntry.objects.update(removed_at=timezone.now())
    assert "removed from the code" in text_of(client.get(list_of("cronentry")))
    assert client.post(page_of(entry, "delete"), {"post": "yes"}).status_code == 302


def test_a_fire_shows_how_late_it_was_and_what_it_came_to(login: Login) -> None:
    due = timezone.now() - timedelta(seconds=90)
    CronFire.objects.create(name="nightly", fire_at=due, fired_at=due + timedelta(seconds=12.5), outcome="overlapped")

    page = text_of(login("view_cronfire").get(list_of("cronfire")))

    assert "12.5 s" in page
    assert "overlapped" in page


def test_an_entry_can_be_deleted(login: Login) -> None:
    client = login("view_cronentry", "delete_cronentry")
    entry = rows.make_entry()

    client.post(page_of(entry, "delete"), {"post": "yes"})

    assert not CronEntry.objects.exists()


def test_a_preview_shows_what_changes_of_the_clock_do(login: Login) -> None:
    entry = rows.make_entry(schedule="30 2 * * *", timezone="Europe/Paris")

    page = text_of(login("view_cronentry").get(page_of(entry)))

    changes = page.partition('aria-label="Changes of the clock"')[2].partition("</table>")[0]
    assert "CET (+0100)" in changes
    assert "CEST (+0200)" in changes
    assert changes.count("→") == 2


def test_an_entry_runs_now_and_says_which_job(login: Login) -> None:
    client = login("view_cronentry", "run_cronentry")
    entry = rows.make_entry(schedule="0 0 29 2 *", next_fire_at=rows.LAST_MOMENT)
    broken = rows.make_entry(name="broken", task_name="gone.task")

    [told] = act(client, "run_now", [entry, broken])

    [job] = Job.objects.all()
    entry.refresh_from_db()
    assert job.task_name == entry.task_name
    assert told.startswith("Run now: 1 enqueued. Refused: broken:")
    assert (entry.last_job_id, entry.next_fire_at) == (job.pk, rows.LAST_MOMENT)
    assert CronFire.objects.get().outcome == "manual"
    assert LogEntry.objects.get().change_message == f"Run now: job {job.pk}."


def test_entries_are_paused_and_resumed_from_the_list(login: Login) -> None:
    client = login("view_cronentry", "change_cronentry")
    entry = rows.make_entry(next_fire_at=timezone.now())
    other = rows.make_entry(name="other", enabled=False)

    [paused] = act(client, "pause", [entry, other])
    entry.refresh_from_db()
    assert (entry.enabled, entry.next_fire_at) == (False, None)
    [*_, resumed] = act(client, "resume", [entry, other])

    entry.refresh_from_db()
    assert paused == "1 paused. Refused: 1 paused already."
    assert resumed == "2 resumed."
    assert entry.enabled
    assert not Job.objects.exists()


def test_who_may_not_changes_and_runs_nothing(login: Login) -> None:
    client = login("view_cronentry")
    entry = rows.make_entry()

    for action in ("run_now", "pause"):
        act(client, action, [entry])

    entry.refresh_from_db()
    assert entry.enabled
    assert not Job.objects.exists()


def test_the_list_shows_the_last_twenty_runs_and_what_became_of_them(login: Login) -> None:
    now = timezone.now()
    dead, running = rows.make_dead_letter(), rows.make_running_job()
    entry = rows.make_entry(next_fire_at=now - timedelta(seconds=252))
    for number in range(30):
        at = now - timedelta(hours=30 - number)
        CronFire.objects.create(name=entry.name, fire_at=at, fired_at=at, job_id=uuid7())
    for number, fields in enumerate(
        ({"job_id": dead.pk}, {"job_id": running.pk}, {"outcome": "missed"}, {"fired_at": now, "job_id": uuid7()})
    ):
        at = now - timedelta(minutes=50 - number)
        CronFire.objects.create(**{"name": entry.name, "fire_at": at, "fired_at": at, **fields})

    page = text_of(login("view_cronentry").get(list_of("cronentry")))

    strip = page.partition('class="djq-strip"')[2].partition("</svg>")[0]
    kinds = re.findall(r'class="djq-s-(\w+)"', strip)
    assert kinds == ["ok"] * 16 + ["bad", "busy", "bad", "warn"]
    assert "died" in strip
    assert "4 m 12 s late" in page or "4 m 13 s late" in page
    assert f"?q={entry.name}" in page
