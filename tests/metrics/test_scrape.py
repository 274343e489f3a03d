"""A scrape: what Prometheus' own parser makes of it, how many values and statements there are, and who is answered."""

import re
import sys
from datetime import timedelta
from importlib import reload
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from djqueue.metrics import collector
from djqueue.metrics.table import METRICS
from djqueue.models import Leader, Queue, Stat, Worker
from tests.admin import rows

TOKEN = "three-blind-mice"
AUTH = {"Authorization": f"Bearer {TOKEN}"}
NASTY = 'a "b"\\c\nd {e="f"} ☃'

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.metrics.urls")]


@pytest.fixture(autouse=True)
def token(settings: Any) -> None:
    """A project that has set a token."""
    settings.DJQUEUE_METRICS_TOKEN = TOKEN


def scrape() -> dict[tuple[str, ...], float]:
    """Samples by name and the values of labels, `database` apart, as Prometheus' parser reads them."""
    answer = Client().get("/metrics", headers=AUTH)
    assert answer.status_code == 200
    found = {}
    for family in text_string_to_metric_families(answer.content.decode()):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("database") == "default"
            assert sample.name in METRICS
            assert set(labels) == set(METRICS[sample.name].labels)
            assert family.type == METRICS[sample.name].kind
            key = (sample.name, *(labels[label] for label in METRICS[sample.name].labels))
            assert key not in found
            found[key] = sample.value
    return found


def queue(name: str, **fields: Any) -> None:
    Queue.objects.create(name=name, summary_at=timezone.now(), **fields)


def stat(task: str, minutes_ago: int = 2, **fields: Any) -> None:
    at = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=minutes_ago)
    base = {"queue_name": "q", "outcome": "succeeded", "count": 30, "seconds": 60.0}
    Stat.objects.create(minute=at, task_name=task, **{**base, **fields})


def test_every_metric_is_read_by_prometheus_parser_whatever_names_hold() -> None:
    now = timezone.now()
    oldest = now - timedelta(seconds=90)
    queue(NASTY, ready=600, scheduled=5, retrying=2, parked=1, leased=3, oldest_ready_at=oldest, target_seconds=60)
    stat(NASTY, histogram=[0, 8], wait_histogram=[4])
    stat(NASTY, outcome="dead", queue_name="r", count=10, seconds=20.0)
    Worker.objects.create(id="w", slots=5)
    Worker.objects.create(id="gone", slots=5, seen_at=now - timedelta(hours=1))
    Leader.objects.create(name="djqueue", holder="w", until=now + timedelta(minutes=1))
    rows.make_circuit(name=NASTY, state="open", calls=7, failures=4, opened=2)

    found = scrape()

    assert {name for name, *_ in found} == set(METRICS)
    states = {"ready": 600, "scheduled": 3, "retrying": 2, "parked": 1, "leased": 3}
    assert {state: found["djqueue_jobs", NASTY, state] for state in states} == states
    assert found["djqueue_oldest_ready_age_seconds", NASTY] == pytest.approx(90, abs=30)
    assert found["djqueue_queue_paused", NASTY] == 0
    assert found["djqueue_attempts_per_second", NASTY, "succeeded"] == pytest.approx(0.1)
    assert found["djqueue_attempt_mean_seconds", NASTY] == 2
    assert found["djqueue_attempt_run_seconds", "0.5"] == pytest.approx(0.0015)
    assert (found["djqueue_workers",], found["djqueue_workers_silent",]) == (1, 1)
    assert (found["djqueue_slots",], found["djqueue_slots_busy",], found["djqueue_leader",]) == (5, 3, 1)
    assert found["djqueue_workers_wanted",] == 6, "(40/300 + 600/60) · 2 s · 1.3 ÷ 5 slots"
    assert found["djqueue_circuits", NASTY, "open"] == 1
    assert found["djqueue_circuit_calls_total", NASTY] == 7
    assert found["djqueue_circuit_failures_total", NASTY] == 4
    assert found["djqueue_circuit_openings_total", NASTY] == 2


def test_an_empty_database_says_that_nobody_works_and_one_worker_is_wanted() -> None:
    found = scrape()

    assert found["djqueue_workers",] == found["djqueue_slots",] == found["djqueue_leader",] == 0
    assert found["djqueue_workers_wanted",] == 1


def test_minutes_that_are_not_over_or_long_ago_do_not_count() -> None:
    stat("not_over", minutes_ago=-1)
    stat("long_ago", minutes_ago=7)

    assert [key for key in scrape() if key[0].startswith("djqueue_attempt")] == []


def test_a_paused_queue_is_told_and_wants_no_worker() -> None:
    queue("q", ready=1_000_000, paused_until=timezone.now() + timedelta(days=1))

    found = scrape()

    assert found["djqueue_queue_paused", "q"] == 1
    assert found["djqueue_workers_wanted",] == 1


def test_labels_have_a_hundred_values_and_the_rest_is_summed() -> None:
    for number in range(130):
        queue(f"q{number:03}", ready=1)
        stat(f"t{number:03}")
        rows.make_circuit(name=f"c{number:03}", calls=2)

    found = scrape()

    for label, metric in (("queue", "djqueue_jobs"), ("task", "djqueue_attempts_per_second")):
        assert len({key[1] for key in found if key[0] == metric}) == 101, label
    assert len([key for key in found if key[0] == "djqueue_circuit_calls_total"]) == 101
    assert found["djqueue_jobs", "other", "ready"] == 30
    assert found["djqueue_attempts_per_second", "other", "succeeded"] == pytest.approx(30 * 30 / 300)
    assert found["djqueue_circuit_calls_total", "other"] == 60


def test_a_scrape_takes_four_statements_and_none_looks_at_jobs_or_history() -> None:
    for number in range(20):
        queue(f"q{number}")
        stat(f"t{number}")

    with CaptureQueriesContext(connection) as asked:
        scrape()

    tables = {table for each in asked for table in re.findall(r"(?:from|join) (djqueue_\w+)", each["sql"])}
    assert len(asked) == 4
    assert tables == {"djqueue_queue", "djqueue_worker", "djqueue_leader", "djqueue_stat", "djqueue_circuit"}


@pytest.mark.parametrize("given", ["", TOKEN, "Bearer", "Bearer ", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN} "])
def test_a_wrong_token_is_refused_without_a_look(given: str) -> None:
    with CaptureQueriesContext(connection) as asked:
        answer = Client().get("/metrics", headers={"Authorization": given})

    assert (answer.status_code, len(asked)) == (403, 0)


@pytest.mark.parametrize("given", ["Bearer", "Bearer ", "Bearer None", AUTH["Authorization"]])
def test_where_no_token_is_set_none_opens(given: str, settings: Any) -> None:
    settings.DJQUEUE_METRICS_TOKEN = ""
    assert Client().get("/metrics", headers={"Authorization": given}).status_code == 403

    del settings.DJQUEUE_METRICS_TOKEN
    assert Client().get("/metrics", headers={"Authorization": given}).status_code == 403


def test_a_token_that_is_no_text_is_a_mistake_that_is_told(settings: Any) -> None:
    settings.DJQUEUE_METRICS_TOKEN = None

    with pytest.raises(ImproperlyConfigured, match="DJQUEUE_METRICS_TOKEN: expected a string, got NoneType"):
        Client().get("/metrics")


@pytest.mark.parametrize(
    ("is_staff", "is_active", "permissions", "status"),
    [(True, True, 1, 200), (True, True, 0, 403), (False, True, 1, 403), (True, False, 1, 403)],
)
def test_staff_that_may_see_queues_needs_no_token(
    is_staff: bool, is_active: bool, permissions: int, status: int
) -> None:
    user = User.objects.create_user("ada", is_staff=is_staff, is_active=is_active)
    user.user_permissions.set(Permission.objects.filter(codename="view_queue")[:permissions])
    client = Client()
    client.force_login(user)

    assert client.get("/metrics").status_code == status


def test_only_reading_is_answered_and_nothing_is_cached() -> None:
    assert Client().post("/metrics", headers=AUTH).status_code == 405
    assert "no-store" in Client().get("/metrics", headers=AUTH)["Cache-Control"]


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)

    with pytest.raises(ImproperlyConfigured, match=re.escape("pip install 'djqueue[metrics]'")):
        reload(collector)


def test_the_documentation_s_table_is_the_table_of_the_code() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text()
    told = re.findall(r"^\| `(djqueue_\w+)` \| (\w+) \| (.*?) ?\| (.*) \|$", page, re.MULTILINE)

    assert told == [
        (name, str(metric.kind), ", ".join(f"`{label}`" for label in metric.labels), metric.help)
        for name, metric in METRICS.items()
    ]
