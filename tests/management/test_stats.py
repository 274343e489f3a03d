"""`manage.py djqueue stats`: four numbers first; then queues, tasks and pauses."""

from datetime import UTC, datetime

import pytest
from django.core.management import CommandError

from djqueue.store import db, numbers, operate, pauses, stats
from djqueue.store.pauses import Kind
from tests.management.saying import answer, run
from tests.store.factories import add, bend, fail, take_one

pytestmark = pytest.mark.django_db
FAR = datetime(2040, 1, 1, tzinfo=UTC)


def test_an_empty_queue_has_its_four_numbers() -> None:
    assert run("stats").splitlines() == [
        "jobs         0 ready, 0 running, 0 scheduled, 0 parked, 0 dead",
        "oldest ready none is ready",
        "duration     nothing has run in the last hour",
        "dead         0 in the last hour",
    ]


def test_counts_ages_durations_deaths_queues_and_pauses_are_said() -> None:
    add(3, max_attempts=1)
    fail(take_one())
    take_one()
    bend("run_at = now() - interval '2 min'")
    histogram = [0] * 24
    histogram[10] = 4
    stats.record(
        "default",
        [stats.Stat(queue_name="q", task_name="a.t", outcome="succeeded", count=4, seconds=2.0, histogram=histogram)],
    )
    stats.summarise_queues("default")
    operate.pause("default", "r", FAR, reason="moving", by="ada")
    pauses.pause("default", Kind.TASK, "a.t", FAR)

    lines = run("stats").splitlines()

    assert lines[0] == "jobs         1 ready, 1 running, 0 scheduled, 0 parked, 1 dead"
    assert lines[1] == "oldest ready 2 min"
    assert lines[2] == "duration     t 0.5 s"
    assert lines[3] == "dead         1 in the last hour"
    said = "\n".join(lines)
    assert "paused until 2040-01-01 00:00:00 UTC" in said
    assert "paused: queue r until 2040-01-01 00:00:00 UTC by ada: moving" in said
    assert "paused: task a.t until 2040-01-01 00:00:00 UTC" in said

    found = answer("stats")
    assert set(found) == {"counts", "dead_last_hour", "window_seconds", "tasks", "queues", "pauses"}
    assert found["counts"]["ready"] == 1
    assert found["tasks"][0] == {
        "task_name": "a.t", "attempts": 4, "failed": 0, "mean_seconds": 0.5,
        "median_seconds": found["tasks"][0]["median_seconds"], "p95_seconds": found["tasks"][0]["p95_seconds"],
    }  # fmt: skip
    assert [each["name"] for each in found["queues"]] == ["q", "r"]
    assert [each["kind"] for each in found["pauses"]] == ["queue", "task"]


def test_counts_are_taken_from_the_leader_s_figures_while_they_are_fresh() -> None:
    add(2)
    stats.summarise_queues("default")
    add(3)

    assert numbers.numbers("default").counts.ready == 2
    db.rows("default", "update djqueue_queue set summary_at = now() - interval '31 s'")
    assert numbers.numbers("default").counts.ready == 5


def test_a_backend_that_is_none_is_refused() -> None:
    with pytest.raises(CommandError, match="--backend: expected"):
        run("stats", "--backend", "none")
