"""Where failures are written: retries beyond the queue's budget are pushed later, counted and told of."""

import logging
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from djqueue.conf import Options
from djqueue.policy.budget import BudgetOptions, pushes
from djqueue.runtime.held import Held
from djqueue.store import budget
from djqueue.store.finish import Failure

log = logging.getLogger("djqueue")

TOLD_SECONDS = 10.0
"""A queue's pushed retries are told of no more often than that."""

Failures = dict[UUID, tuple[Held, Failure]]


class Budgeting:
    """The retry budgets as one worker goes by them."""

    def __init__(self, alias: str, options: Options) -> None:
        self._alias = alias
        self._options = None
        if options.retry_budget_ratio is not None:
            self._options = BudgetOptions(ratio=options.retry_budget_ratio, floor_per_second=options.retry_budget_floor)
        self._told_at: dict[str, float] = {}
        self._untold: Counter[str] = Counter()

    def kept_to(self, failures: Mapping[UUID, tuple[Held, Failure]]) -> Failures:
        """Count the retries among these failures, and return all with the delays that the budgets leave them."""
        kept = dict(failures)
        if self._options is None:
            return kept
        by_queue: dict[str, list[UUID]] = {}
        for id_, (held, failure) in kept.items():
            if _is_retry(held, failure):
                by_queue.setdefault(held.job.queue_name, []).append(id_)
        if by_queue:
            counts = {name: len(ids) for name, ids in by_queue.items()}
            for spent in budget.spend(self._alias, counts, self._options):
                self._push(kept, by_queue[spent.queue_name], spent)
        return kept

    def _push(self, failures: Failures, ids: list[UUID], spent: budget.Spent) -> None:
        found = pushes(spent.level, len(ids), spent.per_second)
        if not found[-1]:
            return
        for id_, seconds in zip(ids, found, strict=True):
            held, failure = failures[id_]
            if seconds:
                entry = failure.entry | {"pushed_seconds": round(seconds, 3)}
                failures[id_] = held, replace(failure, delay_seconds=failure.delay_seconds + seconds, entry=entry)
        self._tell(spent, sum(1 for seconds in found if seconds), found[-1])

    def _tell(self, spent: budget.Spent, jobs: int, seconds: float) -> None:
        name, now = spent.queue_name, time.monotonic()
        self._untold[name] += jobs
        if now - self._told_at.get(name, float("-inf")) >= TOLD_SECONDS:
            log.warning(
                "retries beyond the budget are pushed later queue=%s jobs=%d by=%.1fs budget=%.2f/s",
                name,
                self._untold.pop(name),
                seconds,
                spent.per_second,
            )
            self._told_at[name] = now


def _is_retry(held: Held, failure: Failure) -> bool:
    return not (failure.final or failure.cancel or failure.crash) and held.job.attempts < held.job.max_attempts
