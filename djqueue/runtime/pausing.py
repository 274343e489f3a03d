"""The leader's part in pauses: what was ready is set aside when a task or a tenant is paused, and comes back after it.

What becomes ready meanwhile is set aside by the worker that claims it (`stops`). Invariant: whatever is set aside for a
pause that is not in force comes back, in whatever order things happened.
"""

import logging
import time

from djqueue.api import registry
from djqueue.runtime.housekeeping import IDLE_SECONDS
from djqueue.runtime.leader import LeaderDuty
from djqueue.store import pauses, recover
from djqueue.store.pauses import Kind

log = logging.getLogger("djqueue")

TICK_FOR_SECONDS = 0.25


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
            while (count := self._swept(kind, name)) == pauses.BATCH:
                if time.monotonic() > until:
                    return True
            log.info("jobs of a paused %s are set aside name=%s last_batch=%d", kind, name, count)
            pauses.swept(self._alias, kind, name)
        return False

    def _swept(self, kind: Kind, name: str) -> int:
        return pauses.sweep(self._alias, kind, name, registry.same(name) if kind is Kind.TASK else ())

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
