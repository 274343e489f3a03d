"""The overview on the app's index page: what it says, what it costs, who sees it."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from djqueue.admin.fragments import HEADER
from djqueue.models import CodeVersion, Leader, Queue, Stat, Worker
from djqueue.policy.histogram import BUCKETS, bucket
from tests.admin import rows
from tests.admin.conftest import Login
from tests.admin.pages import text_of

NASTY = "<script>alert('\u202e')</script>"


def index() -> str:
    return reverse("admin:app_list", args=["djqueue"])


def histogram(seconds: float, count: int) -> list[int]:
    found = [0] * BUCKETS
    found[bucket(seconds)] = count
    return found


def make_stat(minutes_ago: int = 1, outcome: str = "succeeded", count: int = 10, **fields: Any) -> Stat:
    at = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=minutes_ago)
    base = {"queue_name": "emails", "task_name": rows.TASK, "seconds": count * 0.5, "histogram": histogram(0.5, count)}
    base["wait_histogram"] = histogram(0.02, count)
    return Stat.objects.create(minute=at, outcome=outcome, count=count, **{**base, **fields})


def make_worker(**fields: Any) -> Worker:
    return Worker.objects.create(**{"id": "w1", "slots": 8, "queues": ["*"], "supervisor_id": "s1", **fields})


@pytest.fixture
def busy(tables: None) -> None:
    """A queue at work, as of now."""
    now = timezone.now()
    make_worker()
    Leader.objects.create(name="djqueue", holder="s1", until=now + timedelta(minutes=5))
    Queue.objects.create(
        name="emails", ready=1_200, leased=4, scheduled=9, retrying=2, summary_at=now, oldest_ready_at=now
    )
    make_stat(count=7)
    make_stat(outcome="dead", count=1)
    CodeVersion.objects.create(version="2026.1")


def test_all_is_well(busy: None, login: Login) -> None:
    page = text_of(login("*").get(index()))

    assert '<p class="djq-verdict-words">Healthy</p>' in page
    assert "1,200" in page
    assert "of 8 slots, 1 worker" in page
    assert "version 2026.1" in page
    assert "1 job died in the last hour, 12 % of what ended" in page


def test_a_late_queue_is_the_verdict_and_leads_to_its_jobs(busy: None, login: Login) -> None:
    now = timezone.now()
    Queue.objects.update(summary_at=now, oldest_ready_at=now - timedelta(seconds=252), target_seconds=30)

    page = text_of(login("*").get(index()))

    verdict = page.partition('<p class="djq-verdict-words">')[2].partition("</p>")[0]
    assert ">Queue emails is late: oldest ready job 4 m 12 s, target 30 s</a>" in verdict
    assert reverse("admin:djqueue_job_changelist") + "?queue=emails&amp;state=ready" in verdict


def test_trouble_is_told_with_its_cause(busy: None, login: Login) -> None:
    group = rows.make_group()
    rows.make_job(state="parked", parked_for="task:old.gone", task_name="old.gone")
    rows.make_entry(name="nightly", last_error="no such task")
    replay = rows.make_replay(state="stopped", failed=5, finished_at=timezone.now())

    page = text_of(login("*").get(index()))

    for words in ("New cause of death", "No worker knows the task old.gone: 1 job", "Cron entry nightly can", "Replay"):
        assert words in page
    assert reverse("admin:djqueue_errorgroup_change", args=[group.pk]) in page
    assert reverse("admin:djqueue_replay_change", args=[replay.pk]) in page


@pytest.mark.parametrize("span", ["1h", "24h", "7d", "", "nonsense"])
def test_every_span_shows_what_ended_in_it(busy: None, login: Login, span: str) -> None:
    make_stat(minutes_ago=60 * 20, count=100)
    make_stat(minutes_ago=60 * 24 * 6, count=1_000)
    wanted = {"24h": 108, "7d": 1_108}.get(span, 8)

    page = text_of(login("*").get(index(), {"span": span}))

    assert f'aria-label="Throughput: {wanted:,} in' in page


@pytest.mark.parametrize("span", ["1h", "7d"])
def test_a_page_takes_few_queries_and_none_that_looks_through_jobs_or_history(
    busy: None, login: Login, span: str
) -> None:
    client = login("view_queue", "view_job")

    with CaptureQueriesContext(connection) as found:
        text_of(client.get(index(), {"span": span}))

    assert len(found) <= 12
    for query in found:
        assert "djqueue_history" not in query["sql"]
        assert "djqueue_dead_letter" not in query["sql"]
        assert "djqueue_job" not in query["sql"] or "parked_for" in query["sql"]


def test_who_may_not_see_queues_sees_the_plain_index(busy: None, login: Login) -> None:
    client = login("view_job")

    assert "djq-verdict" not in text_of(client.get(index()))
    assert client.get(reverse("admin:djqueue_overview"), headers={HEADER: "1"}).status_code == 403


def test_the_live_part_comes_alone_and_a_person_is_led_to_the_page(busy: None, login: Login) -> None:
    client = login("*")
    address = reverse("admin:djqueue_overview")

    live = text_of(client.get(address, {"span": "24h"}, headers={HEADER: "1"}))
    person = client.get(address, {"span": "24h"})

    assert "djq-verdict" in live
    assert "<html" not in live
    assert (person.status_code, person["Location"]) == (302, index() + "?span=24h")


def test_nothing_at_all_is_a_page_too(login: Login) -> None:
    page = text_of(login("*").get(index()))

    assert "No worker is running" in page
    assert "No queue has had a job yet" in page


def test_whatever_stands_in_the_tables_is_escaped(login: Login) -> None:
    now = timezone.now()
    Queue.objects.create(
        name=NASTY, ready=1, summary_at=now, paused_until=rows.LAST_MOMENT, paused_by=NASTY, paused_reason=NASTY
    )
    make_stat(queue_name=NASTY, task_name=NASTY)
    make_stat(outcome=NASTY)
    make_worker(queues=[NASTY])
    CodeVersion.objects.create(version=NASTY)
    rows.make_group(exception=NASTY)
    rows.make_entry(name=NASTY, last_error=NASTY)
    rows.make_job(state="parked", parked_for=f"task:{NASTY}", task_name=NASTY)

    page = text_of(login("*").get(index()))

    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert") > 5


def test_a_project_without_rights_to_anything_has_no_page(login: Login) -> None:
    client: Client = login()

    assert client.get(index()).status_code == 404
