"""What the leader's pruner does by and by, done at once: for a command, and where no worker runs.

Invariant: the same statements in the same batches, each a transaction of its own, so that a worker's leader may do the
same at the same time.
"""

from collections.abc import Callable, Iterator

from djqueue.runtime import largeargs
from djqueue.runtime.housekeeping import BULK_ACT_DAYS
from djqueue.store import bulk, cron, history, letters, retention, stats, windows


def prune(alias: str, history_days: int, dead_letter_days: int | None) -> Iterator[tuple[str, int]]:
    """Remove all that is old, and yield after each batch what it was and how many."""
    keep = retention.keep(alias, history_days)
    yield "history_days", history.drop_partitions(alias, keep.longest)
    whole_days = history.can_partition(alias)
    for count in retention.delete_old(alias, keep, whole_days_are_dropped=whole_days):
        yield "history", count
    yield from _batches("cron_fires", lambda: cron.prune_fires(alias), cron.PRUNE_BATCH)
    yield from _batches("statistics", lambda: stats.prune_stats(alias), stats.PRUNE_BATCH)
    yield from _batches("dedupe_windows", lambda: windows.prune(alias), windows.BATCH)
    if dead_letter_days is not None:
        yield from _batches("dead_letters", lambda: letters.prune(alias, dead_letter_days), letters.BATCH)
    yield "bulk_acts", bulk.prune(alias, BULK_ACT_DAYS)
    yield from (("large_arguments", count) for count in largeargs.sweep(alias))
    yield "workers", retention.delete_gone_workers(alias)


def _batches(name: str, step: Callable[[], int], size: int) -> Iterator[tuple[str, int]]:
    count = size
    while count >= size:
        count = step()
        yield name, count
