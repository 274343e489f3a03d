"""A partner that goes down under load: real workers call it over HTTP, with retries alone and behind a circuit breaker.

    python -m benchmarks.partner [--rate 40] [--down 15] [--json]

Jobs come at a steady rate while the partner is up, down (503) and up again; then all that is left is run. Every
hundredth job asks for something that the partner does not know (404) and should die; no other should. Counted is what
the partner's socket saw. After the recovery, requests within each second are held against what the ramp allows in that
second, a tenth of a second's burst and one job included. Exit code 1 where one of these fails: at least 95 % fewer
calls while it is down; the ramp is never passed; nothing is dead that should not be, and nothing is left.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.setting import alone, fresh_server, machine
from benchmarks.stub import MISSING, Request, StubPartner
from djqueue.circuitconf import CircuitOptions
from djqueue.policy.circuit import BURST_SECONDS

ROOT = Path(__file__).resolve().parent.parent
UP_SECONDS = 4.0
AFTER_SECONDS = 8.0
DRAIN_SECONDS = 120.0
WINDOW_SECONDS = 1.0
LOOK_SECONDS = 0.02
EVERY_MISSING = 100
BREAKER: dict[str, Any] = {
    "consecutive_failures": 10,
    "open_seconds": 1,
    "max_open_seconds": 4,
    "probes": 2,
    "ramp_per_second": 8,
    "ramp_double_seconds": 3,
    "ramp_seconds": 18,
}
WITHOUT: dict[str, Any] = {"retry_budget_ratio": None}


def main() -> int:
    """Measure both, print, and judge."""
    options = _options()
    with alone(), fresh_server():
        bare = _run(options, "fetch_bare", WITHOUT)
        breaker = _run(options, "fetch", {"circuits": {"partner": BREAKER}})
        report = _report(options, bare, breaker)
    print(json.dumps(report, indent=2) if options.json else _words(report))
    return 0 if all(report["holds"].values()) else 1


def _run(options: argparse.Namespace, task_name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Let the partner go down and come back under load; return what it saw, and what became of the jobs."""
    from testproject.trials import partner

    task = getattr(partner, task_name)
    _empty()
    with StubPartner() as stub, _workers(options, stub, settings), _watched_circuit() as ramps:
        began = time.time()
        jobs = _load(task, options.rate, UP_SECONDS)
        stub.is_down = True
        down_at = time.time()
        jobs += _load(task, options.rate, options.down, jobs)
        stub.is_down = False
        up_at = time.time()
        jobs += _load(task, options.rate, AFTER_SECONDS, jobs)
        left = _drain()
        ended = time.time()
    requests = list(stub.requests)
    return {
        "jobs": jobs,
        "calls": len(requests),
        "calls_while_down": sum(1 for request in requests if down_at <= request.at < up_at),
        "peak_per_second_after": _peak([request for request in requests if request.at >= up_at]),
        "done_after_recovery_seconds": round(ended - up_at, 1),
        "seconds": round(ended - began, 1),
        "ramp": _ramp(requests, ramps),
        "left": left,
        **_deaths(),
    }


def _load(task: Any, rate: float, seconds: float, first: int = 0) -> int:
    """Enqueue at a steady rate for so long; return how many."""
    began, made = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        due = int(passed * rate) + 1 - made
        if due > 0:
            task.enqueue_many([(_path(first + made + number),) for number in range(due)])
            made += due
        time.sleep(0.05)
    return made


def _path(number: int) -> str:
    return f"{MISSING if number % EVERY_MISSING == 0 else '/thing'}/{number}"


@contextmanager
def _workers(options: argparse.Namespace, stub: StubPartner, settings: dict[str, Any]) -> Iterator[None]:
    given = {"task_modules": ["testproject.trials.partner"], "poll_seconds": 0.2, **settings}
    env = {**os.environ, "PARTNER_URL": stub.url, "DJQUEUE_OPTIONS": json.dumps(given)}
    command = [sys.executable, "manage.py", "runworker", "--processes", "2", "--threads", str(options.threads)]
    log = None if options.verbose else subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log)
    try:
        _wait_for_workers()
        yield
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def _watched_circuit() -> Iterator[list[tuple[str, float]]]:
    """Collect the states of the circuit, each with the moment since when it is so."""
    seen: list[tuple[str, float]] = []
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(LOOK_SECONDS):
            for state, changed in _rows("select state, extract(epoch from changed_at)::float8 from djqueue_circuit"):
                if not seen or seen[-1] != (state, changed):
                    seen.append((state, changed))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()


def _ramp(requests: list[Request], states: list[tuple[str, float]]) -> dict[str, Any] | None:
    """Hold the requests of the last ramp against what it allowed."""
    begins = [index for index, (state, _) in enumerate(states) if state == "ramp"]
    if not begins:
        return None
    begin = states[begins[-1]][1]
    end = states[begins[-1] + 1][1] if begins[-1] + 1 < len(states) else time.time()
    times = sorted(request.at for request in requests if begin <= request.at < end)
    passed, fullest = 0, 0.0
    for number, at in enumerate(times):
        within = sum(1 for other in times[: number + 1] if other > at - WINDOW_SECONDS)
        allowed = _allowed(at - begin)
        fullest = max(fullest, within / allowed)
        passed += within > allowed
    return {
        "starts": len(times),
        "seconds": round(end - begin, 1),
        "windows_above": passed,
        "fullest_window": round(fullest, 2),
    }


def _allowed(seconds: float) -> float:
    """Return the starts that the ramp allows within the second before a moment of it."""
    options = CircuitOptions(**BREAKER)
    rate = options.ramp_per_second * 2 ** int(seconds / options.ramp_double_seconds)
    return float(_earned(seconds, options) - _earned(seconds - WINDOW_SECONDS, options) + rate * BURST_SECONDS + 1)


def _earned(seconds: float, options: CircuitOptions) -> float:
    doublings = int(max(0.0, seconds) / options.ramp_double_seconds)
    before = options.ramp_per_second * options.ramp_double_seconds * (2**doublings - 1)
    rest = max(0.0, seconds) - doublings * options.ramp_double_seconds
    return float(before + options.ramp_per_second * 2**doublings * rest)


def _peak(requests: list[Request]) -> int:
    """Return the most requests within one second."""
    times = sorted(request.at for request in requests)
    peak, first = 0, 0
    for last, at in enumerate(times):
        while times[first] <= at - 1:
            first += 1
        peak = max(peak, last - first + 1)
    return peak


def _deaths() -> dict[str, int]:
    [(dead, rightly)] = _rows(
        "select count(*), count(*) filter (where args->'args'->>0 like %s) from djqueue_dead_letter", f"{MISSING}%"
    )
    return {"dead": dead, "dead_wrongly": dead - rightly}


def _drain() -> int:
    """Wait until no job is left; return how many there are at the last."""
    until = time.monotonic() + DRAIN_SECONDS
    while (left := _rows("select count(*) from djqueue_job")[0][0]) and time.monotonic() < until:
        time.sleep(0.1)
    return int(left)


def _wait_for_workers() -> None:
    until = time.monotonic() + 30
    while _rows("select count(*) from djqueue_worker")[0][0] < 2 and time.monotonic() < until:
        time.sleep(0.1)


def _empty() -> None:
    tables = "job, history, history_overflow, dead_letter, worker, circuit, lane, retry_budget, stat"
    _rows("truncate " + ", ".join(f"djqueue_{name}" for name in tables.split(", ")))


def _rows(sql: str, *params: Any) -> list[tuple[Any, ...]]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql, params or None)
        return cursor.fetchall() if cursor.description else []


def _report(options: argparse.Namespace, bare: dict[str, Any], breaker: dict[str, Any]) -> dict[str, Any]:
    saved = 1 - breaker["calls_while_down"] / max(1, bare["calls_while_down"])
    ramp = breaker["ramp"]
    return {
        "benchmark": "partner",
        "machine": machine(),
        "jobs_per_second": options.rate,
        "down_seconds": options.down,
        "slots": 2 * options.threads,
        "breaker_options": BREAKER,
        "retries_alone": bare,
        "with_breaker": breaker,
        "calls_saved_while_down": round(saved, 4),
        "holds": {
            "calls_while_down_fall_by_95_percent": saved >= 0.95,
            "the_ramp_is_never_passed": ramp is not None and ramp["windows_above"] == 0,
            "nothing_is_dead_that_should_not_be": breaker["dead_wrongly"] == 0,
            "nothing_is_left": breaker["left"] == 0,
        },
    }


def _words(report: dict[str, Any]) -> str:
    lines = [f"{'':<28}{'retries alone':>14}{'with breaker':>14}"]
    keys = ("jobs", "calls", "calls_while_down", "peak_per_second_after", "done_after_recovery_seconds")
    for key in (*keys, "dead", "dead_wrongly", "left"):
        lines.append(f"{key.replace('_', ' '):<28}{report['retries_alone'][key]:>14}{report['with_breaker'][key]:>14}")
    lines.append(f"calls saved while down: {report['calls_saved_while_down']:.1%}")
    lines.append(f"the last ramp: {report['with_breaker']['ramp']}")
    lines += [f"{'yes' if holds else 'NO':<4}{name.replace('_', ' ')}" for name, holds in report["holds"].items()]
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=40, metavar="JOBS_PER_SECOND")
    parser.add_argument("--down", type=float, default=15, metavar="SECONDS")
    parser.add_argument("--threads", type=int, default=8, help="slots in each of the two worker processes")
    parser.add_argument("--verbose", action="store_true", help="show what the workers say")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
