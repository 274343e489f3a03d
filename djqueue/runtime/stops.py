"""What one worker may not start: paused queues, tasks and tenants, as it has read them last. A task is paused under all
names that this worker's code knows of it.

Invariant: a worker knows every pause within half a second of its commit, however busy it is, since what it has claimed
and not started must not start either.
"""

import logging
import time
from collections.abc import Sequence

from djqueue.api import registry
from djqueue.store import lease, pauses
from djqueue.store.claim import Claimed
from djqueue.store.pauses import Stopped

log = logging.getLogger("djqueue")

LOOK_SECONDS = 0.5


class Stops:
    """What may not start now, for one worker."""

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
        before, self._now = self._now, pauses.stopped(self._alias).under_all_names(registry.same)
        self._read_at = time.monotonic()
        return self._now != before

    def stops(self, job: Claimed) -> bool:
        """Tell whether a job may not start, for whatever is paused."""
        return self._now.stops(job.queue_name, job.task_name, job.tenant_id)

    def sets_aside(self, job: Claimed) -> bool:
        """Tell whether a job is to be set aside: its task or its tenant is paused."""
        return bool(self._now.reason(job.task_name, job.tenant_id))

    def set_aside(self, jobs: Sequence[Claimed]) -> None:
        """Set aside claimed jobs of paused tasks and tenants, uncharged."""
        leases = [lease.Lease(job.id, job.lease_token) for job in jobs]
        lease.set_aside(self._alias, leases, [self._now.reason(job.task_name, job.tenant_id) for job in jobs])
        log.debug("jobs of paused tasks or tenants are set aside jobs=%d first=%s", len(jobs), jobs[0].id)
