"""The keeper process: heartbeats, recovery and the leader's duties, each in a thread with a connection of its own.

It ignores the signals that stop workers, because heartbeats are the last thing to stop: the parent says when, through
the slot table.
"""

import logging
import os
import select
import signal
import threading

from djqueue.api import registry
from djqueue.runtime import leading
from djqueue.runtime.duty import Duty, Routine
from djqueue.runtime.heartbeat import Heartbeat
from djqueue.runtime.plan import Plan
from djqueue.runtime.recovering import Cancels, Orphans, Promote, Reap, Settle, Suspects
from djqueue.runtime.slot_table import STOP_KEEPER, SlotTable

log = logging.getLogger("djqueue")

EXIT_FATAL = 70


class Keeper:
    """Runs the routines until the parent says stop."""

    def __init__(self, plan: Plan, table: SlotTable, wake_read: int, parent_write: int) -> None:
        self._plan = plan
        self._table = table
        self._wake_read = wake_read
        self._parent_write = parent_write
        self._fatal = threading.Event()
        self._recovery = self._routine("recovery", self._recovery_duties())
        self._routines = [
            self._routine("heartbeat", [Heartbeat(plan, table, self._wake_parent)]),
            self._recovery,
            *(self._routine(name, duties) for name, duties in leading.routines(plan)),
        ]

    def run(self) -> int:
        """Work until told to stop; return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        registry.load()
        for routine in self._routines:
            routine.start()
        while not self._fatal.is_set():
            select.select([self._wake_read], [], [], 1.0)
            _empty(self._wake_read)
            self._recovery.wake("settle")
            if self._table.get(STOP_KEEPER) and not self._table.ended():
                return self._stop()
        return EXIT_FATAL

    def _stop(self) -> int:
        for routine in self._routines:
            routine.stop()
        for routine in self._routines:
            routine.join(5)
        return 0

    def _recovery_duties(self) -> list[Duty]:
        plan, table = self._plan, self._table
        duties: list[Duty] = [
            Settle(plan, table, self._on_suspects),
            Promote(plan),
            Cancels(plan, table),
            Suspects(plan, table, self._wake_parent),
            Orphans(plan),
        ]
        return [*duties, Reap(plan, self._on_suspects)] if plan.reaper else duties

    def _routine(self, name: str, duties: list[Duty]) -> Routine:
        plan = self._plan
        return Routine(name, plan.alias, duties, prepared=plan.options.prepared_statements, on_fatal=self._on_fatal)

    def _on_suspects(self) -> None:
        self._recovery.wake("suspects")

    def _on_fatal(self, why: str) -> None:
        log.critical("keeper can't go on why=%s", why)
        self._fatal.set()

    def _wake_parent(self) -> None:
        try:
            os.write(self._parent_write, b"x")
        except (BlockingIOError, BrokenPipeError):
            pass


def _empty(pipe: int) -> None:
    try:
        while os.read(pipe, 4096):
            pass
    except BlockingIOError:
        pass
