"""The supervisors, started again when they end, as an init system would; and the pids to strike at."""

import contextlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.chaos.stage import Stage

ROOT = Path(__file__).resolve().parent.parent.parent
LEASE_SECONDS = 6
OPTIONS = {
    "task_modules": ["testproject.trials.turmoil"],
    "lease_seconds": LEASE_SECONDS,
    "poll_seconds": 0.5,
    "grace_seconds": 5,
    "retry_budget_ratio": None,
}
LOOK_SECONDS = 0.2


class Fleet:
    """Some supervisors with two worker processes each."""

    def __init__(self, stage: Stage, count: int) -> None:
        self._stage = stage
        self._count = count
        self._ends = threading.Event()
        self.parents: list[subprocess.Popen[bytes]] = []
        self.log = stage.folder / "workers.log"
        self.ledger = stage.folder / "ledger"
        self.shift = stage.folder / "shift"
        self.shift.write_bytes(struct.pack("l", 0))
        self._preload = self._clock_library()
        self._keeps = threading.Thread(target=self._keep)

    def __enter__(self) -> Self:
        self.parents = [self._start(number) for number in range(self._count)]
        self._keeps.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._keeps.join()
        for parent in self.parents:
            parent.send_signal(signal.SIGTERM)
        for parent in self.parents:
            try:
                parent.wait(30)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(parent.pid, signal.SIGKILL)
                parent.wait()

    def a_parent(self, rng: random.Random) -> int:
        """The pid of a supervisor."""
        return rng.choice(self.parents).pid

    def a_child(self, rng: random.Random) -> int | None:
        """The pid of a keeper or of a worker, None while a supervisor is just starting."""
        found = children_of(self.a_parent(rng))
        return rng.choice(found) if found else None

    def set_clock(self, seconds: int) -> None:
        """Shift the wall clock of half the supervisors."""
        with self.shift.open("r+b") as file:
            file.write(struct.pack("l", seconds))

    def _keep(self) -> None:
        while not self._ends.wait(LOOK_SECONDS):
            for number, parent in enumerate(self.parents):
                if parent.poll() is not None:
                    self.parents[number] = self._start(number)

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        env = {
            **os.environ,
            "DATABASE_URL": self._stage.url,
            "DJQUEUE_OPTIONS": json.dumps(OPTIONS),
            "TRIALS_LEDGER": str(self.ledger),
        }
        if number % 2 and self._preload is not None:
            env |= {"LD_PRELOAD": str(self._preload), "CHAOS_CLOCK_SHIFT": str(self.shift)}
        command = [sys.executable, "manage.py", "runworker", "--processes", "2", "--threads", "4"]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command, cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def _clock_library(self) -> Path | None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            self._stage.missing["shift the clock"] = "there is no C compiler"
            return None
        target = self._stage.folder / "clock_shift.so"
        source = Path(__file__).with_name("clock_shift.c")
        made = subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", target, source, "-ldl"], capture_output=True, check=False
        )
        if made.returncode:
            self._stage.missing["shift the clock"] = made.stderr.decode(errors="replace").strip()
            return None
        return target


def children_of(pid: int) -> list[int]:
    """The living direct children of a process."""
    try:
        words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [int(word) for word in words]
