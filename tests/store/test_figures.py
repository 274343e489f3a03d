"""What the control room reads comes from sums, in the steps that it asked for."""

from datetime import timedelta

import pytest
from django.utils import timezone

from djqueue.models import CodeVersion, Queue, Stat
from djqueue.policy.histogram import BUCKETS
from djqueue.store import figures
from tests.admin import rows

ALIAS = "default"
pytestmark = pytest.mark.django_db


def stat(minutes_ago: int, **fields: object) -> None:
    at = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=minutes_ago)
    base = {"queue_name": "a", "task_name": "t", "outcome": "succeeded", "count": 1, "seconds": 0.5}
    Stat.objects.create(minute=at, **{**base, **fields})


def test_the_running_minute_is_the_last_step_and_what_is_older_than_the_span_is_left_out() -> None:
    for minutes_ago in (0, 1, 59, 60, 61):
        stat(minutes_ago, count=10 + minutes_ago, wait_histogram=[1])

    ended = figures.ended(ALIAS, 60, 60)

    [row] = ended.by_outcome.values()
    assert (row[-1], row[-2], row[0]) == (10, 11, 69)
    assert sum(row) == sum(ended.by_queue["a"]) == 90
    assert sorted(figures.waits(ALIAS, 60, 60)) == [0, 58, 59]
    assert [run.count for run in figures.runs(ALIAS, 60, 60)] == [90]


def test_what_ended_is_told_apart_by_outcome_and_by_queue() -> None:
    stat(1, count=2)
    stat(1, count=3, outcome="dead", queue_name="b")

    ended = figures.ended(ALIAS, 1_200, 72)

    assert {name: sum(row) for name, row in ended.by_outcome.items()} == {"succeeded": 2, "dead": 3}
    assert {name: sum(row) for name, row in ended.by_queue.items()} == {"a": 2, "b": 3}


def test_histograms_are_summed_bucket_by_bucket_beside_rows_without_any() -> None:
    stat(1, wait_histogram=[0, 4], histogram=[1] * BUCKETS)
    stat(1, wait_histogram=[1, 1], histogram=[2], queue_name="b")
    stat(1, outcome="dead")

    [waits] = figures.waits(ALIAS, 60, 60).values()
    [runs] = figures.runs(ALIAS, 60, 60)

    assert waits[:3] == [1, 5, 0]
    assert (runs.task_name, runs.count, runs.seconds, runs.histogram[:3]) == ("t", 3, 1.5, [3, 1, 1])


def test_signs_of_the_last_hour_and_day() -> None:
    stat(5, count=40)
    stat(5, count=2, outcome="dead")
    stat(5, count=9, outcome="scheduled")
    stat(90, count=7, outcome="dead")
    stat(60 * 25, count=99, outcome="dead")
    CodeVersion.objects.create(version="new")
    CodeVersion.objects.create(version="old", first_seen_at=timezone.now() - timedelta(days=2))
    group = rows.make_group(count=4)
    rows.make_group(state="muted")
    rows.make_group(first_seen_at=timezone.now() - timedelta(days=1))

    signs = figures.signs(ALIAS, 3_600)

    assert (signs.died, signs.ended, signs.died_in_a_day) == (2, 42, 9)
    assert [version for version, _ in signs.versions] == ["new"]
    assert [(print_, deaths) for print_, _, deaths, _ in signs.causes] == [(group.pk, 4)]


def test_ages_are_those_of_the_moment_of_the_summary() -> None:
    now = timezone.now()
    Queue.objects.create(
        name="a",
        summary_at=now - timedelta(seconds=100),
        oldest_ready_at=now - timedelta(seconds=130),
        paused_until=now + timedelta(seconds=500),
    )
    Queue.objects.create(name="b", paused_until=now - timedelta(seconds=1))
    Queue.objects.create(name="c", paused_until=rows.LAST_MOMENT)

    a, b, c = figures.queues(ALIAS)

    assert a.oldest_seconds == pytest.approx(30, abs=0.01)
    assert a.figures_seconds == pytest.approx(100, abs=5)
    assert a.paused_seconds == pytest.approx(500, abs=5)
    assert (b.paused_seconds, b.figures_seconds, b.oldest_seconds) == (None, None, None)
    assert c.paused_seconds is not None and c.paused_seconds > 1e10


def test_orphans_are_counted_by_task_and_paused_ones_are_none() -> None:
    for queue in ("a", "b", "a"):
        rows.make_job(state="parked", parked_for="task:gone", task_name="gone", queue_name=queue)
    rows.make_job(state="parked", parked_for="task:alas", task_name="alas")
    rows.make_job(state="parked", parked_for="tenant:x")
    rows.make_job(state="parked", parked_for="paused:y")
    rows.make_job(state="parked", ordering_key="k")

    found = figures.orphans(ALIAS)

    assert [(task, jobs, sorted(queues)) for task, jobs, queues, _ in found] == [
        ("alas", 1, ["emails"]),
        ("gone", 3, ["a", "b"]),
    ]
    assert len(figures.orphans(ALIAS, most=1)) == 1


def test_an_empty_database_has_figures_too() -> None:
    fleet, signs = figures.fleet(ALIAS), figures.signs(ALIAS, 60)

    assert (fleet.workers, fleet.slots, fleet.served, fleet.has_leader) == (0, 0, frozenset(), False)
    assert (signs.died, signs.causes, signs.versions) == (0, [], [])
    assert (figures.queues(ALIAS), figures.orphans(ALIAS), figures.runs(ALIAS, 60, 60)) == ([], [], [])
