"""Rate limits: texts, and the promise of a token bucket."""

import random

import pytest

from djqueue.policy.ratelimit import Bucket
from djqueue.rates import Rate


@pytest.mark.parametrize(
    ("text", "per_second", "burst"),
    [
        ("100/m", 100 / 60, 100 / 60),
        ("5/s", 5, 5),
        ("1/h", 1 / 3600, 1),
        ("1000/d", 1000 / 86400, 1),
        (" 3 / 10s ", 0.3, 1),
    ],
)
def test_a_text_means_so_many_starts_a_second(text: str, per_second: float, burst: float) -> None:
    assert Rate.parse(text) == Rate(per_second=per_second, burst=burst)


@pytest.mark.parametrize(
    "text", ["", "5", "5/", "/s", "5/w", "-1/s", "1.5/s", "0/s", "5/0s", "\u0665/s", "5/ms", None, 5]
)
def test_what_is_no_rate_is_refused_with_an_example(text: object) -> None:
    with pytest.raises(ValueError, match="for example"):
        Rate.parse(text)


def test_no_stretch_of_time_has_more_starts_than_burst_and_rate_allow() -> None:
    rng = random.Random(1)
    rate = Rate(per_second=7, burst=4)
    bucket, now, starts = Bucket(rate=rate, tokens=4, filled_at=0), 0.0, []
    for _ in range(2_000):
        now += rng.expovariate(20)
        if bucket.available(now) >= 1:
            bucket = bucket.take(1, now)
            starts.append(now)

    for first, begin in enumerate(starts):
        for last in range(first, min(first + 60, len(starts))):
            assert last - first + 1 <= rate.burst + rate.per_second * (starts[last] - begin) + 1e-6
    assert len(starts) > 0.9 * rate.per_second * now


def test_an_empty_bucket_says_when_it_lets_the_next_one_through() -> None:
    bucket = Bucket(rate=Rate(per_second=2, burst=3), tokens=0, filled_at=10)

    assert bucket.next_at(10) == 10.5
    assert bucket.next_at(11) == 11
    assert bucket.available(5) == 0  # the clock was set back
    assert bucket.available(1_000) == 3
