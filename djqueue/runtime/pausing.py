"""Pauses as the runtime obeys them: what a worker may not start, and the leader's part with what is set aside.

Invariant: a worker knows every pause within half a second of its commit, however busy it is, since what it has claimed
and not started must not start either.
"""

import logging
import time

from djqueue.runtime.housekeeping import IDLE_SECONDS
from djqueue.runtime.leader import LeaderDuty
from djqueue.store import lease, pauses, recover
from djqueue.store.claim import Claimed
from djqueue.store.pauses import Stopped

log = logging.getLogger("djqueue")

LOOK_SECONDS = 0.5
TICK_FOR_SECONDS = 0.25


class Stops:
    """What may not start now, as one worker has read it last."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._now = Stopped()
        self._read_at = float("-inf")

    @property
    def queues(self) -> frozenset[str]:
        """The queues that are paused."""
        return self._now.queues

    def look_again(self) -> None:
        """Somebody has paused or resumed something."""
        self._read_at = float("-inf")

    def look(self) -> bool:
        """Read what is paused, if it is time to; return whether anything has changed."""
        if time.monotonic() - self._read_at < LOOK_SECONDS:
            return False
        before, self._now = self._now, pauses.stopped(self._alias)
        self._read_at = time.monotonic()
        return self._now != before

    def stops(self, job: Claimed) -> bool:
        """Tell whether a job may not start."""
        return self._now.stops(job.queue_name, job.task_name, job.tenant_id)

    def set_aside(self, jobs: list[Claimed]) -> list[Claimed]:
        """Set aside those jobs, claimed a moment ago, whose task or tenant is paused, uncharged; return the others."""
        if not (self._now.tasks or self._now.tenants):
            return jobs
        reasons = {job.id: reason for job in jobs if (reason := self._now.reason(job.task_name, job.tenant_id))}
        stopped = [job for job in jobs if job.id in reasons]
        if stopped:
            leases = [lease.Lease(job.id, job.lease_token) for job in stopped]
            lease.set_aside(self._alias, leases, [reasons[job.id] for job in stopped])
        return [job for job in jobs if job.id not in reasons]


class PausesDuty:
    """Sets aside what is ready of a task or tenant that was paused, and lets it back when the pause is over."""

    name = "pauses"

    def __init__(self, alias: str, leader: LeaderDuty) -> None:
        self._alias = alias
        self._leader = leader

    def tick(self) -> float:
        """Sweep and let back for a quarter of a second at most; soon again where more is left."""
        if not self._leader.leads:
            return IDLE_SECONDS
        until = time.monotonic() + TICK_FOR_SECONDS
        pauses.forget(self._alias)
        return 0.0 if self._sweep(until) or self._let_back(until) else 1.0

    def _sweep(self, until: float) -> bool:
        """Return whether more is to be swept."""
        for kind, name in pauses.unswept(self._alias):
            while (count := pauses.sweep(self._alias, kind, name)) == pauses.BATCH:
                if time.monotonic() > until:
                    return True
            log.info("jobs of a paused %s are set aside name=%s last_batch=%d", kind, name, count)
            pauses.swept(self._alias, kind, name)
        return False

    def _let_back(self, until: float) -> bool:
        """Return whether more is to be let back."""
        while reasons := pauses.lifted(self._alias, recover.aside_reasons(self._alias)):
            count = recover.bring_back(self._alias, reasons)
            if not count:
                return False  # they are locked; a second later they will not be
            log.info("jobs set aside are back jobs=%d reasons=%s", count, reasons)
            if time.monotonic() > until:
                return True
        return False
