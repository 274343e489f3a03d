"""Durations in buckets: 0 up to a millisecond, each next one up to twice as long, the last for whatever is longer.

Few numbers per minute and task, and percentiles that are right to within their bucket.
"""

import math
from collections.abc import Sequence

BUCKETS = 24
FIRST_BUCKET_SECONDS = 0.001


def bucket(seconds: float) -> int:
    """Return the bucket of a duration; the last one is for over 70 minutes."""
    if seconds <= FIRST_BUCKET_SECONDS:
        return 0
    return min(BUCKETS - 1, math.ceil(math.log2(seconds / FIRST_BUCKET_SECONDS)))


def quantile(counts: Sequence[float], part: float) -> float | None:
    """Return the duration that this part of the values (0 to 1) did not exceed, evenly spread within its bucket; None
    where there is no value."""
    total = sum(counts)
    if total <= 0:
        return None
    wanted, seen = part * total, 0.0
    for place, number in enumerate(counts):
        if number and seen + number >= wanted:
            low, high = _edges(place)
            return low + (high - low) * max(0.0, wanted - seen) / number
        seen += number
    return _edges(len(counts) - 1)[1]


def merged(rows: Sequence[Sequence[float]]) -> list[float]:
    """Return the sum of histograms; a short one has nothing in what it lacks."""
    found = [0.0] * BUCKETS
    for row in rows:
        for place, number in enumerate(row[:BUCKETS]):
            found[place] += number
    return found


def _edges(place: int) -> tuple[float, float]:
    return (0.0 if place == 0 else FIRST_BUCKET_SECONDS * 2 ** (place - 1)), FIRST_BUCKET_SECONDS * 2**place
