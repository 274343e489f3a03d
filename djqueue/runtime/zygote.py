"""The process that jobs' own processes are forked from: Django loaded, one thread, no connection.

    worker ── "start" and two ends ──► zygote ── fork ──► job's process      one job, then it ends
       ▲  └── "kill" ───────────────►   │                    │
       │◄───────────── how it ended ────┘                    │
       └◄──────────────────────── outcome ───────────────────┘

A worker has threads, and a fork of a process with threads inherits locks that nobody will release; so the worker forks
the zygote before its first thread. The zygote alone waits for and kills its children, so that no signal hits a process
id that has come again. Whatever ends the worker ends the zygote, and that ends the children.
"""

import gc
import os
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from djqueue.runtime import process

ORDER = struct.Struct(">cQ")
START, KILL = b"S", b"K"
STATUS = struct.Struct(">i")
CANNOT_FORK = 1 << 20
"""Stands in place of an exit code (negative: a signal) where there is no process."""

_OOM_SCORE = "500"

Birth = Callable[[socket.socket], None]


class ZygoteGone(OSError):
    """Nobody is left to fork: the worker has to be replaced."""


@dataclass(slots=True)
class Started:
    """The worker's ends of a job's process."""

    number: int
    channel: socket.socket
    """Job and outcome."""
    status: int
    """One exit code; nothing at all when the zygote has died."""

    def close(self) -> None:
        """Let go of both."""
        self.channel.close()
        os.close(self.status)


class Zygote:
    """The worker's hold on its zygote. Threads may share it."""

    def __init__(self, control: socket.socket, pid: int) -> None:
        self.pid = pid
        self._control = control
        self._lock = threading.Lock()
        self._last = 0

    @classmethod
    def start(cls, birth: Birth, numbers: Iterable[int]) -> "Zygote":
        """Fork it, from a process that has one thread; `birth` is the life of each child, `numbers` the signals that
        stop workers, which it leaves to its worker."""
        here, there = socket.socketpair()
        worker_pid = os.getpid()
        pid = os.fork()
        if pid == 0:
            here.close()
            process.live_as_child(worker_pid, lambda: _Server(there, birth, numbers).serve())
        there.close()
        return cls(here, pid)

    def birth(self) -> Started:
        """Let a new process begin; raise `ZygoteGone` where nobody can."""
        here, there = socket.socketpair()
        status, status_write = os.pipe()
        with self._lock:
            self._last += 1
            started = Started(self._last, here, status)
            try:
                socket.send_fds(self._control, [ORDER.pack(START, self._last)], [there.fileno(), status_write])
            except OSError as error:
                started.close()
                raise ZygoteGone(f"the zygote of this worker has gone: {error}") from error
            finally:
                there.close()
                os.close(status_write)
        return started

    def kill(self, number: int) -> None:
        """Let a process, and what it has started in its process group, be killed, if it still lives."""
        with self._lock, suppress(OSError):
            self._control.sendall(ORDER.pack(KILL, number))


class _Server:
    """The zygote's own loop."""

    def __init__(self, control: socket.socket, birth: Birth, numbers: Iterable[int]) -> None:
        self._control = control
        self._birth = birth
        self._numbers = list(numbers)
        self._pid = os.getpid()
        self._children: dict[int, tuple[int, int]] = {}
        """Number and status pipe by process id."""
        self._wake_read, self._wake_write = os.pipe()

    def serve(self) -> int:
        """Fork and bury until the worker has gone."""
        self._prepare()
        while True:
            ready, _, _ = select.select([self._control.fileno(), self._wake_read], [], [])
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
            self._bury()
            if self._control.fileno() in ready and not self._obey():
                for pid in self._children:
                    _kill_group(pid)
                return 0

    def _prepare(self) -> None:
        for number in self._numbers:
            signal.signal(number, signal.SIG_IGN)
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        gc.freeze()  # children touch no page of what they have inherited only to count it

    def _obey(self) -> bool:
        """Take one order; return False where the worker has gone."""
        try:
            message, handles, _, _ = socket.recv_fds(self._control, ORDER.size, 2)
        except ConnectionError:
            return False
        if len(message) < ORDER.size:
            return False
        order, number = ORDER.unpack(message)
        if order == START:
            self._fork(number, *handles)
        else:
            for pid in [pid for pid, (known, _) in self._children.items() if known == number]:
                _kill_group(pid)
        return True

    def _fork(self, number: int, channel: int, status: int) -> None:
        try:
            pid = os.fork()
        except OSError:
            _report(status, CANNOT_FORK)
            os.close(channel)
            return
        if pid == 0:
            os.close(status)
            self._leave_behind()
            process.live_as_child(self._pid, lambda: self._be_born(channel))
        with suppress(OSError):
            os.setpgid(pid, pid)
        os.close(channel)
        self._children[pid] = number, status

    def _bury(self) -> None:
        while self._children:
            try:
                pid, code = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in self._children:
                _report(self._children.pop(pid)[1], os.waitstatus_to_exitcode(code))

    def _leave_behind(self) -> None:
        """In a new child: let go of what is the zygote's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in self._numbers:
            signal.signal(number, signal.SIG_DFL)
        for end in (self._wake_read, self._wake_write, *(status for _, status in self._children.values())):
            os.close(end)
        self._control.close()

    def _be_born(self, channel: int) -> int:
        with suppress(OSError):
            os.setpgid(0, 0)  # signals to the supervisor's group are not for jobs, and kills reach what it starts
        _be_the_first_when_memory_ends()
        with socket.socket(fileno=channel) as line, suppress(EOFError, BrokenPipeError):  # the worker has gone
            self._birth(line)
        return 0


def _kill_group(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _report(status: int, code: int) -> None:
    with suppress(OSError):
        os.write(status, STATUS.pack(code))
    os.close(status)


def _be_the_first_when_memory_ends() -> None:
    """Rather this one job than its worker with all its neighbours."""
    if sys.platform == "linux":
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write(_OOM_SCORE)
