"""The parent process: forks, waits, reads the slot table, kills. No threads, no database connections.

    runworker = parent ─┬─ keeper                  replaced if it dies
                        ├─ workers                 replaced if they die, are stuck, or have done their share
                        └─ worker for suspects     while there are any

Invariants: children are forked from a process that never opened a connection; nothing that a worker holds is given back
while its code can still run: first the process ends, then the keeper settles.
"""

import logging
import multiprocessing
import os
import signal
import time
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

from djqueue.runtime import process
from djqueue.runtime.plan import Plan, new_worker_id
from djqueue.runtime.slot_table import (
    EXIT_CODE,
    KIND,
    ORDER_DRAIN,
    ORDERS,
    PID,
    REPLACE,
    STATUS,
    STOP_KEEPER,
    SUSPECTS_WAIT,
    WHY,
    JobState,
    Kind,
    Page,
    PageStatus,
    SlotTable,
    Why,
    now_ns,
)

log = logging.getLogger("djqueue")

TICK_SECONDS = 0.2
OBEY_SECONDS = 1.0
"""How long a handler past its limit has to obey the exception before its whole process is replaced."""
KEEPER_SECONDS = 15.0
MOST_FATAL_KEEPERS = 5


class Child:
    """A process and the page that it writes into (None: the keeper)."""

    def __init__(self, process: BaseProcess, page: Page | None) -> None:
        self.process = process
        self.page = page
        self.started_at = time.monotonic()
        self.is_condemned = False


class Supervisor:
    """Keeps one keeper and the workers alive until told to stop, or until drained."""

    def __init__(self, plan: Plan, start_method: str | None = None) -> None:
        self._plan = plan
        methods = multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context(start_method or ("fork" if "fork" in methods else "spawn"))
        self._table = SlotTable.make(plan.processes * 3 + 4)
        self._keeper: Child | None = None
        self._workers: list[Child] = []
        self._keeper_read, self._keeper_write = self._context.Pipe(duplex=False)
        self._parent_read, self._parent_write = self._context.Pipe(duplex=False)
        for connection in (self._keeper_write, self._parent_read, self._parent_write):
            os.set_blocking(connection.fileno(), False)
        self._signals = 0
        self._signals_seen = 0
        self._stop_at: float | None = None
        self._killed = False
        self._not_before = 0.0
        self._quick_deaths = 0
        self._fatal_keepers = 0
        self._drained = 0
        self._exit_code = 0

    def run(self) -> int:
        """Supervise; return the exit code for the command."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        plan = self._plan
        log.info("supervisor starts id=%s processes=%d threads=%d", plan.supervisor_id, plan.processes, plan.threads)
        try:
            self._start_keeper()
            while not self._turn():
                self._wait()
            self._end_keeper()
        finally:
            self._table.unlink()
        log.info("supervisor ends id=%s exit_code=%d", self._plan.supervisor_id, self._exit_code)
        return self._exit_code

    # ------------------------------------------------------------------ the turn

    def _turn(self) -> bool:
        """Look at everything once; return whether all workers have ended for good."""
        self._bury()
        self._obey_signals()
        self._watch()
        if self._stop_at is None:
            self._fill()
            return bool(self._plan.drain) and self._is_drained()
        if time.monotonic() > self._stop_at:
            self._kill_all()
        return not self._workers

    def _wait(self) -> None:
        sentinels = [child.process.sentinel for child in [*self._workers, self._keeper] if child is not None]
        wait([*sentinels, self._parent_read], TICK_SECONDS)
        try:
            while os.read(self._parent_read.fileno(), 4096):
                pass
        except BlockingIOError:
            pass

    def _bury(self) -> None:
        """Note the children that have ended, and let the keeper settle what they held."""
        for child in [c for c in self._workers if c.process.exitcode is not None]:
            self._workers.remove(child)
            self._note_end(child)
        if self._keeper is not None and self._keeper.process.exitcode is not None:
            self._keeper_ended(self._keeper.process.exitcode)
        _reap_adopted({child.process.pid for child in [*self._workers, self._keeper] if child is not None})

    def _note_end(self, child: Child) -> None:
        page, code = child.page, child.process.exitcode
        assert page is not None and code is not None
        page.set(EXIT_CODE, code)
        if child.is_condemned and page.get(WHY) == Why.DIED:
            page.set(WHY, Why.TIMEOUT)
        page.set(STATUS, PageStatus.ENDED)
        self._wake_keeper()
        if code == 0 and page.get(KIND) == Kind.WORKER:
            self._drained += 1
        if code not in (0, process.EXIT_RECYCLED):
            log.warning("worker ended worker=%s pid=%s exit_code=%s", page.worker_id, child.process.pid, code)
            self._throttle(child)

    def _throttle(self, child: Child) -> None:
        """Workers that die young are replaced ever more slowly, up to five seconds apart."""
        self._quick_deaths = self._quick_deaths + 1 if time.monotonic() - child.started_at < 1 else 0
        if self._quick_deaths > 3:
            self._not_before = time.monotonic() + min(5.0, 0.1 * 2 ** (self._quick_deaths - 3))

    def _keeper_ended(self, code: int) -> None:
        log.error("keeper ended, it is replaced exit_code=%s", code)
        young = self._keeper is not None and time.monotonic() - self._keeper.started_at < 10
        self._fatal_keepers = self._fatal_keepers + 1 if young else 0
        if self._fatal_keepers >= MOST_FATAL_KEEPERS and self._stop_at is None:
            log.critical("the keeper can't be kept alive, giving up")
            self._exit_code = 1
            self._stop()
        self._start_keeper()

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
            self._drain(child)

    def _drain(self, child: Child) -> None:
        assert child.page is not None
        child.page.set(ORDERS, ORDER_DRAIN)
        _kill(child, signal.SIGTERM)

    def _kill_all(self) -> None:
        """The end of the grace: what still runs is given back, after its process has ended."""
        if self._killed:
            return
        self._killed = True
        for child in self._workers:
            assert child.page is not None
            if not child.is_condemned:
                child.page.set(WHY, Why.STOPPED)
            _kill(child, signal.SIGKILL)

    def _end_keeper(self) -> None:
        """Let the keeper settle the last pages; heartbeats stop last."""
        deadline = time.monotonic() + KEEPER_SECONDS
        while self._keeper is not None and time.monotonic() < deadline:
            self._table.set(STOP_KEEPER, 1)
            self._wake_keeper()
            wait([self._keeper.process.sentinel], TICK_SECONDS)
            code = self._keeper.process.exitcode
            if code == 0:
                return
            if code is not None:
                self._start_keeper()
        if self._keeper is not None:
            log.error("the keeper did not end in time; leases that are left will run out")
            _kill(self._keeper, signal.SIGKILL)
            self._exit_code = 1

    # ------------------------------------------------------------------ watching

    def _watch(self) -> None:
        """Replace workers whose jobs don't obey their time limit, or that make no progress."""
        now = now_ns()
        for child in self._workers:
            page = child.page
            assert page is not None
            records = [r for r in page.records() if r.state is JobState.STARTED]
            overdue = [r for r in records if r.is_overdue(now, int(OBEY_SECONDS * 1e9))]
            if (overdue or page.get(REPLACE)) and not child.is_condemned:
                log.error("replacing worker=%s jobs_past_their_limit=%d", page.worker_id, len(overdue))
                child.is_condemned = True
                self._drain(child)
            if child.is_condemned and all(r.is_overdue(now) for r in records) and (overdue or page.get(REPLACE)):
                _kill(child, signal.SIGKILL)

    def _fill(self) -> None:
        """Start what is missing. While draining, a worker that has found nothing more to do stays away."""
        if time.monotonic() < self._not_before:
            return
        kinds = [child.page.get(KIND) for child in self._workers if child.page is not None and not child.is_condemned]
        wanted = self._plan.processes - (self._drained if self._plan.drain else 0)
        for _ in range(wanted - kinds.count(Kind.WORKER)):
            self._start_worker(Kind.WORKER)
        if self._table.get(SUSPECTS_WAIT) and Kind.SUSPECTS not in kinds:
            self._table.set(SUSPECTS_WAIT, 0)
            self._start_worker(Kind.SUSPECTS)

    def _is_drained(self) -> bool:
        return self._drained >= self._plan.processes and not self._workers and not self._table.ended()

    # ------------------------------------------------------------------ children

    def _start_worker(self, kind: Kind) -> None:
        page = self._table.free_page()
        if page is None:
            return  # the keeper has yet to settle ended ones; next turn
        page.assign(new_worker_id(), kind)
        child = self._spawn(process.run_worker, (page.index, os.getpid()), f"worker-{page.index}")
        page.set(PID, child.pid or 0)
        self._workers.append(Child(child, page))

    def _start_keeper(self) -> None:
        args = (self._keeper_read, self._parent_write, os.getpid())
        self._keeper = Child(self._spawn(process.run_keeper, args, "keeper"), None)

    def _spawn(self, target: Any, args: tuple[Any, ...], name: str) -> BaseProcess:
        child: BaseProcess = self._context.Process(
            target=target, args=(self._plan, self._table.path, self._table.count, *args), name=f"djqueue-{name}"
        )
        child.start()
        return child

    def _wake_keeper(self) -> None:
        try:
            os.write(self._keeper_write.fileno(), b"x")
        except BlockingIOError:
            pass


def _kill(child: Child, number: int) -> None:
    try:
        if child.process.pid is not None and child.process.exitcode is None:
            os.kill(child.process.pid, number)
    except ProcessLookupError:
        pass


def _reap_adopted(own: set[int | None]) -> None:
    """As PID 1 of a container, bury orphans of others that were handed to this process."""
    if os.getpid() != 1:
        return
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid in own:
            return
        os.waitpid(found.si_pid, 0)
