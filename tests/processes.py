"""Real worker processes: start them, look at their children, signal them, kill the whole tree."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from testproject.embedded.launch import die_with_parent
from tests.helpers import eventually

ROOT = Path(__file__).resolve().parent.parent


class Supervisor:
    """A `manage.py runworker` (or another command) in a process group of its own, with its output in a file."""

    def __init__(self, process: subprocess.Popen[bytes], output_file: Path) -> None:
        self._process = process
        self._output_file = output_file

    @classmethod
    def start(
        cls,
        *args: str,
        env: Mapping[str, str] | None = None,
        command: str = "runworker",
        folder: Path | None = None,
        code: Path = ROOT,
    ) -> Self:
        """Start `manage.py command args`; `env` is added to this process's environment. It dies with this process.

        `code` is where the project lies: another one than this for workers of another release.
        """
        output_file = Path(tempfile.mkstemp(prefix=f"{command}-", suffix=".log", dir=folder)[1])
        with output_file.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-u", "manage.py", command, *args],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=code,
                env={**os.environ, **(env or {})},
                start_new_session=True,
                preexec_fn=die_with_parent(os.getpid(), signal.SIGKILL) if sys.platform == "linux" else None,
            )
        return cls(process, output_file)

    @property
    def pid(self) -> int:
        """Return the process id of the parent, which is also the id of the group."""
        return self._process.pid

    def children(self) -> list[int]:
        """Return the process ids of the living direct children, oldest first."""
        return children_of(self.pid)

    def tree(self) -> list[int]:
        """Return the process ids of the parent and of all that descend from it."""
        return [self.pid, *descendants_of(self.pid)]

    def is_running(self) -> bool:
        """Tell whether the parent has not ended yet."""
        return self._process.poll() is None

    def signal(self, number: signal.Signals, *, group: bool = False) -> None:
        """Send a signal to the parent, or to the whole group as a terminal does."""
        if group:
            os.killpg(self.pid, number)
        else:
            self._process.send_signal(number)

    def kill_tree(self) -> None:
        """Kill the parent and all its descendants with signal 9; return when none of them is alive."""
        found = self.tree() if self.is_running() else []
        with ignoring_the_dead():
            os.killpg(self.pid, signal.SIGKILL)
        for pid in found[1:]:  # those that left the group
            with ignoring_the_dead():
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        eventually(lambda: not any(is_alive(pid) for pid in found), within=10, message=f"some of {found} live on")

    def wait(self, within: float = 10.0) -> int:
        """Return the exit code (negative: the signal that ended it); fail with the output when it does not end."""
        eventually(lambda: not self.is_running(), within, message=lambda: f"{self.pid} runs on:\n{self.output()}")
        return self._process.returncode

    def output(self) -> str:
        """Return what it has written so far."""
        return self._output_file.read_text(encoding="utf-8", errors="replace")

    def wait_for_output(self, text: str, within: float = 10.0) -> str:
        """Return the output once the text is in it; fail when the process ends or the time is over before that."""
        eventually(
            lambda: text in self.output() or not self.is_running(),
            within,
            message=lambda: f"No {text!r} in:\n{self.output()}",
        )
        assert text in self.output(), f"Ended with {self._process.poll()} without {text!r}:\n{self.output()}"
        return self.output()


def children_of(pid: int) -> list[int]:
    """Return the living direct children of a process, from /proc; zombies are not living."""
    found = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and parent_of(entry) == pid]
    return sorted(found)


def descendants_of(pid: int) -> list[int]:
    """Return all living processes below one, parents before their children."""
    children = children_of(pid)
    return children + [below for child in children for below in descendants_of(child)]


def parent_of(entry: Path) -> int | None:
    """Return the parent of the process behind a /proc entry, None for a zombie or one that is gone."""
    fields = stat_fields(entry)
    return int(fields[1]) if fields and fields[0] not in "ZX" else None


def is_alive(pid: int) -> bool:
    """Tell whether the process exists and is no zombie."""
    fields = stat_fields(Path(f"/proc/{pid}"))
    return bool(fields) and fields[0] not in "ZX"


def is_stopped(pid: int) -> bool:
    """Tell whether the process is frozen by SIGSTOP."""
    return stat_fields(Path(f"/proc/{pid}"))[:1] == ["T"]


def stat_fields(entry: Path) -> list[str]:
    """Return the fields of /proc/<pid>/stat from the state on, an empty list where the process is gone."""
    try:
        return (entry / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


@contextmanager
def ignoring_the_dead() -> Iterator[None]:
    """Go on where a process to be killed has ended by itself."""
    try:
        yield
    except (ProcessLookupError, PermissionError):
        pass
