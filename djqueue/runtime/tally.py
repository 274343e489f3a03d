"""What a worker has done lately, kept in memory and written to the minute statistics every few seconds."""

import time

from djqueue.policy.histogram import BUCKETS, bucket
from djqueue.runtime.held import Held
from djqueue.store import stats

FLUSH_SECONDS = 5.0


class _Count:
    __slots__ = ("count", "histogram", "seconds", "waits")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.histogram = [0] * BUCKETS
        self.waits = [0] * BUCKETS


class Tally:
    """Counts attempts by queue, task and what became of them."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._counts: dict[tuple[str, str, str], _Count] = {}
        self._flushed_at = time.monotonic()

    def add(self, held: Held, state: str) -> None:
        """Count one attempt."""
        key = held.job.queue_name, held.job.task_name, str(state)
        count = self._counts.get(key)
        if count is None:
            count = self._counts[key] = _Count()
        seconds = max(0.0, held.ended - held.began)
        count.count += 1
        count.seconds += seconds
        count.histogram[bucket(seconds)] += 1
        count.waits[bucket(held.waited_seconds)] += 1

    def flush_sometimes(self) -> None:
        """Write the counts when some seconds have passed since the last time."""
        if time.monotonic() - self._flushed_at > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the counts; on an error they are kept for the next time."""
        self._flushed_at = time.monotonic()
        if self._counts:
            taken = self._counts
            stats.record(self._alias, [_stat(*key, count) for key, count in taken.items()])
            self._counts = {}


def _stat(queue_name: str, task_name: str, outcome: str, count: _Count) -> stats.Stat:
    return stats.Stat(
        queue_name=queue_name,
        task_name=task_name,
        outcome=outcome,
        count=count.count,
        seconds=count.seconds,
        histogram=count.histogram,
        wait_histogram=count.waits,
    )
