"""Run PostgreSQL's programs: as which user, in which environment, and how long.

PostgreSQL refuses to run as root, so root steps down to another user. The server must die with its parent, also after
kill -9: on Linux the kernel sends it a signal (PR_SET_PDEATHSIG); elsewhere, or when a thread that may end earlier
than the process starts it, a tiny watcher process waits for the end of a pipe.
"""

import ctypes
import os
import pwd
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from testproject.embedded.errors import EmbeddedServerError

STEP_DOWN_USERS = ("postgres", "nobody")
PR_SET_PDEATHSIG = 1

STOP_WITHIN_SECONDS = 30.0

# The watcher reads a pipe whose other end only its parent holds: an end without a word is the end of the parent.
# SIGINT asks PostgreSQL for a fast shutdown.
WATCHER = """
import os, signal, sys
if not sys.stdin.buffer.read():
    os.kill(int(sys.argv[1]), signal.SIGINT)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemUser:
    """Name the user that PostgreSQL's programs run as when root starts them."""

    name: str
    uid: int
    gid: int


def step_down_user() -> SystemUser | None:
    """Return the user that root steps down to; None for everybody else, who run the programs themselves."""
    if os.geteuid() != 0:
        return None
    for name in STEP_DOWN_USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return SystemUser(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise EmbeddedServerError(
        f"PostgreSQL does not run as root, and none of the users {', '.join(STEP_DOWN_USERS)} exists. "
        "Create one of them, or start this as an ordinary user."
    )


def spawn(
    command: Sequence[str | Path],
    *,
    user: SystemUser | None,
    cwd: Path,
    log: IO[bytes],
    before_exec: Callable[[], None] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program as `user` in a session of its own, with its output in `log`."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=clean_environment(),
        start_new_session=True,
        preexec_fn=before_exec,
        user=user.uid if user else None,
        group=user.gid if user else None,
        extra_groups=[] if user else None,
    )


class BoundProcess:
    """A program that ends when this process ends, however that happens."""

    def __init__(self, command: Sequence[str | Path], *, user: SystemUser | None, cwd: Path, log: IO[bytes]) -> None:
        self._owner = os.getpid()
        self._watcher: Watcher | None = None
        if sys.platform == "linux" and threading.current_thread() is threading.main_thread():
            self._process = spawn(command, user=user, cwd=cwd, log=log, before_exec=die_with_parent(self._owner))
        else:
            self._process = spawn(command, user=user, cwd=cwd, log=log)
            self._watcher = Watcher(self._process.pid)

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    @property
    def belongs_here(self) -> bool:
        """Tell whether this is the process that started the program, not a fork of it."""
        return self._owner == os.getpid()

    def ended_within(self, seconds: float) -> bool:
        """Wait for the end of the program at most that long; tell whether it has come."""
        try:
            self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    @property
    def exit_code(self) -> int | None:
        """Return the exit code, None while the program runs."""
        return self._process.poll()

    def end(self, first: signal.Signals) -> None:
        """Ask the program to stop, then insist, then kill it; return when it is gone."""
        for number in (first, signal.SIGQUIT, signal.SIGKILL):
            if self.exit_code is None:
                self._process.send_signal(number)
                self.ended_within(STOP_WITHIN_SECONDS)
        if self._watcher is not None:
            self._watcher.dismiss()
            self._watcher = None


class Watcher:
    """A process that signals `pid` when this process is gone."""

    def __init__(self, pid: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", WATCHER, str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """End the watcher without a signal to anybody."""
        self._process.communicate(b"dismissed")


def die_with_parent(parent: int, number: signal.Signals = signal.SIGINT) -> Callable[[], None]:
    """Return what the child runs between fork and exec, to get the signal when its parent ends.

    subprocess changes the user before it calls this, as it must: a change of user clears the signal again.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def ask_kernel() -> None:
        libc.prctl(PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # the parent died before the kernel knew
            os._exit(1)

    return ask_kernel


def clean_environment() -> dict[str, str]:
    """Return the environment without what would change PostgreSQL's defaults."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}


def run_quietly(command: Sequence[str | Path], user: SystemUser | None) -> subprocess.CompletedProcess[bytes]:
    """Run a program as `user` to its end, without output."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=clean_environment(),
        user=user.uid if user else None,
        group=user.gid if user else None,
        extra_groups=[] if user else None,
    )
