"""What the keeper says of its workers with each heartbeat, and what people ask of them in return.

Invariant: an order only ever leads to a graceful end, the same as SIGTERM: running jobs get their time.
"""

import logging
import os
import signal
import time
from collections import deque

from djqueue.runtime.slot_table import DONE, LOOKED, ORDER_DRAIN, ORDERS, PID, Page, SlotTable, now_ns
from djqueue.store import workers
from djqueue.store.workers import Order

log = logging.getLogger("djqueue")

WINDOW_SECONDS = 60.0


class Presence:
    """Measures the workers of one supervisor, writes that into their rows, and obeys the orders that stand there."""

    def __init__(self, alias: str, table: SlotTable) -> None:
        self._alias = alias
        self._table = table
        self._done: dict[str, deque[tuple[float, int]]] = {}
        self._has_stopped = False

    def tell(self) -> None:
        """Say who lives; obey."""
        pages = {page.worker_id: page for page in self._table.live()}
        self._done = {id_: self._done.get(id_, deque()) for id_ in pages}
        those = [
            workers.Presence(
                id=id_,
                memory_bytes=resident_bytes(page.get(PID)),
                jobs_per_minute=self._pace(id_, page),
                looked_seconds=max(0.0, (now_ns() - page.get(LOOKED)) / 1e9),
            )
            for id_, page in pages.items()
        ]
        for id_, order in workers.seen(self._alias, those).items():
            self._obey(id_, pages[id_], order)

    def _pace(self, id_: str, page: Page) -> float | None:
        """Jobs per minute over the last minute; None before there are two looks."""
        looks = self._done[id_]
        now = time.monotonic()
        looks.append((now, page.get(DONE)))
        while len(looks) > 2 and now - looks[1][0] >= WINDOW_SECONDS:
            looks.popleft()
        (since, before), (_, after) = looks[0], looks[-1]
        return 60 * (after - before) / (now - since) if now > since else None

    def _obey(self, id_: str, page: Page, order: Order) -> None:
        if order is Order.RESTART and page.worker_id == id_ and not page.get(ORDERS) & ORDER_DRAIN:
            log.info("asked to restart worker=%s", id_)
            page.set(ORDERS, page.get(ORDERS) | ORDER_DRAIN)
        if order is Order.STOP and not self._has_stopped:
            log.info("asked to stop worker=%s", id_)
            self._has_stopped = True  # a second signal would mean: now
            os.kill(os.getppid(), signal.SIGTERM)


def resident_bytes(pid: int) -> int | None:
    """Return what a process has in memory; None where the system does not tell."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
