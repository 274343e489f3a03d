"""Whether a worker goes on: what its parent orders, a signal says, or its own share of jobs.

signal · order to drain · `max_jobs` done · queues empty with `--drain` · no suspects left ─► stopping, for good
"""

import logging

from djqueue.runtime import draining
from djqueue.runtime.claimer import Claimer
from djqueue.runtime.holdings import Holdings
from djqueue.runtime.plan import Plan
from djqueue.runtime.slot_table import DONE, ORDER_DRAIN, ORDERS, Page

log = logging.getLogger("djqueue")


class Orders:
    """Whether one worker is to stop, and why. Once it is stopping it claims nothing more."""

    def __init__(self, plan: Plan, page: Page) -> None:
        self._plan = plan
        self._page = page
        self.stopping = False
        self.is_recycling = False
        """It has done its share of jobs and is to be replaced."""

    def take(self) -> None:
        """Look at the parent's order and at the number of jobs done."""
        if self._page.get(ORDERS) & ORDER_DRAIN and not self.stopping:
            log.info("draining worker=%s", self._page.worker_id)
            self.stopping = True
        if self._plan.max_jobs and self._page.get(DONE) >= self._plan.max_jobs and not self.stopping:
            log.info("recycling after %d jobs worker=%s", self._page.get(DONE), self._page.worker_id)
            self.stopping = self.is_recycling = True

    def stop_if_drained(self, holdings: Holdings, claimer: Claimer) -> None:
        """With `--drain`: stop when nothing is held here and the queues hold nothing."""
        if self._plan.drain and not len(holdings) and draining.is_done(self._plan, claimer.names, claimer.paused):
            log.info("drained worker=%s", self._page.worker_id)
            self.stopping = True
