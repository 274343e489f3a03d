"""Jobs in processes of their own, as their worker sees them: which, and how one is watched to its end.

The slot's thread stays with its job: it waits for the outcome, kills the process at the time limit or when the job is
cancelled or lost, and says what a process that crashed can't say. The lease, its heartbeats and the fencing are the
worker's as ever. Invariant: the slot is free again only when the process has ended.
"""

import logging
import os
import select
import signal
import socket
import time
from collections.abc import Callable

from djqueue.api import registry
from djqueue.conf import Options
from djqueue.exceptions import HandlerFault, JobTimeout
from djqueue.policy.errors import FailureText, describe
from djqueue.runtime import wire
from djqueue.runtime.held import Held
from djqueue.runtime.outcome import Cancelled, Failed, NotStarted, Outcome, Stale
from djqueue.runtime.plan import Plan
from djqueue.runtime.slot_table import STOPPING, now_ns
from djqueue.runtime.zygote import CANNOT_FORK, STATUS, Started, Zygote, ZygoteGone

log = logging.getLogger("djqueue")

LOOK_SECONDS = 0.1
"""How often a stop, a cancelled job and a lost lease are looked for."""

PROCESS = "process"

ORPHAN_SECONDS = 2.0

UNFORKED_SECONDS = 1.0


def is_wanted(plan: Plan) -> bool:
    """Tell whether any known task, or any queue of the settings, wants processes of its own."""
    return any(task.isolation == PROCESS for task in registry.tasks()) or any(
        settings.isolation == PROCESS for settings in plan.options.queues.values()
    )


class Isolation:
    """Runs jobs in processes that a zygote forks."""

    def __init__(self, options: Options, zygote: Zygote | None, is_stopping: Callable[[], bool]) -> None:
        self._queues = {name for name, settings in options.queues.items() if settings.isolation == PROCESS}
        self._zygote = zygote
        self._is_stopping = is_stopping

    def takes(self, held: Held) -> bool:
        """Tell whether this job gets a process of its own."""
        return held.task.isolation == PROCESS or held.job.queue_name in self._queues

    def run(self, held: Held) -> Outcome:
        """Run a job that was written as started; return its outcome."""
        held.is_isolated, held.is_async = True, False
        if self._zygote is None:
            return _unprepared()
        try:
            started = self._zygote.birth()
        except ZygoteGone as error:
            return _replace_this_worker(error)
        watch = _Watch(held, started, self._zygote, self._is_stopping)
        try:
            return watch.run()
        finally:
            started.close()


class _Watch:
    """One job in its process."""

    def __init__(self, held: Held, started: Started, zygote: Zygote, is_stopping: Callable[[], bool]) -> None:
        self._held = held
        self._started = started
        self._zygote = zygote
        self._is_stopping = is_stopping
        self._answer = wire.Incoming()
        self._why = ""
        """Why the process was killed: `timeout`, `cancel` or `lost`."""
        self._is_open = True
        """The process has not closed its end yet."""
        self._poll = select.poll()
        self._poll.register(started.channel, select.POLLIN)
        self._poll.register(started.status, select.POLLIN)

    def run(self) -> Outcome:
        """Hand the job over, wait for the end of the process, and say how the attempt ended."""
        try:
            wire.send(self._started.channel, wire.job_text(self._held))
        except OSError:
            pass  # it died in its first moment; its exit code says how
        code: int | None = None
        while code is None:
            code = self._turn()
        self._hear(last=True)
        return self._outcome(code)

    def _turn(self) -> int | None:
        """Wait for news; return the exit code once the process has ended."""
        found = dict(self._poll.poll(self._pause() * 1000))
        if self._started.channel.fileno() in found:
            self._hear()
        if self._started.status in found:
            said = os.read(self._started.status, STATUS.size)
            self._poll.unregister(self._started.status)
            code: int = STATUS.unpack(said)[0] if said else self._orphaned()
            return code
        self._pass_on()
        self._kill_if_need_be()
        return None

    def _orphaned(self) -> int:
        """Its zygote was killed, and it with that, a moment later: wait for that moment."""
        until = time.monotonic() + ORPHAN_SECONDS
        while self._is_open and time.monotonic() < until:
            if self._poll.poll(LOOK_SECONDS * 1000):
                self._hear()
        return -signal.SIGKILL

    def _hear(self, *, last: bool = False) -> None:
        """Read what has come of the outcome: one piece, or all that is left of a process that has ended."""
        while True:
            try:
                piece = self._started.channel.recv(1 << 20, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                piece = b""
            self._answer.feed(piece)
            if not piece:
                self._close()
                return
            if not last:
                return

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._poll.unregister(self._started.channel)

    def _pause(self) -> float:
        left = (self._held.deadline_ns - now_ns()) / 1e9
        return max(0.0, min(LOOK_SECONDS, left)) if not self._why else LOOK_SECONDS

    def _pass_on(self) -> None:
        """Let the process see a stop, and take over the later deadline that its proof of life has written."""
        held = self._held
        if self._is_stopping():
            held.page.set(STOPPING, 1)
        held.deadline_ns = held.page.deadline(held.index) or held.deadline_ns

    def _kill_if_need_be(self) -> None:
        held = self._held
        if self._why:
            return
        if held.is_lost:
            self._why = "lost"
        elif held.forced:
            self._why = held.forced
        elif now_ns() >= held.deadline_ns:
            self._why = "timeout"
        if self._why:
            log.warning("%s, ending the process job=%s task=%s", self._why, held.job.id, held.job.task_name)
            self._zygote.kill(self._started.number)

    def _outcome(self, code: int) -> Outcome:
        said = self._answer.text
        if said is not None:
            try:
                return wire.outcome_of(said)
            except ValueError as fault:
                log.error("a job's process has sent rubbish job=%s error=%s", self._held.job.id, fault)
        if code == CANNOT_FORK:
            log.error("no process for a job, given back job=%s", self._held.job.id)
            time.sleep(UNFORKED_SECONDS)  # in the slot's own thread: it claims no other meanwhile
            return NotStarted()
        match self._why:
            case "lost":
                return Stale()
            case "cancel":
                return Cancelled("cancelled while it ran")
            case "timeout":
                return Failed(describe(JobTimeout()), kind="timeout")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        text = FailureText(
            exception="djqueue.WorkerLost", message=f"the job's own process was lost: {how}", traceback=""
        )
        return Failed(text, kind="lost", reason=f"worker lost: {how}")


def _unprepared() -> Outcome:
    fault = HandlerFault(
        "isolation='process': expected the task to be known when its worker started; import its module at the start "
        "(a `tasks` module of an app, or OPTIONS['task_modules'])"
    )
    return Failed(describe(fault), kind="fault")


def _replace_this_worker(error: ZygoteGone) -> Outcome:
    """It can't fork another zygote, since it has threads by now; it ends in order, and its parent starts a new one."""
    log.error("%s; replacing this worker", error)
    os.kill(os.getpid(), signal.SIGTERM)
    return NotStarted()
