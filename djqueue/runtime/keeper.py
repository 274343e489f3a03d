"""The keeper process: heartbeats, recovery and the leader's duties, each in a thread with a connection of its own.

It ignores the signals that stop workers, because heartbeats are the last thing to stop: the parent says when, through
the slot table.
"""

import logging
import os
import select
import threading
import time

from djqueue.api import registry
from djqueue.policy import alive
from djqueue.runtime import leading
from djqueue.runtime.duty import Duty, Routine
from djqueue.runtime.expiring import Expire
from djqueue.runtime.heartbeat import Heartbeat
from djqueue.runtime.liveness import Liveness, notify_socket
from djqueue.runtime.plan import Plan
from djqueue.runtime.recovering import Cancels, LetOut, Orphans, Promote, Reap, Suspects
from djqueue.runtime.settle import Settle
from djqueue.runtime.slot_table import KEEPER_BEAT, STOP_KEEPER, SlotTable, now_ns

log = logging.getLogger("djqueue")

EXIT_FATAL = 70
LOOK_SECONDS = 1.0
END_SECONDS = 5.0
SLOWEST_TICK_SECONDS = 60.0
"""A tick of the recovery that takes longer waits for something that will not come."""


class Keeper:
    """Runs the routines until the parent says stop."""

    def __init__(self, plan: Plan, table: SlotTable, wake_read: int, parent_write: int) -> None:
        self._plan = plan
        self._table = table
        self._wake_read = wake_read
        self._parent_write = parent_write
        self._fatal = threading.Event()
        patience = alive.patience(plan.options.beat_seconds, plan.options.poll_seconds)
        self._liveness = Liveness(table, patience, plan.liveness_file, notify_socket())
        self._settle = Settle(plan, table, self._on_suspects)
        self._recovery = self._routine("recovery", self._recovery_duties())
        self._heartbeat = self._routine("heartbeat", [Heartbeat(plan, table, self._wake_parent)])
        self._routines = [
            self._heartbeat,
            self._recovery,
            *(self._routine(name, duties) for name, duties in leading.routines(plan)),
        ]

    def run(self) -> int:
        """Work until told to stop; return the exit code."""
        registry.load()
        for routine in self._routines:
            routine.start()
        while not self._fatal.is_set():
            self._table.set(KEEPER_BEAT, now_ns())
            self._liveness.tell()
            select.select([self._wake_read], [], [], LOOK_SECONDS)
            if _empty(self._wake_read):
                self._recovery.wake("settle")
            self._cut_what_is_stuck()
            if self._table.get(STOP_KEEPER) and self._settle.is_quiet:
                return self._stop()
        return EXIT_FATAL

    def _cut_what_is_stuck(self) -> None:
        """Leases that are not extended run out: rather another connection than a wait without end."""
        options = self._plan.options
        self._heartbeat.cut_if_stuck(max(1.0, options.lease_seconds - options.beat_seconds) / 2)
        self._recovery.cut_if_stuck(SLOWEST_TICK_SECONDS)

    def _stop(self) -> int:
        self._liveness.tell()
        for routine in self._routines:
            routine.stop()
        until = time.monotonic() + END_SECONDS
        for routine in self._routines:
            routine.join(max(0.0, until - time.monotonic()))
        return 0

    def _recovery_duties(self) -> list[Duty]:
        plan, table = self._plan, self._table
        duties: list[Duty] = [
            self._settle,
            Promote(plan),
            LetOut(plan.alias),
            Cancels(plan, table),
            Suspects(plan, table, self._wake_parent),
            Orphans(plan),
            Expire(plan.alias),
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


def _empty(pipe: int) -> bool:
    """Read what has come; return whether anything had."""
    found = False
    try:
        while os.read(pipe, 4096):
            found = True
    except BlockingIOError:
        pass
    return found
