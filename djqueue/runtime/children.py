"""Child processes as their parent sees them: how they are started, told to end, and how fast they are replaced."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Collection
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from djqueue.runtime.plan import Plan
from djqueue.runtime.slot_table import KIND, ORDER_DRAIN, ORDERS, ZYGOTE, Kind, Page, SlotTable

SPARE_PAGES = 16
"""Pages beyond four per process: for workers that are about to end and for those that the keeper has yet to settle."""

LINGER_SECONDS = 2.0

SOME = 3
"""So many may end young, one after another, before their replacements are held back."""


class Child:
    """A process that the parent has started."""

    def __init__(self, process: BaseProcess) -> None:
        self.process = process
        self.started_at = time.monotonic()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid or 0

    @property
    def exit_code(self) -> int | None:
        """How it ended (negative: by that signal), or None while it runs."""
        return self.process.exitcode

    @property
    def age(self) -> float:
        """Seconds since its start."""
        return time.monotonic() - self.started_at

    def signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        try:
            if self.exit_code is None:
                os.kill(self.pid, number)
        except ProcessLookupError:
            pass


class WorkerChild(Child):
    """A worker process and the page that it writes into."""

    def __init__(self, process: BaseProcess, page: Page) -> None:
        super().__init__(process)
        self.page = page
        self.is_condemned = False
        """Told to end because something in it went wrong; another has taken its place."""
        self._ended_at: float | None = None

    @property
    def kind(self) -> Kind:
        """What it is for."""
        return Kind(self.page.get(KIND))

    @property
    def end_code(self) -> int | None:
        """How it ended, once the processes of its isolated jobs are gone as well: nothing is given back while its code
        can run. They all hold the other end of the sentinel. (So does what a handler has forked off on purpose, which
        is not waited for longer than a moment.)"""
        code = self.exit_code
        if code is None or not self.page.get(ZYGOTE):
            return code
        self._ended_at = self._ended_at or time.monotonic()
        is_over = wait([self.process.sentinel], 0) or time.monotonic() - self._ended_at > LINGER_SECONDS
        return code if is_over else None

    def drain(self) -> None:
        """Order it to claim no more and to end when what runs has ended. The signal only makes it look at once."""
        self.page.set(ORDERS, ORDER_DRAIN)
        self.signal(signal.SIGTERM)


class Spawner:
    """Starts child processes, forked where the system can, and makes the pipes that wake them."""

    def __init__(self, plan: Plan, start_method: str | None) -> None:
        methods = multiprocessing.get_all_start_methods()
        self.method = start_method or ("fork" if "fork" in methods else "spawn")
        self._context: Any = multiprocessing.get_context(self.method)
        self._plan = plan
        pages = (plan.processes + len(plan.reserved)) * 4 + SPARE_PAGES
        self.table = SlotTable.inherited(pages) if self.method == "fork" else SlotTable.in_file(pages)

    def pipe(self) -> tuple[Connection, Connection]:
        """Return the reading and the writing end of a new pipe, neither of which blocks."""
        read, write = self._context.Pipe(duplex=False)
        for end in (read, write):
            os.set_blocking(end.fileno(), False)
        return read, write

    def start(self, name: str, target: Callable[..., None], *args: object) -> BaseProcess:
        """Start a process that calls `target(plan, table, *args, parent_pid)`."""
        child: BaseProcess = self._context.Process(
            target=target, args=(self._plan, self.table, *args, os.getpid()), name=f"djqueue-{name}"
        )
        child.start()
        return child


class Throttle:
    """Holds back replacements: at once for the first few that end young, then ever later."""

    def __init__(self) -> None:
        self._young = 0
        self._not_before = 0.0

    @property
    def is_open(self) -> bool:
        """Tell whether a replacement may be started now."""
        return time.monotonic() >= self._not_before

    def note(self, is_young: bool, most_seconds: float) -> None:
        """Take in that one has ended; the next delay is `most_seconds` at the most."""
        self._young = self._young + 1 if is_young else 0
        if self._young > SOME:
            self.hold(min(most_seconds, 0.1 * 2 ** min(self._young - SOME, 10)))

    def hold(self, seconds: float) -> None:
        """Start none for so long."""
        self._not_before = time.monotonic() + seconds


def longest_delay(exit_code: int) -> float:
    """Return the longest wait before a replacement, in seconds. One that was killed is not at fault by itself."""
    return 5.0 if exit_code > 0 else 0.1


def reap_adopted(own: Collection[int]) -> None:
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
