"""R14: backoff that is bounded, jittered and never in the past."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from djqueue.policy.retry import RetryPolicy

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
    with pytest.raises(ValueError, match='jitter: expected "full" or "none", got \'half\''):
        RetryPolicy(jitter="half")  # type: ignore[arg-type]
