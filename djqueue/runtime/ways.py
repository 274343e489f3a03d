"""How each queue is walked, from the settings, its row and the worker's pool: read once a second.

What settings and rows say of a queue's own limits is written into its limiter, which every claim locks. Invariant: a
queue with limits of its own is claimed under its limiter's lock only.
"""

import json
import logging
import time
from collections.abc import Iterable, Mapping

from djqueue.policy.gates import queue_gate
from djqueue.queueconf import QueueOptions
from djqueue.rates import Rate
from djqueue.runtime.plan import Plan
from djqueue.store import limits
from djqueue.store.lanes import Walk
from djqueue.store.workers import QueueSettings

log = logging.getLogger("djqueue")

SAY_AGAIN_SECONDS = 60.0
"""A limiter that somebody deleted is there again after so long."""

Numbers = tuple[int | None, Rate | None]


class Ways:
    """The ways of one worker's queues."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._said: dict[str, tuple[Numbers, float]] = {}
        self._refused: set[str] = set()
        pool = plan.pool
        self._pool_sets = 0 if pool is None else pool.sets
        self._pool_mine = [] if pool is None else pool.mine

    def read(self, names: Iterable[str], rows: Mapping[str, QueueSettings], capped: set[str]) -> dict[str, Walk]:
        """Return the ways of these queues; `capped` are those with tenants that have caps of their own."""
        by_people = limits.queues_limited_by_people(self._plan.alias)
        return {name: self._way(name, rows.get(name), name in capped, by_people) for name in names}

    def _way(self, name: str, row: QueueSettings | None, has_capped: bool, by_people: set[str]) -> Walk:
        options = self._plan.options.queues.get(name) or QueueOptions()
        numbers = self._numbers(name, options, row)
        self._say(name, numbers)
        gate = queue_gate(name)
        cap = options.tenant_max_running
        if row is not None and row.tenant_max_running is not None:
            cap = row.tenant_max_running
        return Walk(
            queue_name=name,
            queue_gate=gate if numbers != (None, None) or gate in by_people else None,
            has_caps=has_capped or cap is not None,
            tenant_cap=cap,
            weighted=options.fair == "weighted",
            tiers=json.dumps(dict(options.tiers)),
            pool_sets=self._pool_sets,
            pool_mine=self._pool_mine,
        )

    def _numbers(self, name: str, options: QueueOptions, row: QueueSettings | None) -> Numbers:
        running, rate = options.max_running, options.rate_limit and Rate.parse(options.rate_limit, options.burst)
        if row is not None and row.max_running is not None:
            running = row.max_running
        if row is not None and row.rate_limit:
            rate = self._rate(name, row.rate_limit) or rate
        return running, rate or None

    def _rate(self, name: str, text: str) -> Rate | None:
        """A text in a row that nobody understands is as good as none; it is said once."""
        try:
            return Rate.parse(text)
        except ValueError as error:
            if text not in self._refused:
                log.warning("rate limit is not understood queue=%s error=%s", name, error)
            self._refused.add(text)
            return None

    def _say(self, name: str, numbers: Numbers) -> None:
        said, at = self._said.get(name, (None, float("-inf")))
        now = time.monotonic()
        if said != numbers or (numbers != (None, None) and now - at > SAY_AGAIN_SECONDS):
            limits.declare_queue(self._plan.alias, name, *numbers)
            self._said[name] = (numbers, now)
