"""Surviving what databases do: wait a little, connect again, ask what became of unanswered statements."""

import logging
import random
import time
from collections.abc import Callable

from djqueue.policy.backoff import Backoff
from djqueue.runtime.holdings import Holdings
from djqueue.runtime.plan import Plan
from djqueue.runtime.registration import Registration
from djqueue.runtime.settling import Settling
from djqueue.store import db, faults, lease

log = logging.getLogger("djqueue")

TROUBLE = (*faults.ERRORS, OSError)
"""What a loop survives."""

PAUSE_SECONDS = 0.5
"""A pause is cut into pieces of this length, so that the loop beats meanwhile."""


class Trouble:
    """How one worker gets over errors of its database."""

    def __init__(
        self,
        plan: Plan,
        worker_id: str,
        holdings: Holdings,
        settling: Settling,
        registration: Registration,
        pause: Callable[[float], None],
    ) -> None:
        self._plan = plan
        self._alias = plan.alias
        self._id = worker_id
        self._holdings = holdings
        self._settling = settling
        self._registration = registration
        self._pause = pause
        self._backoff = Backoff(0.05, 5)

    def is_over(self) -> None:
        """A turn went well."""
        self._backoff.reset()

    def connect(self) -> None:
        """Connect and register."""
        db.adopt(self._alias, prepared=self._plan.options.prepared_statements)
        self._registration.write()

    def survive(self, error: BaseException) -> bool:
        """Pause and connect again; return whether that went well."""
        pause = self._backoff.next(random.Random())
        if self._backoff.failures in (1, 2) or self._backoff.failures % 20 == 0:
            log.warning("database trouble worker=%s error=%s retry_in=%.1fs", self._id, faults.words(error), pause)
        if faults.connection_is_lost(self._alias, error):
            db.drop(self._alias)
        self._sleep(pause)
        return self._reconnect()

    def _reconnect(self) -> bool:
        try:
            db.adopt(self._alias, prepared=self._plan.options.prepared_statements)
            self._settling.after_lost_answer()
            self._give_back_unheard()
            self._registration.write()
            return True
        except TROUBLE as error:
            log.debug("not yet connected again worker=%s error=%s", self._id, faults.words(error))
            db.drop(self._alias)
            return False

    def _give_back_unheard(self) -> None:
        """Claimed, but the answer never came, or something failed before they were taken up."""
        held = self._holdings.leases()
        unheard = [row for row in lease.owned(self._alias, self._id) if row not in held]
        if unheard:
            lease.release(self._alias, unheard)

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._pause(min(left, PAUSE_SECONDS))
