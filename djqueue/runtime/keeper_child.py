"""The keeper as the parent sees it: started, woken, replaced when it dies or stands still, and ended last."""

import logging
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait

from djqueue.runtime import process
from djqueue.runtime.children import Child, Spawner, Throttle, longest_delay
from djqueue.runtime.slot_table import KEEPER_BEAT, STOP_KEEPER, now_ns

log = logging.getLogger("djqueue")

MOST_FAILURES = 5
"""So many keepers may fail one after another, each young, before the supervisor gives up."""

YOUNG_SECONDS = 10.0
STUCK_SECONDS = 5.0
"""A keeper's main loop beats every second, whatever the database does."""

START_SECONDS = 60.0
END_SECONDS = 15.0
END_NOW_SECONDS = 5.0
LOOK_SECONDS = 0.2


class KeeperChild:
    """The parent's hold on its keeper."""

    def __init__(self, spawner: Spawner, parent_write: Connection, lease_seconds: float) -> None:
        self._spawner = spawner
        self._table = spawner.table
        self._parent_write = parent_write
        self._read, self._write = spawner.pipe()
        self._stuck_ns = int(max(STUCK_SECONDS, lease_seconds / 2) * 1e9)
        self._throttle = Throttle()
        self._failures = 0
        self._child: Child | None = None

    @property
    def pids(self) -> list[int]:
        """Its process id, while there is one."""
        return [] if self._child is None else [self._child.pid]

    @property
    def sentinels(self) -> list[int]:
        """What becomes readable at its end."""
        return [] if self._child is None else [self._child.process.sentinel]

    @property
    def is_hopeless(self) -> bool:
        """Tell whether keepers fail again and again."""
        return self._failures >= MOST_FAILURES

    def look_after(self) -> None:
        """Bury it if it has ended, start one if there is none, replace it if it stands still."""
        code = None if self._child is None else self._child.exit_code
        if code == 0 and self._table.get(STOP_KEEPER):
            return  # it has ended as it was told to, this very moment
        if self._child is not None and code is not None:
            self._bury(self._child, code)
        if self._child is None:
            self._start()
        elif now_ns() - self._table.get(KEEPER_BEAT) > self._stuck_ns:
            log.error("keeper stands still, it is replaced pid=%s", self._child.pid)
            self._excuse(START_SECONDS)
            self._child.signal(signal.SIGKILL)

    def excuse(self) -> None:
        """It was the parent that stood still; perhaps all did."""
        self._excuse(0)

    def wake(self) -> None:
        """Tell it that something has ended."""
        try:
            os.write(self._write.fileno(), b"x")
        except BlockingIOError:
            pass

    def end(self, is_hurried: Callable[[], bool]) -> bool:
        """Let it settle the last pages, then end it; return whether it ended well.

        `is_hurried` tells whether somebody has asked again for the end; then the wait is shorter.
        """
        began = time.monotonic()
        while time.monotonic() - began < (END_NOW_SECONDS if is_hurried() else END_SECONDS) and not self.is_hopeless:
            self._table.set(STOP_KEEPER, 1)
            self.wake()
            wait(self.sentinels, LOOK_SECONDS)
            if self._child is not None and self._child.exit_code == 0:
                return True
            self.look_after()
        log.error("the keeper did not end in time; leases that are left will run out")
        return False

    def kill(self) -> None:
        """End it at once."""
        if self._child is not None:
            self._child.signal(signal.SIGKILL)

    def _start(self) -> None:
        if not self._throttle.is_open:
            return
        self._excuse(START_SECONDS)
        numbers = process.stop_signals()
        try:
            started = self._spawner.start("keeper", process.run_keeper, self._read, self._parent_write, numbers)
        except OSError as error:
            log.error("keeper can't be started, trying again error=%s", error)
            self._throttle.hold(1.0)
            return
        self._child = Child(started)

    def _bury(self, child: Child, code: int) -> None:
        self._child = None
        log.error("keeper ended, it is replaced pid=%s exit_code=%s", child.pid, code)
        is_young = child.age < YOUNG_SECONDS
        self._throttle.note(is_young, longest_delay(code))
        if code >= 0:
            self._failures = self._failures + 1 if is_young else 0

    def _excuse(self, seconds: float) -> None:
        self._table.set(KEEPER_BEAT, max(self._table.get(KEEPER_BEAT), now_ns() + int(seconds * 1e9)))
