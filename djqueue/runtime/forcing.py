"""Ending handlers by force: those past their time limit, and those that were asked to cancel."""

import logging
import time

from djqueue.runtime.async_loop import AsyncLoop
from djqueue.runtime.held import Held
from djqueue.runtime.slot_table import now_ns
from djqueue.runtime.slots import Slots

log = logging.getLogger("djqueue")


class Forcing:
    """Sends exceptions into handlers of one worker. What does not obey is the parent's business."""

    def __init__(self, slots: Slots, loop: AsyncLoop, grace_seconds: float) -> None:
        self._slots = slots
        self._loop = loop
        self._grace_seconds = grace_seconds

    def look(self) -> None:
        """Force what is past its limit or was asked to cancel."""
        now = now_ns()
        for held in self._slots.running():
            if held.deadline_ns and now > held.deadline_ns:
                self._force(held, "timeout")
            elif held.is_cancel_requested and self._is_patience_over(held):
                self._force(held, "cancel")

    def seconds_to_next(self) -> float | None:
        """Return the seconds until the next time limit, or None where there is none."""
        deadlines = [held.deadline_ns for held in self._slots.running() if held.deadline_ns and not held.forced]
        return (min(deadlines) - now_ns()) / 1e9 if deadlines else None

    def _is_patience_over(self, held: Held) -> bool:
        """A handler with a context gets the grace period to look at `cancelled`; others can't know."""
        if not held.task.takes_context:
            return True
        held.cancel_seen = held.cancel_seen or time.monotonic()
        return time.monotonic() - held.cancel_seen > self._grace_seconds

    def _force(self, held: Held, why: str) -> None:
        if held.forced == why:
            return
        log.warning("%s, ending the handler job=%s task=%s", why, held.job.id, held.job.task_name)
        if held.is_async:
            held.forced = why
            self._loop.cancel(held)
        else:
            self._slots.force(held, why)
