"""Extending leases, on a connection and in a thread of its own, from what the slot table shows.

    started    extended until its hard time limit, however busy its process is (a handler may hold the GIL in C code)
    waiting    extended only while its worker makes progress: has started or finished something, or its main loop has
               beaten, within the lease; else it is given back uncharged and the worker is replaced

Invariant: a lease is never extended for a process that is known to be gone.
"""

import logging
from collections.abc import Callable

from djqueue.runtime.plan import Plan
from djqueue.runtime.slot_table import (
    BEAT,
    PROGRESS,
    R_CANCEL,
    R_LOST,
    R_REVOKED,
    REPLACE,
    JobState,
    Page,
    Record,
    SlotTable,
    now_ns,
)
from djqueue.store import lease, workers

log = logging.getLogger("djqueue")


class Heartbeat:
    """The duty that extends leases."""

    name = "heartbeat"

    def __init__(self, plan: Plan, table: SlotTable, wake_parent: Callable[[], None]) -> None:
        self._plan = plan
        self._alias = plan.alias
        self._table = table
        self._wake_parent = wake_parent

    def tick(self) -> float:
        """Extend what deserves it, for all workers of this supervisor at once."""
        pages = list(self._table.live())
        held = [(page, record) for page in pages for record in self._deserving(page)]
        if held:
            self._extend(held)
        workers.seen(self._alias, [page.worker_id for page in pages])
        return self._plan.options.beat_seconds

    def _extend(self, held: list[tuple[Page, Record]]) -> None:
        now = now_ns()
        beats = [
            lease.Beat(record.id, record.lease_token, (now - record.started) / 1e9 if record.started else None)
            for _, record in held
        ]
        answer = lease.heartbeat(self._alias, beats, self._plan.options.lease_seconds)
        for page, record in held:
            if record.id in answer.lost:
                page.mark(record, R_LOST)
            if record.id in answer.cancelled:
                page.mark(record, R_CANCEL)

    def _deserving(self, page: Page) -> list[Record]:
        records = page.records()
        waiting = [record for record in records if record.state is JobState.WAITING]
        if self._is_stuck(page):
            self._give_back(page, waiting)
            waiting = []
        now = now_ns()
        grace = int(self._plan.options.grace_seconds * 1e9)
        started = [r for r in records if r.state is JobState.STARTED and not r.is_overdue(now, grace)]
        return waiting + started

    def _is_stuck(self, page: Page) -> bool:
        lively = max(page.get(BEAT), page.get(PROGRESS))
        return now_ns() - lively > self._plan.options.lease_seconds * 1e9

    def _give_back(self, page: Page, waiting: list[Record]) -> None:
        """First the mark, then a second look, then the row: the worker writes its start before it reads the mark, so
        that a job is never both given back and started."""
        for record in waiting:
            page.mark(record, R_REVOKED)
        now_waiting = {r.lease_token for r in page.records() if r.state is JobState.WAITING}
        back = [lease.Lease(r.id, r.lease_token) for r in waiting if r.lease_token in now_waiting]
        if back:
            lease.release(self._alias, back)
        if not page.get(REPLACE):
            log.error(
                "worker makes no progress, it is replaced worker=%s jobs_given_back=%d", page.worker_id, len(back)
            )
            page.set(REPLACE, 1)
            self._wake_parent()
