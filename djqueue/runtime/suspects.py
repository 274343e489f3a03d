"""What a worker for suspects claims: one job at a time, run alone; it ends when there have been none for a while."""

import time

from djqueue.runtime.appetite import Appetite
from djqueue.runtime.claimer import Claimer
from djqueue.runtime.orders import Orders
from djqueue.runtime.plan import Plan
from djqueue.store import claim, step
from djqueue.store.claim import Claimed

IDLE_SECONDS = 5.0
LOOK_SECONDS = 0.1


class Suspects:
    """The claims of one worker for suspects."""

    def __init__(self, plan: Plan, claimer: Claimer, appetite: Appetite, orders: Orders) -> None:
        self._plan = plan
        self._claimer = claimer
        self._appetite = appetite
        self._orders = orders
        self._dry_since = time.monotonic()

    def claim(self) -> list[Claimed]:
        """Claim one suspect, if there is one."""
        jobs = self._claim()
        now = time.monotonic()
        if jobs:
            self._dry_since = now
            self._appetite.look_now()
        else:
            self._appetite.look_after(LOOK_SECONDS)
            if now - self._dry_since > (0 if self._plan.drain else IDLE_SECONDS):
                self._orders.stopping = True
        return jobs

    def _claim(self) -> list[Claimed]:
        waiting = set(claim.suspect_queues(self._plan.alias))
        for name in self._names():
            if name in waiting:
                jobs = step.claim_suspect(self._plan.alias, self._claimer.request(1, 1), self._claimer.way(name))
                if jobs:
                    return jobs
        return []

    def _names(self) -> list[str]:
        names = self._claimer.names
        if self._plan.selection.everything:
            names = self._plan.selection.names([*names, *claim.suspect_queues(self._plan.alias)])
        return [name for name in names if name not in self._claimer.stops.queues]
