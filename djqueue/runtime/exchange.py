"""One exchange of a worker with the database: acks of what has ended and the next claim, in one transaction.

Invariant: what the database refuses for its content harms only itself; after any other error nothing is forgotten: acks
stay with `Settling`, and what was claimed without an answer is found again by its rows.
"""

import time
from collections.abc import Callable

from djqueue.runtime.claimer import Claimer
from djqueue.runtime.settling import Settling
from djqueue.store import claim, db, faults, finish, history
from djqueue.store.claim import Claimed


class Exchange:
    """Acks and claims of one worker."""

    def __init__(
        self,
        alias: str,
        claimer: Claimer,
        settling: Settling,
        *,
        durable_acks: bool = True,
        once_sent: Callable[[], None] = lambda: None,
    ) -> None:
        self._durable_acks = durable_acks
        self._alias = alias
        self._claimer = claimer
        self._settling = settling
        self._once_sent = once_sent

    def ack_and_claim(self, limit: int, free: int) -> list[Claimed]:
        """Write all acks and claim up to `limit` jobs (0: none), at most `free` of them on their last attempt."""
        acks = self._settling.take_acks()
        overflow = False
        while True:
            try:
                return self._send(acks, limit, free, overflow)
            except faults.ERRORS as error:
                if faults.should_repeat(error):
                    continue
                if faults.is_missing_partition(error) and not overflow:
                    history.ensure_partitions(self._alias)
                    overflow = True
                    continue
                if acks and faults.is_about_content(self._alias, error):
                    self._ack_one_by_one()
                    return []
                raise

    def _send(self, acks: list[finish.Ack], limit: int, free: int, overflow: bool) -> list[Claimed]:
        """One transaction, one round trip; what is to be done while the server works is done then."""
        ack_cursor = claim_cursor = None
        if any(ack.key is not None for ack in acks):
            self._claimer.look_again()  # what these acks let out is older than the marks
        with db.together(self._alias, self._once_sent):
            if acks and not limit and not self._durable_acks:
                finish.relax(self._alias)
            if acks:
                now = time.monotonic()
                ack_cursor = finish.start_ack(self._alias, acks, now, overflow=overflow, tell=not limit)
            if limit:
                claim_cursor = self._claimer.start(limit, free)
        if ack_cursor is not None:
            self._settling.acked(acks, finish.acked(ack_cursor))
        return claim.claimed(claim_cursor) if claim_cursor is not None else []

    def _ack_one_by_one(self) -> None:
        """One ack of a batch can't be stored: find it."""
        for ack in self._settling.take_acks():
            try:
                done = finish.ack(self._alias, [ack], time.monotonic())
                self._settling.acked([ack], done)
            except faults.ERRORS as error:
                if not faults.is_about_content(self._alias, error):
                    raise
                self._settling.refuse(self._settling.acks[ack.id], error)
