"""The same crash for everybody: kill -9 under a running job, a job that kills its process, a job that runs for long.

    python -m benchmarks.kill9 [--peers pgqueuer,…] [--peers-env FOLDER] [--patience 330] [--long 90] [--json]

djqueue and its peers run with their default settings, one process with room for ten jobs at a time (fewer where that is
their default). Who ends is started again at once, as by an init system. Three trials, in each a database of its own:

    crash    a job of 20 s has run for a second when its process is killed: after how long does it start again?
    poison   ten jobs, the fifth kills its process: how often is it started, what becomes of the nine beside it?
    long     a job that takes `--long` seconds, and nobody is killed: is it started once or twice?

All contenders take their trials at the same time: nearly all of it is waiting. `--patience` is how long the first two
go on. Who can't be installed is named with the reason. Peers are not judged; the exit code is 1 if djqueue loses a job
or starts its poison more often than it may.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.compare import environment, ledger, programs, trial
from benchmarks.compare.databases import Databases, fresh_redis, new_ledger
from benchmarks.compare.programs import Contender, clean_environment
from benchmarks.setting import alone, fresh_server, machine

PEERS = ("pgqueuer", "django-ox", "dj-queue", "steady-queue", "procrastinate", "django-tasks-db", "celery")
HOLD_SECONDS = 20
START_WITHIN_SECONDS = 60
JOBS = 10
MAX_ATTEMPTS = 8
TIMEOUT_SECONDS = 300
"""djqueue's default limit of an attempt: what takes longer is ended, and tried again."""
LOOK_SECONDS = 0.05


class Worker:
    """A contender's worker, started again whenever it ends."""

    def __init__(self, contender: Contender, env: Mapping[str, str]) -> None:
        self._contender, self._env = contender, env
        self._process = self._start()

    def look(self) -> None:
        """Start it again if it has ended."""
        if self._process.poll() is not None:
            self._process = self._start()

    def end(self) -> None:
        """Kill all of it."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [str(self._contender.python), "-m", self._contender.module, "worker", "1", str(JOBS), "short"]
        nowhere = subprocess.DEVNULL
        return subprocess.Popen(
            command, cwd=programs.ROOT, env=dict(self._env), stdout=nowhere, stderr=nowhere, start_new_session=True
        )


class Trial:
    """One trial of one contender: its store, its ledger, its worker."""

    def __init__(self, contender: Contender, env: Mapping[str, str], path: Path, kind: str) -> None:
        self._contender = contender
        self._env = {**clean_environment(), **env, trial.VARIABLE: kind}
        self._path = path

    def starts(self) -> list[tuple[int, int, float]]:
        """All starts and ends so far."""
        return list(ledger.read(self._path).starts)

    @contextmanager
    def running(self, jobs: int) -> Iterator[Worker]:
        """Enqueue so many jobs and run the worker meanwhile."""
        process = programs.start(self._contender, self._env, "bulk", jobs, 0, "short")
        programs.answer(self._contender, process)
        worker = Worker(self._contender, self._env)
        try:
            yield worker
        finally:
            worker.end()

    def wait(self, worker: Worker, seconds: float, starts: int) -> bool:
        """Wait until the first job was started so often; tell whether it was."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            worker.look()
            if sum(number == 0 for number, _, _ in self.starts()) >= starts:
                return True
            time.sleep(LOOK_SECONDS)
        return False


def main() -> int:
    """Let all take their trials, and print a table."""
    options = _options()
    names = options.peers.split(",") if options.peers else list(PEERS)
    taking_part, skipped = environment.contenders(names, options.peers_env)
    taking_part = [each for each in taking_part if each.peer.worker is not None and each.peer.name != "bare"]
    with alone(), fresh_server() as server, tempfile.TemporaryDirectory() as folder:
        databases = Databases(server)
        templates = {each.peer.name: _template(databases, each) for each in taking_part}
        with ThreadPoolExecutor(len(taking_part) * 3) as pool:
            futures = {
                (each.peer.name, kind): pool.submit(
                    _take, kind, each, databases, templates[each.peer.name], options, folder
                )
                for each in taking_part
                for kind in ("crash", "poison", "long")
            }
            found = {key: _result(future) for key, future in futures.items()}
        facts = machine()
    rows = [
        {"name": each.peer.label, "version": each.version, **_merged(found, each.peer.name)} for each in taking_part
    ]
    said = {"benchmark": "kill9", "patience_seconds": options.patience, "long_seconds": options.long}
    said |= {"rows": rows, "skipped": skipped, "machine": facts}
    print(json.dumps(said, indent=2) if options.json else _words(said))
    return _verdict(next(row for row in rows if row["name"] == "djqueue"), options.long)


def _template(databases: Databases, contender: Contender) -> str:
    def prepare(env: dict[str, str]) -> None:
        if contender.peer.store == "postgresql":
            process = programs.start(contender, {**clean_environment(), **env}, "setup")
            programs.answer(contender, process)

    return databases.template(f"kill9_{contender.peer.name}", prepare)


def _take(
    kind: str, contender: Contender, databases: Databases, template: str, options: argparse.Namespace, folder: str
) -> dict[str, Any]:
    path, env = new_ledger(folder)
    stored = fresh_redis() if contender.peer.store == "redis" else databases.fresh(template)
    with stored as more:
        match kind:
            case "crash":
                return _crash(Trial(contender, {**env, **more}, path, f"hold:{HOLD_SECONDS}"), options.patience)
            case "poison":
                return _poison(Trial(contender, {**env, **more}, path, "poison"), options.patience)
            case _:
                return _long(Trial(contender, {**env, **more}, path, f"hold:{options.long}"), options.long)


def _crash(one: Trial, patience: float) -> dict[str, Any]:
    with one.running(1) as worker:
        if not one.wait(worker, START_WITHIN_SECONDS, 1):
            return {"again_after": "never started"}
        time.sleep(1)
        pid = one.starts()[0][1]
        killed = time.time()
        os.kill(pid, signal.SIGKILL)
        if not one.wait(worker, patience, 2):
            return {"again_after": f"not within {patience:.0f} s"}
        return {"again_after": f"{one.starts()[1][2] - killed:.1f} s"}


def _poison(one: Trial, patience: float) -> dict[str, Any]:
    with one.running(JOBS) as worker:
        one.wait(worker, patience, 1_000_000)
        starts = Counter(number for number, _, _ in one.starts())
    neighbours = [number for number in range(JOBS) if number != trial.POISON]
    return {
        "poison_starts": starts[trial.POISON],
        "neighbours_done": sum(starts[number + trial.ENDED] > 0 for number in neighbours),
        "neighbours_done_twice": sum(starts[number + trial.ENDED] > 1 for number in neighbours),
        "neighbour_starts": sum(starts[number] for number in neighbours),
    }


def _long(one: Trial, seconds: float) -> dict[str, Any]:
    with one.running(1) as worker:
        one.wait(worker, START_WITHIN_SECONDS, 1)
        one.wait(worker, seconds + 5, 1_000_000)
        starts = Counter(number for number, _, _ in one.starts())
    return {"long_starts": starts[0], "long_ends": starts[trial.ENDED]}


def _result(future: Any) -> dict[str, Any]:
    try:
        found: dict[str, Any] = future.result()
    except Exception as error:
        return {"problem": f"{type(error).__name__}: {error}"[-300:]}
    return found


def _merged(found: Mapping[tuple[str, str], dict[str, Any]], name: str) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for kind in ("crash", "poison", "long"):
        merged |= found[name, kind]
    return merged


def _words(said: Mapping[str, Any]) -> str:
    columns = {
        "name": "",
        "version": "version",
        "again_after": "starts again after",
        "poison_starts": "poison started",
        "neighbours_done": "of 9 neighbours done",
        "neighbours_done_twice": "done twice",
        "neighbour_starts": "starts of neighbours",
        "long_starts": f"starts of a {said['long_seconds']:.0f} s job",
    }
    lines = ["| " + " | ".join(columns.values()) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(str(row.get(key, "?")) for key in columns) + " |" for row in said["rows"]]
    lines += [f"{row['name']}: {row['problem']}" for row in said["rows"] if "problem" in row]
    lines += [f"skipped: {name}: {why}" for name, why in said["skipped"].items()]
    lines.append(f"patience {said['patience_seconds']:.0f} s; {said['machine']}")
    return "\n".join(lines)


def _verdict(row: Mapping[str, Any], long: float) -> int:
    is_good = row.get("neighbours_done") == JOBS - 1 and row.get("poison_starts", 99) <= MAX_ATTEMPTS
    is_again = str(row.get("again_after")).endswith(" s") and "not" not in str(row.get("again_after"))
    return 0 if is_good and is_again and (row.get("long_starts") == 1 or long >= TIMEOUT_SECONDS) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.kill9")
    parser.add_argument("--peers", default="", help=f"some of {','.join(PEERS)} (default: all)")
    parser.add_argument("--peers-env", type=Path, help="the peers' virtualenv (default: made under ~/.cache)")
    parser.add_argument("--patience", type=float, default=330)
    parser.add_argument("--long", type=float, default=90)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
