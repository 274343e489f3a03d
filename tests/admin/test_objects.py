"""R20: an object's page shows everything, escaped, to those who may see it, and breaks on nothing."""

import html
from typing import Any

import pytest
from django.db import connection
from django.db.models import Model
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from djqueue.models import CronFire, Queue, Worker
from djqueue.store import operate
from tests.admin import rows
from tests.admin.conftest import Login
from tests.admin.pages import list_of, page_of, text_of, told

SCRIPT = "<script>alert(1)</script>"
VIEWS = ("view_job", "view_history", "view_deadletter", "view_queue", "view_worker", "view_cronentry", "view_cronfire")
DAYS_AT_THE_ENDS_OF_TIME = """
create table djqueue_history_first partition of djqueue_history for values from (minvalue) to ('0002-01-01');
create table djqueue_history_last partition of djqueue_history for values from ('9999-01-01') to (maxvalue)
"""
HOLDERS = (rows.make_scheduled_job, rows.make_finished, rows.make_dead_letter)


@pytest.mark.parametrize("make", HOLDERS)
def test_r20_payload_is_shown_to_those_who_may_see_it(login: Login, make: Any) -> None:
    client = login(*VIEWS, "view_payload")
    page = text_of(client.get(page_of(make())))

    assert page.count(rows.SECRET) >= 3
    assert "ValueError" in page
    assert "hidden: needs the permission" not in page


@pytest.mark.parametrize("make", HOLDERS)
def test_r20_payload_is_hidden_from_others_and_not_even_read(login: Login, make: Any) -> None:
    client = login(*VIEWS)
    obj = make()

    with CaptureQueriesContext(connection) as found:
        page = text_of(client.get(page_of(obj)))

    assert rows.SECRET not in page
    assert "ValueError" not in page
    assert "hidden: needs the permission" in page
    assert not [query for query in found if '"args"' in query["sql"] or '"errors"' in query["sql"]]


def test_r20_the_arguments_of_a_cron_entry_are_hidden_from_those_who_only_look(login: Login) -> None:
    client = login(*VIEWS)
    entry = rows.make_entry(args=[rows.SECRET])

    page = text_of(client.get(page_of(entry)))

    assert rows.SECRET not in page
    assert "hidden: needs the permission" in page


def hostile() -> list[Model]:
    """One row of each model with a script in every text."""
    text = {"task_name": SCRIPT, "queue_name": SCRIPT, "tenant_id": SCRIPT, "dedupe_key": SCRIPT}
    error = dict.fromkeys((*rows.ERROR, SCRIPT), SCRIPT)
    payload = {"args": {SCRIPT: SCRIPT}, "errors": [error, SCRIPT, {"dropped": SCRIPT}], "options": [SCRIPT]}
    both = {**text, **payload, "ordering_key": SCRIPT, "worker_ids": [SCRIPT]}
    later = {"progress": SCRIPT, "checkpoint": SCRIPT, "lane": SCRIPT}
    now = timezone.now()
    return [
        rows.make_running_job(**both, **later, leased_by=SCRIPT),
        rows.make_job(state="parked", parked_for=SCRIPT, task_name=SCRIPT),
        rows.make_finished(**both, result=SCRIPT, outcome=SCRIPT),
        rows.make_dead_letter(**both, **later, reason=SCRIPT, fingerprint=SCRIPT, on_dead=SCRIPT),
        Queue.objects.create(name=SCRIPT, paused_reason=SCRIPT, paused_by=SCRIPT, paused_until=rows.LAST_MOMENT),
        Worker.objects.create(
            id=SCRIPT, host=SCRIPT, version=SCRIPT, supervisor_id=SCRIPT, queues=[SCRIPT], task_names=[SCRIPT]
        ),
        rows.make_entry(
            name=SCRIPT,
            schedule=SCRIPT,
            timezone=SCRIPT,
            task_name=SCRIPT,
            queue_name=SCRIPT,
            last_error=SCRIPT,
            args=[SCRIPT],
            kwargs={SCRIPT: SCRIPT},
        ),
        CronFire.objects.create(name=SCRIPT, fire_at=now, fired_at=now),
    ]


@pytest.mark.parametrize("permissions", [("*",), (*VIEWS, "view_payload")])
def test_r20_everything_in_a_row_is_escaped(login: Login, permissions: tuple[str, ...]) -> None:
    client = login(*permissions)

    for obj in hostile():
        for address in (list_of(str(obj._meta.model_name)), page_of(obj), page_of(obj, "history")):
            page = text_of(client.get(address))
            assert SCRIPT not in page, address
            assert "&lt;script&gt;" in page, address


@pytest.mark.parametrize("moment", [rows.LAST_MOMENT, rows.FIRST_MOMENT])
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"])
@pytest.mark.parametrize("permissions", [("*",), VIEWS])
def test_r18_moments_at_the_ends_of_time_break_no_page(
    login: Login, settings: Any, moment: Any, zone: str, permissions: tuple[str, ...]
) -> None:
    settings.TIME_ZONE = zone
    client = login(*permissions)
    with connection.cursor() as cursor:
        cursor.execute(DAYS_AT_THE_ENDS_OF_TIME)
    timezone.activate(zone)
    try:
        objects = [
            rows.make_running_job(
                run_at=moment, created_at=moment, started_at=moment, lease_until=moment, cancel_requested_at=moment
            ),
            rows.make_finished(created_at=moment, started_at=moment, finished_at=moment),
            rows.make_dead_letter(created_at=moment, started_at=moment, died_at=moment),
            Queue.objects.create(name="q", paused_until=moment, summary_at=moment, oldest_ready_at=moment),
            Worker.objects.create(id="w", started_at=moment, seen_at=moment),
            rows.make_entry(next_fire_at=moment),
            CronFire.objects.create(name="c", fire_at=moment, fired_at=moment),
        ]
        for obj in objects:
            text_of(client.get(list_of(str(obj._meta.model_name))))
            page = text_of(client.get(page_of(obj)))
            assert "9999-" in page or "10000" in page or "0001-" in page, obj
    finally:
        timezone.deactivate()


def test_huge_arguments_are_cut_and_the_page_says_so(login: Login) -> None:
    client = login("*")
    job = rows.make_job(args={"args": ["x" * 1_000_000], "kwargs": {}})

    page = text_of(client.get(page_of(job)))

    assert len(page) < 100_000
    assert "The first 20,000 of 1,000,0" in page


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("null", "null"),
        ("{}", "{"),
        ('"text"', '"text"'),
        ("7", "7"),
        ("1" * 5_000, "1" * 5_000),
        ("1e400", "1" + "0" * 400),
        ("[" * 900 + "]" * 900, "[" + "\n" + "    ["),
        ('[null, 1, [2], {"attempt": [], "seconds": "x", "message": 7}]', "attempt []"),
    ],
)
def test_r21_payload_that_is_not_what_it_should_be_is_shown_as_it_is(login: Login, value: str, shown: str) -> None:
    client = login("*")
    letter = rows.make_dead_letter()
    with connection.cursor() as cursor:
        cursor.execute(
            "update djqueue_dead_letter set args = %s::jsonb, errors = %s::jsonb, options = %s::jsonb", [value] * 3
        )

    page = text_of(client.get(page_of(letter)))

    assert shown in html.unescape(page)
    assert text_of(client.get(list_of("deadletter")))


def test_a_page_takes_the_same_few_queries_with_and_without_payload(login: Login) -> None:
    client = login("*")
    job = rows.make_scheduled_job(errors=[rows.ERROR] * 30, worker_ids=["w"] * 30)

    with CaptureQueriesContext(connection) as found:
        text_of(client.get(page_of(job)))

    assert len([query for query in found if 'FROM "djqueue_job"' in query["sql"]]) == 1


def test_an_old_link_leads_to_where_the_job_stands_now(login: Login) -> None:
    client = login("*")
    job = rows.make_job()
    operate.cancel("default", [job.pk])

    response = client.get(page_of(job), follow=True)

    assert response.redirect_chain[-1][0].startswith("/admin/djqueue/history/")
    assert "The job has ended" in told(response)[0]


def test_an_old_link_does_not_lead_where_the_user_may_not_look(login: Login) -> None:
    client = login("view_job")
    job = rows.make_job()
    operate.cancel("default", [job.pk])

    assert client.get(page_of(job), follow=True).redirect_chain[-1][0] == "/admin/"


@pytest.mark.parametrize("id_", ["0", "nonsense", "00000000-0000-0000-0000-000000000000"])
def test_a_link_to_no_job_leads_home(login: Login, id_: str) -> None:
    client = login("*")

    assert client.get(f"/admin/djqueue/job/{id_}/change/", follow=True).redirect_chain[-1][0] == "/admin/"


def test_a_retrying_job_is_called_so(login: Login) -> None:
    client = login("view_job")

    assert "retrying" in text_of(client.get(page_of(rows.make_scheduled_job())))
    assert "retrying" not in text_of(client.get(page_of(rows.make_scheduled_job(attempts=0))))
