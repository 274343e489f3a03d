"""R14: backoff that is bounded, jittered and never in the past."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from djqueue.policy.retry import CallableRetry, FixedRetry, Jitter, RetryPolicy, timetable

SECONDS = st.floats(min_value=0, max_value=315_360_000)


@given(base=SECONDS, cap=SECONDS, attempt=st.integers(min_value=-5, max_value=10**9), seed=st.integers())
def test_r14_a_delay_is_never_negative_and_never_above_the_cap(
    base: float, cap: float, attempt: int, seed: int
) -> None:
    delay = RetryPolicy(base_seconds=base, cap_seconds=cap).delay_seconds(attempt, random.Random(seed))
    assert 0 <= delay <= cap


@pytest.mark.parametrize("attempt", [63, 1024, 100_000, 10**30])
def test_r14_huge_attempt_numbers_wait_for_the_cap(attempt: int) -> None:
    policy = RetryPolicy(jitter="none")
    assert policy.delay_seconds(attempt, random.Random(1)) == 3600


def test_r14_the_ceiling_doubles_with_each_attempt_up_to_the_cap() -> None:
    policy = RetryPolicy(base_seconds=15, cap_seconds=200, jitter="none")
    delays = [policy.delay_seconds(attempt, random.Random(1)) for attempt in range(1, 7)]
    assert delays == [30, 60, 120, 200, 200, 200]


def test_r14_five_thousand_jobs_that_fail_together_spread_out_evenly() -> None:
    rng = random.Random(7)
    delays = [RetryPolicy().delay_seconds(3, rng) for _ in range(5000)]
    in_each_tenth = [sum(1 for delay in delays if tenth * 12 <= delay < tenth * 12 + 12) for tenth in range(10)]
    assert sum(in_each_tenth) == 5000
    assert all(400 < count < 600 for count in in_each_tenth)


def test_eight_attempts_end_within_about_an_hour() -> None:
    policy = RetryPolicy()
    assert sum(policy.ceiling_seconds(attempt) for attempt in range(1, 8)) == 3810


@pytest.mark.parametrize("policy", [RetryPolicy(base_seconds=0), RetryPolicy(cap_seconds=0)])
def test_base_or_cap_zero_means_no_backoff(policy: RetryPolicy) -> None:
    assert policy.delay_seconds(8, random.Random(1)) == 0


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), 315_360_001, "15", None, True])
@pytest.mark.parametrize("name", ["base_seconds", "cap_seconds"])
def test_a_wrong_number_of_seconds_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name}: expected .*got {value!r}"):
        RetryPolicy(**{name: value})  # type: ignore[arg-type]


def test_an_unknown_jitter_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"jitter: expected one of .*got 'half'"):
        RetryPolicy(jitter="half")  # type: ignore[arg-type]


@pytest.mark.parametrize("jitter", ["full", "equal", "decorrelated", "none"])
@given(base=SECONDS, cap=SECONDS, attempt=st.integers(1, 10**9), previous=st.none() | SECONDS, seed=st.integers())
def test_r14_no_jitter_leaves_the_bounds(
    jitter: Jitter, base: float, cap: float, attempt: int, previous: float | None, seed: int
) -> None:
    policy = RetryPolicy(base_seconds=base, cap_seconds=cap, jitter=jitter)
    assert 0 <= policy.delay_seconds(attempt, random.Random(seed), previous) <= cap


def test_equal_jitter_waits_at_least_half_of_the_ceiling() -> None:
    policy = RetryPolicy(base_seconds=10, jitter="equal")
    rng = random.Random(3)
    assert all(10 <= policy.delay_seconds(1, rng) <= 20 for _ in range(1_000))


def test_decorrelated_jitter_grows_from_the_delay_before() -> None:
    policy = RetryPolicy(base_seconds=10, cap_seconds=1_000, jitter="decorrelated")
    rng = random.Random(3)
    assert all(10 <= policy.delay_seconds(1, rng) <= 30 for _ in range(1_000))
    assert max(policy.delay_seconds(5, rng, previous=200) for _ in range(1_000)) > 500


def test_a_fixed_delay_and_an_own_function() -> None:
    assert FixedRetry(seconds=7).delay_seconds(3, random.Random(1)) == 7
    assert CallableRetry(function=lambda attempt: attempt * 10).delay_seconds(3, random.Random(1)) == 30
    assert CallableRetry(function=lambda attempt: -1).delay_seconds(3, random.Random(1)) == 0


def test_an_own_function_that_answers_no_number_is_told_so() -> None:
    with pytest.raises(ValueError, match="retry: expected seconds"):
        CallableRetry(function=lambda attempt: "soon").delay_seconds(1, random.Random(1))  # type: ignore[arg-type,return-value]


def test_a_timetable_lists_the_waits_between_all_attempts() -> None:
    rows = timetable(RetryPolicy(), 8)
    assert [row.attempt for row in rows] == [1, 2, 3, 4, 5, 6, 7]
    assert sum(row.longest for row in rows) == 3810
    assert sum(row.mean for row in rows) == 1905
    assert timetable(FixedRetry(seconds=1), 1) == []
