"""`manage.py djqueue cron …`: what it shows, what it changes, what it refuses."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from djqueue.models import CronEntry, CronFire, CronMemory, Job

NOOP = "testproject.shop.tasks.noop"
THUMBNAIL = "testproject.shop.tasks.make_thumbnail"
DAILY = "30 2 * * *"

pytestmark = pytest.mark.django_db


def run(*words: str) -> str:
    out = StringIO()
    call_command("djqueue", "cron", *words, stdout=out)
    return out.getvalue()


def answer(*words: str) -> Any:
    return json.loads(run(*words, "--json"))


def entry(**fields: Any) -> CronEntry:
    base = {"name": "nightly", "schedule": DAILY, "timezone": "Europe/Paris", "task_name": NOOP}
    return CronEntry.objects.create(**{**base, **fields})


def test_no_entries_are_said_to_be_none() -> None:
    assert run("list") == "No cron entries.\n"
    assert answer("list") == []


def test_a_list_tells_schedule_in_words_state_error_and_last_fire() -> None:
    entry(last_error="task: gone")
    CronFire.objects.create(
        name="nightly", fire_at="2026-01-01T01:30Z", fired_at="2026-01-01T01:30:02.5Z", outcome="overlapped"
    )
    entry(name="old", enabled=False, in_code=True)

    said = run("list")

    assert "nightly  (on)\n    at 02:30 every day, Paris time: testproject.shop.tasks.noop" in said
    assert "last 2026-01-01 01:30:00 UTC (overlapped, 2.5 s late, job -)" in said
    assert "can't fire: task: gone" in said
    assert "old  (paused, from the code)" in said
    listed = answer("list")
    assert [each["name"] for each in listed] == ["nightly", "old"]
    assert listed[0]["words"] == "at 02:30 every day, Paris time"
    assert listed[0]["last_fire_at"] == "2026-01-01T01:30:00+00:00"


def test_an_unreadable_schedule_does_not_break_the_list() -> None:
    entry(schedule="nonsense")

    assert "nonsense: " in run("list")


def test_r17_adding_an_entry_fires_nothing_and_shows_when_it_will() -> None:
    said = run(
        "add", "images", "H 2 * * *", THUMBNAIL, "--tz", "Europe/Paris", "--args", '["a.png"]', "--kwargs",
        '{"width": 5}', "--queue", "images", "--missed", "run_all(5)", "--overlap", "skip", "--jitter-seconds", "9",
    )  # fmt: skip

    made = CronEntry.objects.get()
    assert (made.schedule, made.timezone, made.args, made.kwargs) == (
        "H 2 * * *",
        "Europe/Paris",
        ["a.png"],
        {"width": 5},
    )
    assert (made.queue_name, made.missed, made.missed_max, made.overlap) == ("images", "run_all", 5, "skip")
    assert (made.jitter_seconds, made.enabled, made.in_code, made.next_fire_at) == (9, True, False, None)
    assert said.startswith("images is added; nothing fires because of it.\n")
    assert not Job.objects.exists()


def test_an_entry_may_be_added_switched_off() -> None:
    assert answer("add", "nightly", DAILY, NOOP, "--paused")["enabled"] is False
    assert CronEntry.objects.get().enabled is False


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add", "x", "@reboot", NOOP], "expected one of @hourly"),
        (["add", "x", "0 0 31 2 *", NOOP], "fires some day"),
        (["add", "x", DAILY, "testproject.shop.tasks.nop"], "did you mean 'testproject.shop.tasks.noop'"),
        (["add", "x", DAILY, NOOP, "--tz", "Mars/Olympus"], "expected the name of a zone"),
        (["add", "x", DAILY, NOOP, "--args", "[1, 2]"], "expected noop"),
        (["add", "x", DAILY, NOOP, "--args", "{}"], "expected a JSON list"),
        (["add", "x", DAILY, NOOP, "--args", "[1"], "expected JSON"),
        (["add", "x", DAILY, NOOP, "--queue", "nowhere"], "nowhere"),
        (["add", "x", DAILY, NOOP, "--missed", "never"], "missed: expected"),
        (["add", "x", DAILY, NOOP, "--backend", "none"], "--backend: expected"),
        (["add", "nightly", DAILY, NOOP], "expected a name that is free"),
        (["preview", "nighty"], "did you mean 'nightly'"),
        (["preview", "nightly", "--from", "soon"], "--from: expected a date"),
        (["pause", "nobody"], "expected the name of an entry"),
        (["run-now", "nobody"], "expected the name of an entry"),
        (["import-crontab", "/nowhere/crontab"], "No such file"),
        (["import-celery-beat"], "expected the table django_celery_beat_periodictask"),
    ],
)
def test_r17_what_is_wrong_is_said_and_nothing_is_changed(words: list[str], said: str) -> None:
    entry()

    with pytest.raises(CommandError, match=said):
        run(*words)
    assert CronEntry.objects.count() == 1


def test_a_preview_shows_local_and_utc_times_between_two_moments() -> None:
    entry()

    found = answer("preview", "nightly", "--from", "2026-03-28", "--to", "2026-03-31")

    assert found["fires"] == [
        {"utc": "2026-03-28T01:30:00+00:00", "local": "2026-03-28 02:30:00 CET (+0100)"},
        {"utc": "2026-03-29T01:00:00+00:00", "local": "2026-03-29 03:00:00 CEST (+0200)"},
        {"utc": "2026-03-30T00:30:00+00:00", "local": "2026-03-30 02:30:00 CEST (+0200)"},
    ]
    assert found["more"] is False


def test_a_preview_shows_every_change_of_the_clock_in_twelve_months_with_the_fires_around() -> None:
    entry(schedule="0 * * * *")

    changes = answer("preview", "nightly", "--from", "2026-01-01")["zone_changes"]
    said = run("preview", "nightly", "--from", "2026-01-01")

    assert [change["at"] for change in changes] == ["2026-03-29T01:00:00+00:00", "2026-10-25T01:00:00+00:00"]
    assert [fire["local"][11:16] for fire in changes[0]["fires"]] == [
        "23:00",
        "00:00",
        "01:00",
        "03:00",
        "04:00",
        "05:00",
    ]
    assert [fire["local"][11:16] for fire in changes[1]["fires"]] == [
        "00:00",
        "01:00",
        "02:00",
        "02:00",
        "03:00",
        "04:00",
    ]
    assert [fire["is_after"] for fire in changes[0]["fires"]] == [False] * 3 + [True] * 3
    assert (
        "The clock changes at 2026-03-29 01:00:00 UTC: 2026-03-29 01:59:59 CET (+0100) is followed by "
        "2026-03-29 03:00:00 CEST (+0200)"
    ) in said


def test_a_preview_of_a_zone_without_changes_says_so_and_shows_ten_fires() -> None:
    entry(timezone="Asia/Kolkata")

    said = run("preview", "nightly")

    assert "No change of the clock in twelve months." in said
    assert said.count("IST (+0530)") == 10


def test_a_preview_of_a_bad_entry_says_what_is_wrong() -> None:
    entry(schedule="nonsense")

    with pytest.raises(CommandError, match="it can't fire: cron: expected five fields"):
        run("preview", "nightly")


def test_run_now_enqueues_a_job_and_leaves_the_schedule_alone() -> None:
    made = entry(args=[7], enabled=False, next_fire_at=None)

    found = answer("run-now", "nightly")

    job = Job.objects.get()
    assert found == {"name": "nightly", "job": str(job.pk)}
    assert job.args == {"args": [7], "kwargs": {}}
    fire = CronFire.objects.get()
    assert (fire.outcome, fire.job_id) == ("manual", job.pk)
    assert not CronMemory.objects.exists()
    made.refresh_from_db()
    assert (made.last_job_id, made.next_fire_at) == (job.pk, None)


def test_run_now_says_what_is_wrong_with_the_entry() -> None:
    entry(args=[1, 2])

    with pytest.raises(CommandError, match="expected noop"):
        run("run-now", "nightly")


def test_pause_and_resume_take_the_plan_away() -> None:
    made = entry(next_fire_at="2026-01-01T01:30Z")

    assert "nightly is paused" in run("pause", "nightly")
    made.refresh_from_db()
    assert (made.enabled, made.next_fire_at) == (False, None)
    assert "nightly is on" in run("resume", "nightly")
    made.refresh_from_db()
    assert made.enabled is True


def test_r17_resuming_an_entry_that_is_on_keeps_its_plan() -> None:
    made = entry(next_fire_at="2026-01-01T01:30Z")

    run("resume", "nightly")

    made.refresh_from_db()
    assert made.next_fire_at is not None


def test_an_entry_that_the_code_no_longer_declares_can_not_be_resumed() -> None:
    entry(in_code=True, removed_at="2026-01-01T00:00Z")

    with pytest.raises(CommandError, match="the code no longer declares"):
        run("resume", "nightly")


CRONTAB = r"""
# backups
MAILTO=root
TZ=Asia/Tokyo
CRON_TZ="Europe/Paris"
30 2 * * *   /usr/bin/backup --all
30 3 * * *   /usr/bin/backup --all
@reboot      /usr/bin/start
*/0 * * * *  never
* * * * *
0 5 * * *    mail -s hi%text
0 6 * * *    date +\%F
CRON_TZ=Mars/Olympus
@daily       tidy up
"""


def crontab_file(folder: Path, text: str = CRONTAB) -> str:
    file = folder / "crontab"
    file.write_text(text)
    return str(file)


def test_a_crontab_is_shown_line_by_line_and_nothing_is_made(tmp_path: Path) -> None:
    found = answer("import-crontab", crontab_file(tmp_path), "--task", THUMBNAIL)["entries"]

    assert [each["outcome"] for each in found] == [
        "would be made", "would be made", "left out", "left out", "left out", "left out", "would be made", "left out",
    ]  # fmt: skip
    assert [each["name"] for each in found][:2] == ["usr-bin-backup---all", "usr-bin-backup---all-2"]
    assert (found[0]["schedule"], found[0]["timezone"]) == ("30 2 * * *", "Europe/Paris")
    assert found[0]["args"] == ["/usr/bin/backup --all"]
    assert found[6]["args"] == ["date +%F"]
    problems = [each["problem"] for each in found]
    assert "expected one of @hourly" in problems[2]
    assert "expected a step" in problems[3]
    assert "5 fields of time and a command" in problems[4]
    assert "% in a command" in problems[5]
    assert "expected the name of a zone, got 'Mars/Olympus'" in problems[7]
    assert not CronEntry.objects.exists()
    assert "3 of 8 can be made: nothing was changed" in run(
        "import-crontab", crontab_file(tmp_path), "--task", THUMBNAIL
    )


def test_applying_a_crontab_makes_paused_entries_once(tmp_path: Path) -> None:
    words = ["import-crontab", crontab_file(tmp_path), "--task", THUMBNAIL, "--apply"]
    run(*words)

    assert sorted(CronEntry.objects.values_list("name", "enabled")) == [
        ("date-F", False), ("usr-bin-backup---all", False), ("usr-bin-backup---all-2", False),
    ]  # fmt: skip
    assert [each["outcome"] for each in answer(*words)["entries"]][:2] == ["exists", "exists"]
    assert CronEntry.objects.count() == 3


def test_applying_a_crontab_needs_a_task_that_takes_a_command(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="expected --task"):
        run("import-crontab", crontab_file(tmp_path), "--apply")
    partner = "testproject.shop.tasks.send_receipt_of_nobody"
    found = answer("import-crontab", crontab_file(tmp_path), "--task", partner)["entries"]
    assert "expected a task that this project has" in found[0]["problem"]


def test_a_system_crontab_has_a_column_for_the_user(tmp_path: Path) -> None:
    file = crontab_file(tmp_path, "17 * * * * root cd / && run-parts /etc/cron.hourly\n")

    (found,) = answer("import-crontab", file, "--system", "--tz", "Asia/Tokyo")["entries"]

    assert found["args"] == ["cd / && run-parts /etc/cron.hourly"]
    assert found["timezone"] == "Asia/Tokyo"


BEAT = """
create table django_celery_beat_crontabschedule (id int, minute text, hour text, day_of_week text, day_of_month text,
    month_of_year text, timezone text);
create table django_celery_beat_intervalschedule (id int, every int, period text);
create table django_celery_beat_periodictask (id int, name text, task text, crontab_id int, interval_id int,
    solar_id int, clocked_id int, args text, kwargs text, queue text, one_off boolean, enabled boolean);
insert into django_celery_beat_crontabschedule values
    (1, '30', '2', '*', '*', '*', 'Europe/Paris'), (2, '0', '0', 'fri', '13', '*', 'UTC'),
    (3, '*/7', '*', '*', '*', '*', 'UTC');
insert into django_celery_beat_intervalschedule values (1, 15, 'minutes'), (2, 7, 'minutes'), (3, 10, 'seconds');
insert into django_celery_beat_periodictask values
    (1, 'nightly', 'testproject.shop.tasks.noop', 1, null, null, null, '[7]', '{}', 'emails', false, true),
    (2, 'unlucky', 'testproject.shop.tasks.noop', 2, null, null, null, '[]', '{}', null, false, true),
    (3, 'quarter', 'testproject.shop.tasks.noop', null, 1, null, null, '[]', '{"number": 1}', 'celery', false, true),
    (4, 'odd', 'testproject.shop.tasks.noop', null, 2, null, null, '[]', '{}', null, false, true),
    (5, 'seconds', 'testproject.shop.tasks.noop', null, 3, null, null, '[]', '{}', null, false, true),
    (6, 'sunset', 'testproject.shop.tasks.noop', null, null, 1, null, '[]', '{}', null, false, true),
    (7, 'once', 'testproject.shop.tasks.noop', 1, null, null, null, '[]', '{}', null, true, true),
    (8, 'gone', 'project.tasks.gone', 1, null, null, null, '[]', '{}', null, false, false),
    (9, 'celery.backend_cleanup', 'celery.backend_cleanup', 1, null, null, null, '[]', '{}', null, false, true),
    (10, 'broken', 'testproject.shop.tasks.noop', 1, null, null, null, '[1', '{}', null, false, true),
    (11, 'sevens', 'testproject.shop.tasks.noop', 3, null, null, null, '[]', '{}', null, false, true);
"""


def test_celery_beats_tables_are_shown_and_applied() -> None:
    with connection.cursor() as cursor:
        cursor.execute(BEAT)

    found = {each["name"]: each for each in answer("import-celery-beat")["entries"]}
    assert not CronEntry.objects.exists()
    run("import-celery-beat", "--apply")

    assert (found["nightly"]["schedule"], found["nightly"]["timezone"], found["nightly"]["queue"]) == (
        "30 2 * * *", "Europe/Paris", "emails",
    )  # fmt: skip
    assert (found["quarter"]["schedule"], found["quarter"]["queue"]) == ("*/15 * * * *", "")
    assert "by the clock; its queue 'celery' is not one of QUEUES" in found["quarter"]["note"]
    assert found["sevens"]["schedule"] == "*/7 * * * *"
    problems = {name: each["problem"] for name, each in found.items() if each["problem"]}
    assert set(problems) == {
        "unlucky", "odd", "seconds", "sunset", "once", "gone", "celery.backend_cleanup", "broken",
    }  # fmt: skip
    assert "both match" in problems["unlucky"]
    assert "expected a task that this project has" in problems["gone"]
    assert sorted(CronEntry.objects.values_list("name", "enabled")) == [
        ("nightly", False), ("quarter", False), ("sevens", False),
    ]  # fmt: skip
