"""Forecasts of queues: from summary rows and minutes, without looking at jobs."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from djqueue.store import db, forecast
from tests.store.factories import ALIAS


def queue(name: str, ready: int, waited: str = "0 s", leased: int = 0) -> None:
    db.rows(
        ALIAS,
        "insert into djqueue_queue (name, ready, leased, oldest_ready_at, summary_at) values (%(n)s, %(r)s, %(l)s, "
        "case when %(r)s > 0 then now() - %(w)s::interval end, now() - interval '2 s')",
        {"n": name, "r": ready, "w": waited, "l": leased},
    )


def ended(name: str, count: int, minutes_ago: int, outcome: str = "succeeded", seconds: float = 0) -> None:
    db.rows(
        ALIAS,
        "insert into djqueue_stat (minute, queue_name, task_name, outcome, count, seconds) values "
        "(date_trunc('minute', now()) - make_interval(mins => %(m)s), %(q)s, 't', %(o)s, %(c)s, %(s)s)",
        {"m": minutes_ago, "q": name, "o": outcome, "c": count, "s": seconds},
    )


def test_what_left_while_the_oldest_job_waited_says_when_the_queue_is_empty(store: str) -> None:
    queue("q", 1_200, waited="10 min")
    for minute in range(15):
        ended("q", 6_000 if minute > 10 else 600, minute, seconds=60)

    [found] = forecast.queues(ALIAS)

    assert found.forecast.per_second == pytest.approx(10, rel=0.11)
    assert found.forecast.drain_seconds == pytest.approx(120, rel=0.11)
    assert found.forecast.busy_slots == pytest.approx(1, rel=0.11)
    assert found.oldest_ready_seconds == pytest.approx(600, abs=5)
    assert found.summary_seconds == pytest.approx(2, abs=5)


def test_attempts_after_which_the_job_is_still_there_leave_nothing(store: str) -> None:
    queue("q", 10)
    for outcome in ("scheduled", "lost", "ready"):
        ended("q", 500, 0, outcome)

    assert forecast.of_queue(ALIAS, "q").forecast.drain_seconds is None  # type: ignore[union-attr]
    for outcome in ("succeeded", "dead", "cancelled"):
        ended("q", 1, 0, outcome)
    assert forecast.of_queue(ALIAS, "q").forecast.drain_seconds is not None  # type: ignore[union-attr]


def test_each_queue_has_its_own_window_and_its_own_figures(store: str) -> None:
    queue("a", 0, leased=3)
    queue("b", 60, waited="3 h")
    ended("b", 900, 14)
    ended("b", 9_000, 40)

    a, b = forecast.queues(ALIAS)

    assert (a.name, a.leased, a.oldest_ready_seconds, a.forecast.drain_seconds) == ("a", 3, None, None)
    assert b.forecast.drain_seconds == pytest.approx(60, rel=0.11)
    assert forecast.of_queue(ALIAS, "c") is None


def test_a_forecast_reads_no_jobs(db: None) -> None:
    queue("q", 5)
    with CaptureQueriesContext(connection) as captured:
        forecast.queues(ALIAS)

    assert len(captured) == 1
    assert "djqueue_job" not in captured[0]["sql"]


def test_a_row_that_nobody_has_counted_says_so(store: str) -> None:
    db.rows(ALIAS, "insert into djqueue_queue (name) values ('q')")

    found = forecast.of_queue(ALIAS, "q")

    assert found is not None
    assert (found.summary_seconds, found.ready, found.forecast.drain_seconds) == (None, 0, 0)
