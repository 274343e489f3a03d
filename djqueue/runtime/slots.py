"""The slots of a worker: threads that take waiting jobs one after another and run them.

The road inside the worker has no lock: jobs come through one queue, outcomes go back through another, and the main
thread is poked only while it waits. Jobs are put down first and handed over later, when the next exchange with the
database is on its way: the server works while the slots do, and not one after the other.
"""

import ctypes
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue

from djqueue.exceptions import JobCancelled, JobInterrupt, JobTimeout
from djqueue.policy.errors import describe
from djqueue.runtime import handler_db
from djqueue.runtime.executor import Executor
from djqueue.runtime.held import Held
from djqueue.runtime.outcome import Cancelled, Failed, Outcome

log = logging.getLogger("djqueue")

Work = Held | Callable[[], None] | None


class Slots:
    """A fixed number of slot threads and the jobs that wait for them."""

    def __init__(self, count: int, executor: Executor, on_finished: Callable[[], None]) -> None:
        self.count = count
        self.waiting: SimpleQueue[Work] = SimpleQueue()
        self._put_down: list[Held] = []
        self.finished: deque[Held] = deque()
        self._threads = [_Slot(self, executor, on_finished, number) for number in range(count)]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let the threads end when they have done what waits."""
        for _ in self._threads:
            self.waiting.put(None)

    def put_down(self, held: Held) -> None:
        """Take a job that waits; it does not start before the next `hand_over`."""
        self._put_down.append(held)

    def hand_over(self) -> None:
        """Let the threads have all that was put down."""
        if self._put_down:
            jobs, self._put_down = self._put_down, []
            for held in jobs:
                self.waiting.put(held)

    def count_waiting(self) -> int:
        """Return how many jobs, and pieces of work beside them, have not started."""
        return self.waiting.qsize() + len(self._put_down)

    def running(self) -> list[Held]:
        """Return the jobs whose handlers run now."""
        return [held for thread in self._threads if (held := thread.current) is not None]

    def force(self, held: Held, why: str) -> None:
        """Send an exception into the thread that runs this job, if it still does."""
        for thread in self._threads:
            thread.force(held, why)

    def take_back(self, wanted: Callable[[Held], bool] = lambda held: True) -> list[Held]:
        """Return the jobs that wait, or those of them that are wanted, out of the slots' reach; the others keep their
        order."""
        taken = [held for held in self._put_down if wanted(held)]
        self._put_down = [held for held in self._put_down if not wanted(held)]
        for _ in range(self.waiting.qsize()):
            try:
                work = self.waiting.get_nowait()
            except Empty:
                break
            if not isinstance(work, Held):
                if work is not None:
                    work()
            elif wanted(work):
                taken.append(work)
            else:
                self.waiting.put(work)
        return taken


class _Slot(threading.Thread):
    def __init__(self, slots: Slots, executor: Executor, on_finished: Callable[[], None], number: int) -> None:
        super().__init__(name=f"djqueue-slot-{number}", daemon=True)
        self.current: Held | None = None
        self._slots = slots
        self._executor = executor
        self._on_finished = on_finished
        self._aimed_at: Held | None = None

    def run(self) -> None:
        waiting = self._slots.waiting
        while True:
            try:
                work = waiting.get()
                if work is None:
                    break
                if isinstance(work, Held):
                    self._job(work)
                else:
                    _call(work)
            except JobInterrupt:
                continue  # sent into the thread in the moment between two jobs; it belongs to none
        handler_db.close_all()

    def _job(self, held: Held) -> None:
        self.current = held
        try:
            held.outcome = self._executor.run(held)
        except JobInterrupt as late:
            held.outcome = _forced(late)
        except BaseException as error:  # in what surrounds the handler; the slot must live on
            log.exception("a job's surroundings failed job=%s", held.job.id)
            held.outcome = Failed(describe(error), kind="fault")
        finally:
            is_out = False
            while not is_out:
                try:
                    is_out = self._let_go(held)
                except JobInterrupt:
                    continue  # what it was sent for has ended; the outcome stands, or is made below
            if held.outcome is None:
                held.outcome = _forced(JobTimeout() if held.forced == "timeout" else JobCancelled())
            held.ended = held.ended or time.monotonic()
            held.page.end(held.index)
            self._slots.finished.append(held)
            self._on_finished()

    def _let_go(self, held: Held) -> bool:
        """From here on nothing can be sent into the thread for this job, and what was sent is taken back."""
        self.current = None
        while self._aimed_at is held:
            time.sleep(0)
        if held.forced:
            _send(self.ident, None)
        return True

    def force(self, held: Held, why: str) -> None:
        """Send an exception into the thread if it runs this job. Called by the main thread.

        It takes aim first and looks then; the thread lets go first and then waits while somebody aims: whoever comes
        second sees the other, so that no exception hits the next job. There is no lock, which the exception might
        leave held.
        """
        self._aimed_at = held
        if self.current is held:
            held.forced = why
            if not held.is_isolated:  # else whoever watches its process sees it
                _send(self.ident, JobTimeout if why == "timeout" else JobCancelled)
        self._aimed_at = None


def _call(work: Callable[[], None]) -> None:
    """Do a piece of work beside the jobs, such as telling a signal's receivers; it harms nobody."""
    try:
        work()
    except Exception:
        log.exception("work beside the jobs failed")
    handler_db.reset_after()


def _forced(error: BaseException) -> Outcome:
    if isinstance(error, JobCancelled):
        return Cancelled("cancelled while it ran")
    return Failed(describe(error), kind="timeout")


def _send(thread: int | None, error: type[BaseException] | None) -> None:
    """Let a thread raise an exception at its next step in Python code; None takes back one that is still to come."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread or 0), None if error is None else ctypes.py_object(error)
    )
