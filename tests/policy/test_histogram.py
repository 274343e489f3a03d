"""Durations in buckets, and what percentiles they give."""

import random

import pytest

from djqueue.policy.histogram import BUCKETS, bucket, merged, quantile


def histogram(values: list[float]) -> list[int]:
    counts = [0] * BUCKETS
    for value in values:
        counts[bucket(value)] += 1
    return counts


def test_buckets_double_and_the_last_takes_the_rest() -> None:
    assert [bucket(seconds) for seconds in (0, 0.001, 0.0011, 0.002, 0.0021, 1.0)] == [0, 0, 1, 1, 2, 10]
    assert bucket(3_600) == 22
    assert bucket(1e9) == BUCKETS - 1


@pytest.mark.parametrize("part", [0.5, 0.95, 0.99, 1.0])
def test_a_percentile_is_right_to_within_its_bucket(part: float) -> None:
    rng = random.Random(7)
    values = sorted(rng.expovariate(3) for _ in range(10_000))
    exact = values[max(0, round(part * len(values)) - 1)]

    found = quantile(histogram(values), part)

    assert found is not None
    assert bucket(found) in (bucket(exact), bucket(exact) + 1)
    assert exact / 2 <= found <= exact * 2


def test_nothing_has_no_percentile() -> None:
    assert quantile([0] * BUCKETS, 0.5) is None
    assert quantile([], 0.5) is None


def test_sums_take_histograms_of_any_length() -> None:
    assert merged([[1, 2], [0, 1, 5], list(range(40))])[:4] == [1, 4, 7, 3]
