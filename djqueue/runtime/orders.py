"""Whether a worker goes on: what its parent orders, a signal says, or its own share of jobs.

signal · order to drain · `max_jobs` done · `max_rss_mb` passed ─┐
queues empty with `--drain` · no suspects left ──────────────────┴─► stopping, for good
"""

import logging
import os
import time

from djqueue.runtime import draining
from djqueue.runtime.claimer import Claimer
from djqueue.runtime.holdings import Holdings
from djqueue.runtime.plan import Plan
from djqueue.runtime.presence import resident_bytes
from djqueue.runtime.slot_table import DONE, ORDER_DRAIN, ORDERS, Page

log = logging.getLogger("djqueue")

MEASURE_SECONDS = 1.0


class Orders:
    """Whether one worker is to stop, and why. Once it is stopping it claims nothing more."""

    def __init__(self, plan: Plan, page: Page) -> None:
        self._plan = plan
        self._page = page
        self.stopping = False
        self.is_recycling = False
        """It has done its share of jobs, or has grown too large, and is to be replaced."""
        self._measured_at = float("-inf")

    def take(self) -> None:
        """Look at the parent's order, at the number of jobs done and at the memory in use."""
        if self._page.get(ORDERS) & ORDER_DRAIN and not self.stopping:
            log.info("draining worker=%s", self._page.worker_id)
            self.stopping = True
        if self._plan.max_jobs and self._page.get(DONE) >= self._plan.max_jobs and not self.stopping:
            log.info("recycling after %d jobs worker=%s", self._page.get(DONE), self._page.worker_id)
            self.stopping = self.is_recycling = True
        if self._plan.max_rss_mb and not self.stopping:
            self._obey_memory(self._plan.max_rss_mb)

    def _obey_memory(self, limit: int) -> None:
        """Stop where too much is in memory. Only after a job: else a limit that is too low would let none run."""
        now = time.monotonic()
        if not self._page.get(DONE) or now - self._measured_at < MEASURE_SECONDS:
            return
        self._measured_at = now
        megabytes = (resident_bytes(os.getpid()) or 0) >> 20
        if megabytes > limit:
            log.info("recycling at %d MB, limit %d MB worker=%s", megabytes, limit, self._page.worker_id)
            self.stopping = self.is_recycling = True

    def stop_if_drained(self, holdings: Holdings, claimer: Claimer) -> None:
        """With `--drain`: stop when nothing is held here and the queues hold nothing."""
        if self._plan.drain and not len(holdings) and draining.is_done(self._plan, claimer.names, claimer.paused):
            log.info("drained worker=%s", self._page.worker_id)
            self.stopping = True
