"""Give back what ended workers of this supervisor held.

    the parent says   who ended, how, and why           ─┐
    the rows say      what they held                     ├─► charged: lost, or past its limit
    the slot table    which of it had started, and when ─┘   uncharged: never started, or cut short by a stop

Invariant: it may be done twice, by this keeper or the next; a page is free only when no row is left of its worker.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from djqueue.runtime.failing import Failing
from djqueue.runtime.plan import Plan
from djqueue.runtime.slot_table import (
    ENDED_AT,
    EXIT_CODE,
    STATUS,
    WHY,
    Page,
    PageStatus,
    Record,
    SlotTable,
    Why,
    now_ns,
)
from djqueue.store import db, finish, lease, recover, workers
from djqueue.store.recover import Overdue

log = logging.getLogger("djqueue")

SOON_SECONDS = 0.1
FIRST_LOOK_SECONDS = 0.2
QUIET_SECONDS = 0.5
FORGET_SECONDS = 1.0


@dataclass(slots=True)
class Ends:
    """What becomes of the jobs of one ended worker."""

    failures: list[finish.Failure] = field(default_factory=list)
    unstarted: list[lease.Lease] = field(default_factory=list)
    interrupted: list[lease.Lease] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.failures or self.unstarted or self.interrupted)

    def write(self, alias: str) -> None:
        """Write them into the rows."""
        if self.failures:
            finish.fail(alias, self.failures)
        if self.unstarted:
            lease.release(alias, self.unstarted)
        if self.interrupted:
            lease.release(alias, self.interrupted, interrupted=True)


@dataclass(slots=True)
class Late:
    """When to look again for what a killed worker's session has claimed after its death."""

    look_at: float
    wait: float


class Settle:
    """The duty that settles ended pages."""

    name = "settle"

    def __init__(self, plan: Plan, table: SlotTable, on_suspects: Callable[[], None]) -> None:
        self._plan = plan
        self._alias = plan.alias
        self._table = table
        self._on_suspects = on_suspects
        self._failing = Failing(plan)
        self._late: dict[str, Late] = {}

    @property
    def is_quiet(self) -> bool:
        """Tell whether nothing is left to settle, nor likely to come."""
        now = now_ns()
        waits = any(not _is_forgotten(page, now) for page in self._table.ended())
        return not waits and all(late.wait > QUIET_SECONDS for late in list(self._late.values()))

    def tick(self) -> float:
        """Settle all ended pages; soon again where a row was locked (a dead process's session may take a moment)."""
        left = [page for page in self._table.ended() if not self._settle(page)]
        self._look_for_late_ones()
        if left:
            return SOON_SECONDS
        next_look = min((late.look_at for late in self._late.values()), default=float("inf"))
        return min(1.0, max(SOON_SECONDS, next_look - time.monotonic()))

    def _settle(self, page: Page) -> bool:
        """Return whether nothing is left of the worker."""
        worker_id, exit_code = page.worker_id, page.get(EXIT_CODE)
        with db.one_transaction(self._alias):
            ends = self._ends(page, recover.held(self._alias, worker_id))
            ends.write(self._alias)
        if ends:
            _log(worker_id, exit_code, ends)
        if ends.failures:
            self._on_suspects()
        if lease.owned(self._alias, worker_id):
            return False
        workers.remove(self._alias, [worker_id])
        if exit_code < 0:
            self._late[worker_id] = Late(time.monotonic() + FIRST_LOOK_SECONDS, FIRST_LOOK_SECONDS)
        page.set(STATUS, PageStatus.FREE)
        return True

    def _ends(self, page: Page, rows: Iterable[Overdue]) -> Ends:
        records = {(record.id, record.lease_token): record for record in page.records()}
        ends = Ends()
        for row in rows:
            self._sort(page, row, records.get((row.id, row.lease_token)), ends)
        return ends

    def _sort(self, page: Page, row: Overdue, record: Record | None, ends: Ends) -> None:
        why = Why(page.get(WHY))
        if record is None or not record.has_started:
            ends.unstarted.append(lease.Lease(row.id, row.lease_token))
        elif why is not Why.DIED and record.is_overdue(page.get(ENDED_AT)):
            ends.failures.append(self._failing.timeout(row))
        elif why is Why.STOPPED:
            ends.interrupted.append(lease.Lease(row.id, row.lease_token))
        else:
            ends.failures.append(self._failing.loss(row, _how(page.get(EXIT_CODE))))

    def _look_for_late_ones(self) -> None:
        """A killed worker's last claim may have been on its way: its session carries it out, and nobody hears of it.
        Nothing of that was started."""
        now = time.monotonic()
        for worker_id, late in list(self._late.items()):
            if late.look_at > now:
                continue
            found = lease.owned(self._alias, worker_id)
            if found:
                lease.release(self._alias, found)
                log.warning("late claim of an ended worker given back worker=%s jobs=%d", worker_id, len(found))
            late.wait *= 2
            late.look_at = now + late.wait
            if late.wait > self._plan.options.lease_seconds:
                del self._late[worker_id]


def _is_forgotten(page: Page, now: int) -> bool:
    """Tell whether a worker ended in order and held nothing: while the database is away, nobody waits for its row to
    go, which is information only."""
    is_old = now - page.get(ENDED_AT) > FORGET_SECONDS * 1e9
    return is_old and page.get(EXIT_CODE) == 0 and not page.records()


def _log(worker_id: str, exit_code: int, ends: Ends) -> None:
    log.warning(
        "worker ended, its jobs are settled worker=%s how=%s failed=%d released=%d interrupted=%d",
        worker_id,
        _how(exit_code),
        len(ends.failures),
        len(ends.unstarted),
        len(ends.interrupted),
    )


def _how(exit_code: int) -> str:
    """Say in words how a process ended (negative: by that signal)."""
    return f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
