"""One run of a contender: a fresh store, a ledger, its programs, and the proof that each job ran once."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.compare import ledger, programs
from benchmarks.compare.databases import Databases, fresh_redis, new_ledger
from benchmarks.compare.programs import Contender, RunFailed, clean_environment

STUCK_SECONDS = 30
LOOK_AGAIN_SECONDS = 0.02


class Run:
    """One run of one contender: a fresh store, a ledger, programs."""

    def __init__(self, contender: Contender, databases: Databases, env: Mapping[str, str], path: Path) -> None:
        self.contender = contender
        self.databases = databases
        self.ledger = path
        self.peer = contender.peer
        self.env = {**clean_environment(), **env}
        self._workers: list[subprocess.Popen[str]] = []

    @property
    def database(self) -> str:
        """The name of its database."""
        return self.env["COMPARE_DATABASE"]

    def call(self, verb: str, *values: object) -> dict[str, Any]:
        """Run a verb to its end and return its answer."""
        with self.start(verb, *values) as process:
            return self.answer(process)

    def start(self, verb: str, *values: object) -> subprocess.Popen[str]:
        """Start a verb; `answer` waits for it."""
        return programs.start(self.contender, self.env, verb, *values)

    def answer(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """Wait for a verb's end and return its answer."""
        return programs.answer(self.contender, process)

    @contextmanager
    def worker(self, processes: int = 1, concurrency: int | None = None, task: str = "noop") -> Iterator[None]:
        """Run its worker meanwhile; at the end stop it gracefully."""
        concurrency = concurrency or self.peer.drain_concurrency
        if self.peer.one_at_a_time and task != "noop":
            processes = concurrency
        copies = 1 if self.peer.runs_processes else processes
        each = processes if self.peer.runs_processes else 1
        self._workers = [self.start("worker", each, concurrency, task) for _ in range(copies)]
        try:
            yield
            self._check_workers()
        finally:
            for process in self._workers:
                programs.stop(process)
            self._workers = []

    def wait_for(self, jobs: int, within: float = 600, until: float = float("inf")) -> None:
        """Wait until so many jobs have started, or until a moment; fail where nothing moves."""
        deadline, seen, moved = time.monotonic() + within, -1, time.monotonic()
        while (now := ledger.count(self.ledger)) < jobs:
            if now != seen:
                seen, moved = now, time.monotonic()
            self._check_workers()
            if time.time() > until:
                return
            if time.monotonic() > deadline or time.monotonic() - moved > STUCK_SECONDS:
                raise RunFailed(f"{self.peer.label}: expected {jobs} starts, got {now}, and nothing moves")
            time.sleep(LOOK_AGAIN_SECONDS)

    def _check_workers(self) -> None:
        for process in self._workers:
            if process.poll() is not None:
                raise RunFailed(f"{self.peer.label}: its worker ended by itself\n{programs.errors_of(process)}")

    def wait_for_end(self, jobs: int, within: float = 600) -> float:
        """Wait until so many jobs have started and its tables hold none that has not ended; return that moment."""
        self.wait_for(jobs, within)
        deadline = time.monotonic() + STUCK_SECONDS
        while self.left():
            if time.monotonic() > deadline:
                raise RunFailed(f"{self.peer.label}: {self.left()} of {jobs} jobs ran but do not end in its own tables")
            time.sleep(LOOK_AGAIN_SECONDS)
        return time.time()

    def left(self) -> int:
        """Return how many jobs its own tables still hold as not ended."""
        if not self.peer.left:
            return 0
        return int(str(self.databases.execute(self.peer.left, self.database)[0][0]))

    def account(self, jobs: int | None) -> ledger.Account:
        """Read the ledger once the worker has ended; fail unless each of `jobs` ran once (None: none ran twice)."""
        account = ledger.read(self.ledger)
        if account.doubles:
            raise RunFailed(f"{self.peer.label}: {len(account.doubles)} jobs ran twice, such as {account.doubles[:5]}")
        if jobs is not None and len(account.starts) != jobs:
            raise RunFailed(f"{self.peer.label}: expected {jobs} starts, got {len(account.starts)}")
        if jobs is not None and (left := self.left()):
            raise RunFailed(f"{self.peer.label}: {left} of {jobs} jobs ran but have not ended in its own tables")
        return account


@contextmanager
def fresh_run(contender: Contender, databases: Databases, kind: str = "plain", **ballast: int) -> Iterator[Run]:
    """Yield a run on a fresh store; `ballast` says how many `finished` and `scheduled` jobs are there already."""
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        os.chmod(folder, 0o755)
        path, env = new_ledger(folder)
        if contender.peer.store == "redis":
            with fresh_redis() as redis:
                yield Run(contender, databases, {**env, **redis}, path)
            return
        template = _template(contender, databases, kind, ballast)
        with databases.fresh(template) as database:
            yield Run(contender, databases, {**env, **database}, path)


def _template(contender: Contender, databases: Databases, kind: str, ballast: Mapping[str, int]) -> str:
    """Make the contender's tables once, and from them a template with ballast."""
    peer = contender.peer
    plain = databases.template(peer.name, lambda env: _set_up(contender, env))
    if not ballast:
        return plain

    def load(env: dict[str, str]) -> None:
        name = env["DATABASE_URL"].rsplit("/", 1)[1]
        for what, count in ballast.items():
            statement = getattr(peer, what)
            if statement:
                databases.execute(statement.format(count=count, seconds=86_400), name)
        databases.execute("vacuum (analyze)", name)

    return databases.template(f"{peer.name}_{kind}", load, base=plain)


def _set_up(contender: Contender, env: Mapping[str, str]) -> None:
    with programs.start(contender, {**clean_environment(), **env}, "setup") as process:
        programs.answer(contender, process)
