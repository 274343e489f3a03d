"""Who leads among the keepers.

     every keeper ── asks every 3 s for a lease of 10 s ──► leads: the leader's duties do their work
                                                        └─► does not: their ticks do nothing

Invariant: a keeper believes that it leads for a shorter time than the lease that it was given, counted from before it
asked, by its own monotonic clock. Duties of the leader are harmless when two keepers do them all the same.
"""

import logging
import time
from collections.abc import Callable

from djqueue.store import leader

log = logging.getLogger("djqueue")

HOUSE = "djqueue"
"""The lease of whoever keeps house."""

CRON = "cron"
"""The lease of whoever fires cron entries: one of its own, since a supervisor may be told not to."""

LEASE_SECONDS = 10.0
RENEW_SECONDS = 3.0
MARGIN_SECONDS = 1.0


class LeaderDuty:
    """Takes and renews a leader lease."""

    def __init__(
        self,
        alias: str,
        holder: str,
        lease_name: str = HOUSE,
        *,
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = f"{lease_name} leader"
        self._alias = alias
        self._holder = holder
        self._lease_name = lease_name
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._trusted_until = float("-inf")
        self._term = 0

    @property
    def leads(self) -> bool:
        """Whether this keeper may act as the leader at this moment."""
        return self._clock() < self._trusted_until

    @property
    def term(self) -> int:
        """The term of the lease that was held last; 0 before the first."""
        return self._term

    def tick(self) -> float:
        """Ask for the lease."""
        asked_at = self._clock()
        lead = leader.acquire(self._alias, self._lease_name, self._holder, self._lease_seconds)
        if lead is None:
            self._lose()
        else:
            self._trusted_until = asked_at + self._lease_seconds - MARGIN_SECONDS
            if lead.term != self._term:
                self._term = lead.term
                log.info("leader lease taken lease=%s holder=%s term=%d", self._lease_name, self._holder, lead.term)
        return RENEW_SECONDS

    def end(self) -> None:
        """Give the lease back, so that another keeper leads at once."""
        if self._trusted_until > float("-inf"):
            self._trusted_until = float("-inf")
            leader.release(self._alias, self._lease_name, self._holder)

    def _lose(self) -> None:
        if self._trusted_until > float("-inf"):
            log.info("leader lease lost lease=%s holder=%s term=%d", self._lease_name, self._holder, self._term)
        self._trusted_until = float("-inf")
