"""What the tenants of weighted queues have used: kept in memory, counted against their shares a few times a second."""

import json
import time

from djqueue.conf import Options
from djqueue.runtime.held import Held
from djqueue.store import tenants
from djqueue.store.tenants import Used

FLUSH_SECONDS = 0.25


class Usage:
    """Adds up run time by queue and tenant."""

    def __init__(self, options: Options) -> None:
        self._alias = options.database
        weighted = {name: queue for name, queue in options.queues.items() if queue.fair == "weighted"}
        self._queues = frozenset(weighted)
        self._tiers = json.dumps({name: dict(queue.tiers) for name, queue in weighted.items()})
        self._used: dict[tuple[str, str], tuple[int, float]] = {}
        self._flushed_at = 0.0

    def add(self, held: Held) -> None:
        """Count one attempt, however it ended."""
        job = held.job
        if job.tenant_id and job.queue_name in self._queues:
            jobs, seconds = self._used.get((job.queue_name, job.tenant_id), (0, 0.0))
            ran = max(0.0, held.ended - held.began)
            self._used[job.queue_name, job.tenant_id] = (jobs + 1, seconds + ran)

    def flush_sometimes(self) -> None:
        """Write what has come together, if that was not done just now; on an error it is kept for the next time."""
        now = time.monotonic()
        if self._used and now - self._flushed_at > FLUSH_SECONDS:
            self._flushed_at = now
            tenants.advance(self._alias, [Used(*key, *used) for key, used in self._used.items()], self._tiers)
            self._used = {}
