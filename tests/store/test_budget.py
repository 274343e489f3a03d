"""The budget's row: the statement says the same as the policy, for all workers together."""

from typing import Any

import pytest

from djqueue.policy import budget as policy
from djqueue.policy.budget import BudgetOptions
from djqueue.policy.histogram import BUCKETS
from djqueue.store import budget, db
from djqueue.store.stats import Stat, record
from tests.store.factories import ALIAS

OPTIONS = BudgetOptions(ratio=0.1, floor_per_second=2)


def spend(retries: int, queue: str = "q", options: BudgetOptions = OPTIONS) -> budget.Spent:
    [found] = budget.spend(ALIAS, {queue: retries}, options)
    return found


def let_time_pass(seconds: float) -> None:
    db.rows(
        ALIAS,
        "update djqueue_retry_budget set level_at = level_at - make_interval(secs => %(s)s)",
        {"s": float(seconds)},
    )


def succeed(jobs: int, minutes_ago: int = 0, queue: str = "q") -> None:
    record(
        ALIAS,
        [Stat(queue_name=queue, task_name="t", outcome="succeeded", count=jobs, seconds=1, histogram=[0] * BUCKETS)],
    )
    db.rows(
        ALIAS,
        "update djqueue_stat set minute = minute - make_interval(mins => %(m)s) "
        "where minute = date_trunc('minute', statement_timestamp())",
        {"m": minutes_ago},
    )


def row() -> Any:
    return db.rows(ALIAS, "select retries, pushed, pushed_at is not null from djqueue_retry_budget")[0]


def test_retries_raise_the_level_and_time_lets_it_fall(store: str) -> None:
    assert (spend(100).level, spend(1).level) == (0, pytest.approx(100, abs=0.5))
    let_time_pass(30)

    assert spend(1).level == pytest.approx(policy.drained(101, 2, 30), abs=0.5)


def test_what_is_beyond_the_budget_is_counted(store: str) -> None:
    spend(119)
    assert row() == (119, 0, False)
    spend(11)

    assert row() == (130, 10, True)
    standing = budget.standing(ALIAS, "q")
    assert standing is not None
    assert (standing.per_second, standing.retries, standing.pushed) == (2, 130, 10)
    assert budget.standing(ALIAS, "other") is None


def test_the_first_failures_of_a_queue_are_counted_as_well(store: str) -> None:
    spend(130)

    assert row() == (130, 10, True)


def test_what_succeeded_within_the_last_minute_raises_the_rate(store: str) -> None:
    succeed(6_000)
    succeed(1_000_000, queue="other")
    succeed(1_000_000, minutes_ago=2)
    succeed(6_000)

    assert spend(1).per_second == pytest.approx(2 + 10)


def test_a_share_of_the_minute_before_counts(store: str) -> None:
    succeed(6_000, minutes_ago=1)
    [(share,)] = db.rows(ALIAS, "select 1 - extract(second from statement_timestamp())::float8 / 60")

    assert spend(1).per_second == pytest.approx(2 + 10 * share, abs=0.5)


def test_each_queue_has_a_budget_of_its_own(store: str) -> None:
    found = budget.spend(ALIAS, {"b": 5, "a": 7}, OPTIONS)

    assert {spent.queue_name: spent.level for spent in found} == {"a": 0, "b": 0}
    assert spend(1, "a").level == pytest.approx(7, abs=0.5)
    assert spend(1, "b").level == pytest.approx(5, abs=0.5)


def test_the_level_does_not_run_away(store: str) -> None:
    for _ in range(3):
        spend(10_000)

    assert spend(1).level <= 2 * (policy.WINDOW_SECONDS + policy.MOST_SECONDS)
