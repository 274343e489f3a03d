"""The parent process: forks, waits, reads the slot table, kills. No threads, no database connections.

    runworker = parent ─┬─ keeper                  replaced if it dies or stands still
                        ├─ workers                 replaced if they die, are stuck, or have done their share
                        └─ worker for suspects     while there are any

Invariants: children are forked from a process that has no connection open; nothing that a worker holds is given back
while its code can still run: first the process ends, then the keeper settles. Whatever ends the parent, ends them all.
"""

import logging
import os
import signal
import time
from multiprocessing.connection import wait

from djqueue.runtime import preflight, process
from djqueue.runtime.children import Spawner, Throttle, WorkerChild, longest_delay, reap_adopted
from djqueue.runtime.keeper_child import KeeperChild
from djqueue.runtime.plan import Plan, new_worker_id
from djqueue.runtime.slot_table import (
    ENDED_AT,
    EXIT_CODE,
    PID,
    REPLACE,
    RESERVATION,
    STATUS,
    SUSPECTS_WAIT,
    WHY,
    JobState,
    Kind,
    PageStatus,
    Why,
    now_ns,
)

log = logging.getLogger("djqueue")

TICK_SECONDS = 0.2
FROZEN_SECONDS = 2.0
"""A turn that comes so late was not late by itself: this process, and perhaps all of them, stood still."""

OBEY_SECONDS = 1.0
"""How long a handler past its limit has to obey the exception before its whole process is replaced."""

YOUNG_SECONDS = 1.0
MOST_STILLBORN = 5
"""When so many workers per wanted process have failed before they could claim, none lives: the supervisor gives up."""


class Supervisor:
    """Keeps one keeper and the workers alive until told to stop, or until drained."""

    def __init__(self, plan: Plan, start_method: str | None = None) -> None:
        self._plan = plan
        self._spawner = Spawner(plan, start_method)
        self._table = self._spawner.table
        self._parent_read, self._parent_write = self._spawner.pipe()
        self._keeper = KeeperChild(self._spawner, self._parent_write, plan.options.lease_seconds)
        self._workers: list[WorkerChild] = []
        self._throttles = {kind: Throttle() for kind in Kind}
        self._numbers = process.stop_signals()
        self._signals = 0
        self._signals_seen = 0
        self._stop_at: float | None = None
        self._killed = False
        self._stillborn = 0
        self._drained = 0
        self._drained_reservations: set[int] = set()
        self._exit_code = 0
        self._turned_at = time.monotonic()

    def run(self) -> int:
        """Supervise; return the exit code for the command."""
        for number in self._numbers:
            signal.signal(number, self._on_signal)
        plan = self._plan
        log.info("supervisor starts id=%s processes=%d threads=%d", plan.supervisor_id, plan.processes, plan.threads)
        if plan.chaos:
            log.warning("chaos: of all jobs %g run twice or lose their process after their effect", plan.chaos)
        try:
            self._exit_code = preflight.look(self._spawner, self._parent_read)
            if not self._exit_code:
                self._supervise()
        finally:
            self._kill_children()
        log.info("supervisor ends id=%s exit_code=%d", plan.supervisor_id, self._exit_code)
        return self._exit_code

    # ------------------------------------------------------------------ the turn

    def _supervise(self) -> None:
        self._turned_at = time.monotonic()
        while not self._turn():
            self._wait()
        first = 0 if self._stop_at is None else 1  # the signal that began the stop hurries nobody, the next one does
        if not self._keeper.end(lambda: self._signals > first):
            self._exit_code = 1

    def _turn(self) -> bool:
        """Look at everything once; return whether all workers have ended for good."""
        if time.monotonic() - self._turned_at > FROZEN_SECONDS:
            self._keeper.excuse()
        self._turned_at = time.monotonic()
        self._bury()
        self._keeper.look_after()
        self._obey_signals()
        self._watch()
        if self._stop_at is None and not self._has_hope():
            self._exit_code = 1
            self._stop()
        if self._stop_at is None:
            self._fill()
            return bool(self._plan.drain) and self._is_drained()
        if time.monotonic() > self._stop_at:
            self._kill_all()
        return not self._workers

    def _wait(self) -> None:
        sentinels = [child.process.sentinel for child in self._workers]
        wait([*sentinels, *self._keeper.sentinels, self._parent_read], TICK_SECONDS)
        try:
            while os.read(self._parent_read.fileno(), 4096):
                pass
        except BlockingIOError:
            pass

    def _bury(self) -> None:
        """Note the workers that have ended, and let the keeper settle what they held."""
        for child in self._workers[:]:
            code = child.end_code
            if code is not None:
                self._workers.remove(child)
                self._note_end(child, code)
        reap_adopted({*self._keeper.pids, *(child.pid for child in self._workers)})

    def _note_end(self, child: WorkerChild, code: int) -> None:
        page = child.page
        has_run = page.status is PageStatus.RUNNING
        if child.is_condemned and page.get(WHY) == Why.DIED:
            page.set(WHY, Why.TIMEOUT)
        page.set(EXIT_CODE, code)
        page.set(ENDED_AT, now_ns())
        page.set(STATUS, PageStatus.ENDED if has_run else PageStatus.FREE)  # what has not run has claimed nothing
        self._keeper.wake()
        if code == 0 and not child.is_condemned:
            self._drained += child.kind is Kind.WORKER
            if child.kind is Kind.RESERVED:
                self._drained_reservations.add(page.get(RESERVATION))
        if code not in (0, process.EXIT_RECYCLED):
            log.warning("worker ended worker=%s pid=%d exit_code=%d", page.worker_id, child.pid, code)
            self._hold_back(child, code, has_run)

    def _hold_back(self, child: WorkerChild, code: int, has_run: bool) -> None:
        """Workers that die young are replaced ever more slowly; suspects may kill theirs as soon as it runs."""
        is_young = not has_run or (child.age < YOUNG_SECONDS and child.kind is Kind.WORKER)
        self._throttles[child.kind].note(is_young, longest_delay(code))
        if has_run:
            self._stillborn = 0
        elif code > 0:
            self._stillborn += 1

    def _has_hope(self) -> bool:
        """Tell whether keeper and workers can be kept alive at all."""
        if self._keeper.is_hopeless:
            log.critical("the keeper can't be kept alive, giving up")
        elif self._stillborn >= MOST_STILLBORN * self._plan.processes:
            log.critical("workers end before they can work, giving up")
        else:
            return True
        return False

    # ------------------------------------------------------------------ stopping

    def _on_signal(self, number: int, frame: object) -> None:
        self._signals += 1
        try:
            os.write(self._parent_write.fileno(), b"x")
        except BlockingIOError:
            pass

    def _obey_signals(self) -> None:
        new, self._signals_seen = self._signals - self._signals_seen, self._signals
        if new and self._stop_at is None:
            log.info("stopping, waiting %g s for running jobs", self._plan.options.grace_seconds)
            self._stop()
            new -= 1
        if new:
            log.info("stopping now, giving running jobs back")
            self._kill_all()

    def _stop(self) -> None:
        self._stop_at = time.monotonic() + self._plan.options.grace_seconds
        for child in self._workers:
            child.drain()

    def _kill_all(self) -> None:
        """The end of the grace: what still runs is given back, after its process has ended."""
        if self._killed:
            return
        self._killed = True
        for child in self._workers:
            child.page.set(WHY, Why.STOPPED)
            child.signal(signal.SIGKILL)

    def _kill_children(self) -> None:
        """Leave nobody behind, whatever has ended the supervision: they would run on unwatched."""
        for child in self._workers:
            child.signal(signal.SIGKILL)
        self._keeper.kill()

    # ------------------------------------------------------------------ watching

    def _watch(self) -> None:
        """Replace workers whose jobs don't obey their time limit, or that make no progress."""
        for child in self._workers:
            self._watch_one(child, now_ns())

    def _watch_one(self, child: WorkerChild, now: int) -> None:
        page = child.page
        started = [record for record in page.records() if record.has_started]
        overdue = [record for record in started if record.is_overdue(now, int(OBEY_SECONDS * 1e9))]
        is_stuck = bool(page.get(REPLACE))
        if not (overdue or is_stuck):
            return
        if not child.is_condemned:
            log.error("replacing worker=%s jobs_past_their_limit=%d", page.worker_id, len(overdue))
            child.is_condemned = True
            child.drain()
        # Neighbours get until their own limits. What has ended is written soon, except by a main loop that is stuck.
        if all(r.is_overdue(now) or (is_stuck and r.state is JobState.ENDED) for r in started):
            child.signal(signal.SIGKILL)

    # ------------------------------------------------------------------ starting

    def _fill(self) -> None:
        """Start what is missing. While draining, a worker that has found nothing more to do stays away."""
        kinds = [child.kind for child in self._workers if not child.is_condemned]
        wanted = self._plan.processes - (self._drained if self._plan.drain else 0)
        for _ in range(wanted - kinds.count(Kind.WORKER)):
            self._start_worker(Kind.WORKER)
        for place in range(len(self._plan.reserved)):
            self._fill_reservation(place)
        if self._table.get(SUSPECTS_WAIT) and Kind.SUSPECTS not in kinds:
            self._table.set(SUSPECTS_WAIT, 0)
            self._start_worker(Kind.SUSPECTS)

    def _fill_reservation(self, place: int) -> None:
        is_there = any(
            child.kind is Kind.RESERVED and child.page.get(RESERVATION) == place and not child.is_condemned
            for child in self._workers
        )
        if not is_there and not (self._plan.drain and place in self._drained_reservations):
            self._start_worker(Kind.RESERVED, place)

    def _is_drained(self) -> bool:
        return self._drained >= self._plan.processes and not self._workers and not self._table.ended()

    def _start_worker(self, kind: Kind, reservation: int = 0) -> None:
        if not self._throttles[kind].is_open:
            return
        page = self._table.free_page()
        if page is None:
            self._make_room()
            return  # next turn, when the keeper has settled an ended one
        page.assign(new_worker_id(), kind)
        page.set(RESERVATION, reservation)
        try:
            child = self._spawner.start(f"worker-{page.index}", process.run_worker, page.index, self._numbers)
        except OSError as error:
            log.error("worker can't be started, trying again error=%s", error)
            page.set(STATUS, PageStatus.FREE)
            self._throttles[kind].hold(1.0)
            return
        page.set(PID, child.pid or 0)
        self._workers.append(WorkerChild(child, page))

    def _make_room(self) -> None:
        """No page is left: one of those that wait for neighbours of a handler that can't be ended has to go now."""
        condemned = [child for child in self._workers if child.is_condemned]
        if condemned and not self._table.ended():
            log.error(
                "too many workers wait for their last jobs, ending the oldest worker=%s", condemned[0].page.worker_id
            )
            condemned[0].signal(signal.SIGKILL)
