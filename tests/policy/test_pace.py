from hypothesis import given
from hypothesis import strategies as st

from djqueue.policy.pace import Pace

COUNTS = st.integers(min_value=0, max_value=5000)


def test_before_anything_was_measured_only_the_free_slots_are_wanted() -> None:
    assert Pace().want(slots=10, running=3, waiting=0, capacity=1000) == 7


def test_long_jobs_are_claimed_for_free_slots_only() -> None:
    pace = Pace()
    for _ in range(50):
        pace.observe(30.0)
    assert pace.want(slots=10, running=10, waiting=0, capacity=1000) == 0
    assert pace.want(slots=10, running=4, waiting=0, capacity=1000) == 6


def test_a_burst_of_short_jobs_reaches_hundreds_per_claim_within_five_claims() -> None:
    pace = Pace()
    sizes = []
    for _ in range(5):
        size = pace.want(slots=4, running=0, waiting=0, capacity=1000)
        pace.observe(size * 0.0001, size)
        sizes.append(size)
    assert sizes[0] == 4
    assert sizes == sorted(sizes)
    assert sizes[-1] > 300


def test_one_slow_job_ends_the_look_ahead_at_once() -> None:
    pace = Pace()
    pace.observe(0.1, 1000)
    assert pace.want(slots=4, running=4, waiting=0, capacity=1000) > 500
    pace.observe(10.0)
    assert pace.want(slots=4, running=4, waiting=0, capacity=1000) == 0


def test_the_look_ahead_is_what_the_slots_start_within_the_horizon() -> None:
    pace = Pace(horizon_seconds=0.05)
    pace.observe(1.0, 100)
    assert pace.want(slots=8, running=8, waiting=0, capacity=1000) == 40
    assert pace.want(slots=8, running=8, waiting=15, capacity=1000) == 25


@given(slots=COUNTS, running=COUNTS, waiting=COUNTS, capacity=COUNTS, each=st.floats(min_value=0, max_value=1e6))
def test_a_claim_is_never_negative_and_never_above_capacity(
    slots: int, running: int, waiting: int, capacity: int, each: float
) -> None:
    pace = Pace()
    pace.observe(each * 50, 50)
    assert 0 <= pace.want(slots=slots, running=running, waiting=waiting, capacity=capacity) <= capacity


@given(st.lists(st.tuples(st.floats(min_value=-1, max_value=1e9), st.integers(min_value=-1, max_value=10_000))))
def test_the_mean_stays_positive_and_finite_whatever_is_observed(observed: list[tuple[float, int]]) -> None:
    pace = Pace()
    for seconds, jobs in observed:
        pace.observe(seconds, jobs)
    assert pace.seconds_per_job is None or 0 < pace.seconds_per_job <= 1e9
