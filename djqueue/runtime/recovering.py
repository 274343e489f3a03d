"""Duties of every keeper that bring jobs back: reap, promote, let out, orphans, suspects, cancels.

All of them need only job rows and the database's clock, and may run in any number of keepers at once. What the rows
can't say, which jobs of a dead worker had started, is `settle`'s matter.
"""

import logging
import time
from collections.abc import Callable

from djqueue.api import registry
from djqueue.policy import aside
from djqueue.runtime.failing import Failing
from djqueue.runtime.plan import Plan
from djqueue.runtime.slot_table import R_CANCEL, SUSPECTS_WAIT, SlotTable
from djqueue.store import claim, db, finish, lease, ordering, recover, workers
from djqueue.store.ordering import Key
from djqueue.store.recover import Overdue

log = logging.getLogger("djqueue")

TICK_FOR_SECONDS = 0.25
"""A tick goes on for so long at the most while there is work: other duties of the routine wait meanwhile."""

SOON_SECONDS = 0.05

CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""It goes on while the machine sleeps, where the system has such a clock."""


class Reap:
    """End leases that have run out, and starts that are older than their time limit and the grace."""

    name = "reap"
    after_outage_seconds = 5.0
    """After a lost connection all heartbeats come first: no lease ends because the database was away."""

    FROZEN_SECONDS = 3.0
    """A tick so late was not late by itself: this process, or the whole machine, stood still, and so did heartbeats."""

    LEAST_GRACE_SECONDS = 5.0
    """The parent needs a moment to end a process whose job has passed its limit; the row is not given away before."""

    def __init__(self, plan: Plan, on_suspects: Callable[[], None]) -> None:
        self._plan = plan
        self._alias = plan.alias
        self._on_suspects = on_suspects
        self._failing = Failing(plan)
        self._expected_at = float("inf")

    def tick(self) -> float:
        """Reap batches until one is short; after a standstill let all heartbeats come first, as after an outage."""
        was_frozen = time.clock_gettime(CLOCK) - self._expected_at > self.FROZEN_SECONDS
        delay = self.after_outage_seconds if was_frozen else self._reap_some()
        # Only one tick in a row is left out, so that a machine that is always late reaps too.
        self._expected_at = float("inf") if was_frozen else time.clock_gettime(CLOCK) + delay
        return delay

    def _reap_some(self) -> float:
        grace = max(self._plan.options.grace_seconds, self.LEAST_GRACE_SECONDS)
        until = time.monotonic() + TICK_FOR_SECONDS
        while recover.overdue(self._alias, grace):  # a look without a transaction: mostly there is nothing
            if self._reap(grace) < recover.BATCH:
                return 1.0
            if time.monotonic() > until:
                return 0.0
        return 1.0

    def _reap(self, grace: float) -> int:
        with db.one_transaction(self._alias):
            rows = recover.overdue(self._alias, grace)
            if rows:
                finish.fail(self._alias, [self._failure(row) for row in rows])
        if rows:
            log.warning("leases ended by the reaper jobs=%d first=%s", len(rows), rows[0].id)
            self._on_suspects()
        return len(rows)

    def _failure(self, row: Overdue) -> finish.Failure:
        return self._failing.loss(row, "its lease ran out") if row.expired else self._failing.timeout(row)


class Promote:
    """Make scheduled jobs ready when they are due, and tell the workers."""

    name = "promote"

    def __init__(self, plan: Plan) -> None:
        self._alias = plan.alias

    def tick(self) -> float:
        """Promote batches until none is due; sleep until the next job is, at most a second."""
        until = time.monotonic() + TICK_FOR_SECONDS
        while time.monotonic() < until:
            due = recover.next_due_seconds(self._alias)
            if due is None:
                return 1.0
            if due > 0:
                return min(1.0, max(0.001, due))
            if not recover.promote(self._alias):
                return SOON_SECONDS  # somebody else is at it
        return 0.0


class LetOut:
    """Let out the next job of ordering keys that may have lost their head."""

    name = "let out"

    IDLE_SECONDS = 0.25
    """An ack lets out the next job itself; this is for all other ends, and for what an ack could not see."""

    SWEEP_SECONDS = 60.0
    """How often all keys are looked through for what nobody has told of."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._after = 0
        self._swept_at = time.monotonic()
        self._sweeping: Key | None = None

    def tick(self) -> float:
        """Go through the keys that have wake rows, as far as the time allows."""
        if self._sweeping is not None or time.monotonic() - self._swept_at > self.SWEEP_SECONDS:
            self._sweep()
        if not ordering.waits(self._alias):
            return self.IDLE_SECONDS
        until = time.monotonic() + TICK_FOR_SECONDS
        while time.monotonic() < until:
            after = ordering.turn(self._alias, self._after).after
            self._after = after or 0
            if after is None:
                return SOON_SECONDS
        return 0.0

    def _sweep(self) -> None:
        self._sweeping, lost = ordering.sweep(self._alias, self._sweeping)
        self._swept_at = time.monotonic()
        if lost:
            log.warning("ordering keys without a head are let out keys=%d", lost)


class Orphans:
    """Let jobs of tasks go on that were unknown once and that this supervisor's workers know."""

    name = "orphans"

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._alias = plan.alias

    def tick(self) -> float:
        """Bring back a batch; at once again while batches are full."""
        known = {aside.orphan(name) for name in registry.known()}
        reasons = [reason for reason in recover.aside_reasons(self._alias) if reason in known]
        if not reasons:
            return 5.0
        count = recover.bring_back(self._alias, reasons)
        if count:
            log.info("jobs set aside are back jobs=%d tasks=%s", count, reasons)
        return 0.0 if count >= 5_000 else 5.0


class Suspects:
    """Ask the parent for a worker of its own when suspects wait."""

    name = "suspects"

    def __init__(self, plan: Plan, table: SlotTable, wake_parent: Callable[[], None]) -> None:
        self._plan = plan
        self._alias = plan.alias
        self._table = table
        self._wake_parent = wake_parent

    def tick(self) -> float:
        """Write into the table whether suspects of our queues wait."""
        found = claim.suspect_queues(self._alias)
        waits = bool(found) and self._serves_one_of(found)
        self._table.set(SUSPECTS_WAIT, int(waits))
        if waits:
            self._wake_parent()
        return 1.0

    def _serves_one_of(self, found: list[str]) -> bool:
        paused = {name for name, settings in workers.queue_settings(self._alias).items() if settings.paused}
        served = set(self._plan.selection.names([*self._plan.known_queues, *found]))
        return bool(served & set(found) - paused)


class Cancels:
    """Pass requests to cancel running jobs on to the workers that run them."""

    name = "cancels"

    def __init__(self, plan: Plan, table: SlotTable) -> None:
        self._alias = plan.alias
        self._table = table

    def tick(self) -> float:
        """Mark the records of jobs that were asked to cancel."""
        held = [(page, records) for page in self._table.live() if (records := page.records())]
        if held:
            asked = set(lease.cancel_requested(self._alias, [page.worker_id for page, _ in held]))
            for page, records in held if asked else []:
                for record in records:
                    if lease.Lease(record.id, record.lease_token) in asked:
                        page.mark(record, R_CANCEL)
        return 1.0
