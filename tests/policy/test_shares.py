"""Shares of queues: exact under saturation, nothing idle, nobody starved, nothing saved up."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from djqueue.policy.shares import Shares

ARRIVALS = st.dictionaries(st.sampled_from("abcdefg"), st.integers(0, 60))
WEIGHTS = {"a": 5.0, "b": 3.0, "c": 2.0}


def claim(shares: Shares, weights: dict[str, float], jobs: dict[str, int], limit: int) -> tuple[Counter[str], bool]:
    """What a claim takes out of `jobs` when it goes through the turns in order; and whether a quota was in the way."""
    taken: Counter[str] = Counter()
    for name, quota in shares.order(weights, limit):
        got = min(quota, jobs.get(name, 0), limit - taken.total())
        jobs[name] = jobs.get(name, 0) - got
        taken[name] += got
    return taken, shares.took(taken)


@pytest.mark.parametrize("limit", [1, 2, 7, 100, 500])
def test_under_saturation_shares_are_as_the_weights_over_any_window(limit: int) -> None:
    shares, jobs = Shares(random.Random(1)), dict.fromkeys(WEIGHTS, 10**9)
    claims = [claim(shares, WEIGHTS, jobs, limit)[0] for _ in range(10_000 // limit * 3)]

    assert all(taken.total() == limit for taken in claims)
    for start in (0, *range(8, len(claims) // 2, max(1, len(claims) // 20))):  # by then all have met
        window = sum(claims[start : start + 10_000 // limit], Counter())
        for name, weight in WEIGHTS.items():
            assert window[name] / window.total() == pytest.approx(weight / 10, rel=0.05, abs=2 / window.total())


def test_a_heavy_neighbour_starves_nobody() -> None:
    shares, weights = Shares(random.Random(1)), {"heavy": 1000.0, "light": 1.0}
    jobs = dict.fromkeys(weights, 10**9)

    taken = sum((claim(shares, weights, jobs, 10)[0] for _ in range(1_000)), Counter())

    assert taken["light"] == pytest.approx(10, abs=11)
    assert taken["light"] >= 9


def test_who_was_idle_is_served_first_but_has_saved_nothing_up() -> None:
    shares, weights, jobs = Shares(random.Random(1)), {"a": 1.0, "b": 1.0}, {"a": 10**9}
    for _ in range(100):
        claim(shares, weights, jobs, 10)
    jobs["b"] = 1
    assert claim(shares, weights, jobs, 10)[0] == {"a": 9, "b": 1}

    jobs["b"] = 10**9
    taken = sum((claim(shares, weights, jobs, 10)[0] for _ in range(20)), Counter())
    assert taken["b"] == pytest.approx(100, abs=10)


def test_what_one_queue_does_not_need_the_others_take() -> None:
    shares, jobs = Shares(random.Random(1)), dict.fromkeys(WEIGHTS, 1_000)
    claim(shares, WEIGHTS, jobs, 100)
    claim(shares, WEIGHTS, jobs, 100)
    jobs["a"] = 3

    taken, _ = claim(shares, WEIGHTS, jobs, 100)

    assert taken.total() == 100


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 1000), min_size=1),
    st.lists(st.tuples(ARRIVALS, st.integers(1, 40)), max_size=30),
    st.integers(),
)
def test_a_short_claim_means_that_nothing_is_left_or_says_that_a_quota_was_in_the_way(
    weights: dict[str, int], rounds: list[tuple[dict[str, int], int]], seed: int
) -> None:
    shares, jobs = Shares(random.Random(seed)), dict.fromkeys(weights, 0)
    for arrivals, limit in rounds:
        for name, count in arrivals.items():
            jobs[name] = jobs.get(name, 0) + count
        served = {name: float(weight) for name, weight in weights.items()}

        taken, was_bound = claim(shares, served, jobs, limit)

        assert taken.total() <= limit
        if taken.total() < limit and not was_bound:
            assert not any(jobs[name] for name in weights)
    while sum(jobs[name] for name in weights):  # a worker that is hungry comes to everything
        claim(shares, {name: float(weight) for name, weight in weights.items()}, jobs, 10)
