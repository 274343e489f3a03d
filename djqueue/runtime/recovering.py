"""Duties of every keeper that bring jobs back: settle what a dead worker held, reap, promote, orphans, suspects.

All of them need only job rows and the database's clock, and may run in any number of keepers at once. The slot table
adds what rows can't say: which jobs of a dead worker had started.
"""

import logging
import random
from collections.abc import Callable, Iterable
from typing import Any

from djqueue.api import registry
from djqueue.policy.errors import append_error
from djqueue.policy.retry import RetryPolicy, delay_seconds
from djqueue.runtime.plan import Plan
from djqueue.runtime.slot_table import (
    EXIT_CODE,
    R_CANCEL,
    STATUS,
    SUSPECTS_WAIT,
    WHY,
    JobState,
    Page,
    PageStatus,
    SlotTable,
    Why,
    now_ns,
)
from djqueue.store import claim, db, finish, lease, recover, workers
from djqueue.store.recover import Overdue

log = logging.getLogger("djqueue")

HALF_SECOND_TURNS = 10


class Settle:
    """Give back what ended workers of this supervisor held: the parent says who ended, the rows say what they held, and
    the slot table says which of it had started."""

    name = "settle"

    def __init__(self, plan: Plan, table: SlotTable, on_suspects: Callable[[], None]) -> None:
        self._plan = plan
        self._alias = plan.alias
        self._table = table
        self._on_suspects = on_suspects
        self._failing = Failing(plan)

    def tick(self) -> float:
        """Settle all ended pages; soon again where a row was locked (a dead process's backend may take a moment)."""
        left = 0
        for page in self._table.ended():
            left += self._settle(page)
        return 0.1 if left else 1.0

    def _settle(self, page: Page) -> int:
        worker_id = page.worker_id
        records = {(r.id, r.lease_token): r for r in page.records()}
        why = Why(page.get(WHY))
        now = now_ns()
        with db.one_transaction(self._alias):
            failures: list[finish.Failure] = []
            unstarted: list[lease.Lease] = []
            interrupted: list[lease.Lease] = []
            for row in recover.held(self._alias, worker_id):
                record = records.get((row.id, row.lease_token))
                if record is None or record.state is not JobState.STARTED:
                    unstarted.append(lease.Lease(row.id, row.lease_token))
                elif why is Why.STOPPED:
                    interrupted.append(lease.Lease(row.id, row.lease_token))
                elif why is Why.TIMEOUT and record.is_overdue(now):
                    failures.append(self._failing.timeout(row))
                else:
                    failures.append(self._failing.loss(row, _how(page.get(EXIT_CODE))))
            _end(self._alias, failures, unstarted, interrupted)
        if lease.owned(self._alias, worker_id):
            return 1
        if failures or unstarted or interrupted:
            log.warning(
                "worker ended, its jobs are settled worker=%s how=%s failed=%d released=%d interrupted=%d",
                worker_id,
                _how(page.get(EXIT_CODE)),
                len(failures),
                len(unstarted),
                len(interrupted),
            )
        workers.remove(self._alias, [worker_id])
        page.set(STATUS, PageStatus.FREE)
        if failures:
            self._on_suspects()
        return 0


class Reap:
    """End leases that have run out, and starts that are older than their time limit and the grace."""

    name = "reap"

    def __init__(self, plan: Plan, on_suspects: Callable[[], None]) -> None:
        self._plan = plan
        self._alias = plan.alias
        self._on_suspects = on_suspects
        self._failing = Failing(plan)

    def tick(self) -> float:
        """Reap batches until one is short."""
        for _ in range(HALF_SECOND_TURNS):
            with db.one_transaction(self._alias):
                rows = recover.overdue(self._alias, self._plan.options.grace_seconds)
                if rows:
                    _end(self._alias, [self._failure(row) for row in rows], [], [])
            if rows:
                log.warning("leases ended by the reaper jobs=%d first=%s", len(rows), rows[0].id)
                self._on_suspects()
            if len(rows) < recover.BATCH:
                return 1.0
        return 0.0

    def _failure(self, row: Overdue) -> finish.Failure:
        return self._failing.loss(row, "its lease ran out") if row.expired else self._failing.timeout(row)


class Promote:
    """Make scheduled jobs ready when they are due, and tell the workers."""

    name = "promote"

    def __init__(self, plan: Plan) -> None:
        self._alias = plan.alias

    def tick(self) -> float:
        """Promote batches until one is short; sleep until the next job is due, at most a second."""
        for _ in range(HALF_SECOND_TURNS):
            if recover.promote(self._alias) < 1_000:
                due = recover.next_due_seconds(self._alias)
                return 1.0 if due is None else min(1.0, max(0.001, due))
        return 0.0


class Orphans:
    """Let jobs of tasks go on that were unknown once and that this supervisor's workers know."""

    name = "orphans"

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._alias = plan.alias

    def tick(self) -> float:
        """Bring back a batch; at once again while batches are full."""
        known = {f"task:{name}" for name in registry.names()}
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
        wait = self._have_ours(claim.suspect_queues(self._alias)) if claim.suspects_wait(self._alias) else False
        self._table.set(SUSPECTS_WAIT, int(wait))
        if wait:
            self._wake_parent()
        return 1.0

    def _have_ours(self, names: Iterable[str]) -> bool:
        found = list(names)
        return bool(set(self._plan.selection.names([*self._plan.known_queues, *found])) & set(found))


class Cancels:
    """Pass requests to cancel running jobs on to the workers that run them."""

    name = "cancels"

    def __init__(self, plan: Plan, table: SlotTable) -> None:
        self._alias = plan.alias
        self._table = table

    def tick(self) -> float:
        """Mark the records of jobs that were asked to cancel."""
        pages = list(self._table.live())
        asked = set(lease.cancel_requested(self._alias, [page.worker_id for page in pages]))
        if asked:
            for page in pages:
                for record in page.records():
                    if lease.Lease(record.id, record.lease_token) in asked:
                        page.mark(record, R_CANCEL)
        return 1.0


class Failing:
    """How an attempt fails whose own process can't say so any more."""

    def __init__(self, plan: Plan) -> None:
        options = plan.options
        self._rng = random.Random()
        self._version = options.code_version
        self._default = RetryPolicy(base_seconds=options.retry_base_seconds, cap_seconds=options.retry_cap_seconds)

    def loss(self, row: Overdue, how: str) -> finish.Failure:
        """The process was lost: charged, a suspect from now on; the first time it is retried at once."""
        message = f"worker {row.leased_by} was lost while the job ran: {how}"
        delay = self._delay(row) if row.suspect else 0.0
        return self._failure(row, "lost", message, f"worker lost: {how}", delay, crash=True)

    def timeout(self, row: Overdue) -> finish.Failure:
        """It ran past its hard time limit."""
        return self._failure(row, "timeout", "ran past its hard time limit", "timeout", self._delay(row), crash=False)

    def _delay(self, row: Overdue) -> float:
        task: Any = registry.get(row.task_name)
        policy = None if task is None else task.retry
        return delay_seconds(policy, self._default, row.attempts, self._rng)

    def _failure(
        self, row: Overdue, kind: str, message: str, reason: str, delay: float, *, crash: bool
    ) -> finish.Failure:
        entry = {
            "attempt": row.attempts,
            "run": row.runs,
            "worker": row.leased_by,
            "kind": kind,
            "exception": "djqueue.WorkerLost" if crash else "djqueue.exceptions.JobTimeout",
            "message": message,
            "traceback": "",
            **({"version": self._version} if self._version else {}),
        }
        errors = append_error(row.errors, entry)
        return finish.Failure(
            id=row.id,
            lease_token=row.lease_token,
            entry=errors[-1],
            errors=errors[:-1],
            delay_seconds=delay,
            reason=reason,
            crash=crash,
        )


def _end(
    alias: str, failures: list[finish.Failure], unstarted: list[lease.Lease], interrupted: list[lease.Lease]
) -> None:
    if failures:
        finish.fail(alias, failures)
    if unstarted:
        lease.release(alias, unstarted)
    if interrupted:
        lease.release(alias, interrupted, interrupted=True)


def _how(exit_code: int) -> str:
    """Say in words how a process ended (negative: by that signal)."""
    return f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
