"""Extending leases, on a connection and in a thread of its own, from what the slot table shows.

    started    extended until its hard time limit, however busy its process is (a handler may hold the GIL in C code)
    waiting    extended only while its worker makes progress: has started or finished something, or its main loop has
               beaten, within the lease; else it is given back uncharged and the worker is replaced

Invariant: a lease is never extended for a process that is known to be gone.
"""

import logging
import time
from collections.abc import Callable

from djqueue.runtime.plan import Plan
from djqueue.runtime.presence import Presence
from djqueue.runtime.slot_table import (
    BEAT,
    PROGRESS,
    R_CANCEL,
    R_LOST,
    R_REVOKED,
    REPLACE,
    JobState,
    Page,
    PageStatus,
    Record,
    SlotTable,
    now_ns,
)
from djqueue.store import lease

log = logging.getLogger("djqueue")

START_SECONDS = 60.0
"""Importing a large project, or connecting to a slow database, may take longer than a lease."""


class Heartbeat:
    """The duty that extends leases."""

    name = "heartbeat"

    def __init__(self, plan: Plan, table: SlotTable, wake_parent: Callable[[], None]) -> None:
        self._plan = plan
        self._alias = plan.alias
        self._table = table
        self._wake_parent = wake_parent
        self._presence = Presence(plan.alias, table)
        self._ticked_at = time.monotonic()
        self._was_late = False

    def tick(self) -> float:
        """Extend what deserves it, for all workers of this supervisor at once."""
        self._note_gap()
        pages = [(page, page.worker_id) for page in self._table.live()]
        held = [(page, record) for page, _ in pages for record in self._deserving(page)]
        if held:
            self._extend(held)
        self._presence.tell()
        return self._plan.options.beat_seconds

    def _note_gap(self) -> None:
        """When this duty itself comes very late, everything may have stood still: nobody is judged by its own beat."""
        now = time.monotonic()
        self._was_late = now - self._ticked_at > 2 * self._plan.options.beat_seconds
        self._ticked_at = now

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
        worker_id, records = page.worker_id, page.records()
        waiting = [record for record in records if record.state is JobState.WAITING]
        if self._is_stuck(page):
            self._replace(page, worker_id, self._give_back(page, waiting))
            waiting = []
        now = now_ns()
        grace = int(self._plan.options.grace_seconds * 1e9)
        return waiting + [record for record in records if record.has_started and not record.is_overdue(now, grace)]

    def _is_stuck(self, page: Page) -> bool:
        patience = self._plan.options.lease_seconds
        if page.status is PageStatus.STARTING:
            patience = max(patience, START_SECONDS)
        lively = max(page.get(BEAT), page.get(PROGRESS))
        return not self._was_late and now_ns() - lively > patience * 1e9

    def _give_back(self, page: Page, waiting: list[Record]) -> int:
        """First the mark, then a second look, then the row: the worker writes its start before it reads the mark, so
        that a job is never both given back and started."""
        for record in waiting:
            page.mark(record, R_REVOKED)
        now_waiting = {r.lease_token for r in page.records() if r.state is JobState.WAITING}
        back = [lease.Lease(r.id, r.lease_token) for r in waiting if r.lease_token in now_waiting]
        if back:
            lease.release(self._alias, back)
        return len(back)

    def _replace(self, page: Page, worker_id: str, given_back: int) -> None:
        if page.get(REPLACE) or page.worker_id != worker_id:  # the page may have changed hands meanwhile
            return
        log.error("worker makes no progress, it is replaced worker=%s jobs_given_back=%d", worker_id, given_back)
        page.set(REPLACE, 1)
        self._wake_parent()
