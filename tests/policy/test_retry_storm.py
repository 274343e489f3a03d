"""The order of the policies in the retry storm, whatever the exact figures are."""

import random
import statistics

import pytest

from benchmarks.retry_storm import ARRIVALS, CAPACITY, PROTECTIONS, STEP_SECONDS, Storm, simulate
from djqueue.policy.retry import AnyRetry, FixedRetry, RetryPolicy

FULL = RetryPolicy(base_seconds=1, cap_seconds=8)
NONE = RetryPolicy(base_seconds=1, cap_seconds=8, jitter="none")


def storm(policy: AnyRetry, seed: int = 0, protection: str = "") -> Storm:
    return simulate(policy, 19, random.Random(seed), PROTECTIONS.get(protection))


def test_without_jitter_the_crowd_that_failed_together_comes_back_together() -> None:
    """R14"""
    assert storm(FixedRetry(seconds=1)).peak == max(ARRIVALS)
    assert storm(NONE).peak == max(ARRIVALS)


def test_full_jitter_keeps_the_peak_below_a_third_of_the_crowd() -> None:
    """R14"""
    assert statistics.median(storm(FULL, seed).peak for seed in range(9)) < max(ARRIVALS) / 3


def test_full_jitter_ends_where_backoff_without_it_leaves_jobs_behind() -> None:
    assert storm(FULL).left == 0
    assert storm(NONE).left > 0


def test_no_policy_is_served_faster_than_the_dependency_can() -> None:
    soonest = 19 + (sum(ARRIVALS) / CAPACITY - 1) * STEP_SECONDS

    for policy in (FixedRetry(seconds=1), FULL, RetryPolicy(base_seconds=1, cap_seconds=8, jitter="equal")):
        ended = storm(policy).done_after_seconds
        assert ended is not None
        assert ended >= soonest


@pytest.mark.parametrize("protection", list(PROTECTIONS))
def test_budget_and_breaker_waste_fewer_calls_and_keep_the_peak_lower_than_full_jitter_alone(protection: str) -> None:
    alone = [storm(FULL, seed) for seed in range(9)]
    protected = [storm(FULL, seed, protection) for seed in range(9)]

    for what in ("wasted", "peak"):
        before = statistics.median(getattr(each, what) for each in alone)
        assert statistics.median(getattr(each, what) for each in protected) < before
    assert all(each.left == 0 for each in protected)


def test_with_a_breaker_the_first_crowd_and_a_few_probes_are_all_that_is_wasted() -> None:
    assert storm(FULL, protection="full, breaker").wasted < max(ARRIVALS) + 30
