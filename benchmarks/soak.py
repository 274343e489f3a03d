"""Half the capacity for a long time, an old snapshot held for a third of it: does anything grow that should not?

    python -m benchmarks.soak [--minutes 30] [--share 0.5] [--svg FILE] [--json]

First the shipped worker drains jobs as fast as it can: its capacity here. Then jobs come evenly at a share of it. In
the middle third a reader holds a snapshot, so that nothing dead can be cleared up. Every five seconds are noted: the
memory of the worker's processes, the size of the live table and of its indexes, what a claim costs (a claim of ten that
is rolled back, the slowest of 20), and how long jobs waited for their start (p99 of those that ended meanwhile).
History grows, as it should: it is kept. Exit code 1 where a job is lost, or the memory of a process grew by more than
30 MB between the first and the last tenth.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.drain import _worker as drained_per_second
from benchmarks.setting import alone, fresh_server, machine
from tests.processes import descendants_of

ROOT = Path(__file__).resolve().parent.parent
CAPACITY_JOBS = 20_000
LOOK_SECONDS = 5.0
BATCHES_PER_SECOND = 10
MOST_GROWTH_MB = 30
SIZES = "select pg_table_size('djqueue_job') / 1e6, pg_indexes_size('djqueue_job') / 1e6, count(*) from djqueue_job"
WAITED = """
select coalesce(percentile_cont(0.99) within group (order by extract(epoch from started_at - created_at)), 0)
from djqueue_history where finished_at > clock_timestamp() - make_interval(secs => %s)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen at one moment."""

    at: float
    """Seconds since the beginning."""
    memory_mb: float
    """Of all processes of the worker together."""
    largest_mb: float
    table_mb: float
    indexes_mb: float
    unfinished: int
    claim_ms: float
    wait_p99_ms: float
    held: bool
    """An old snapshot was held."""


def main() -> int:
    """Measure the capacity, soak, print and draw."""
    options = _options()
    with alone(), fresh_server() as server:
        capacity = drained_per_second(CAPACITY_JOBS)
        _empty()
        rate = capacity * options.share
        looks, enqueued = _soak(server.url, rate, options.minutes * 60)
        done = _row("select count(*) from djqueue_history where outcome = 'succeeded'")[0]
        report = _report(options, capacity, rate, looks, enqueued, done) | {"machine": machine()}
    if options.svg:
        options.svg.write_text(picture(looks))
    print(json.dumps(report, indent=2) if options.json else _words(report))
    return 1 if report["lost"] or report["largest process grew by MB"] > MOST_GROWTH_MB else 0


def _soak(url: str, rate: float, seconds: float) -> tuple[list[Look], int]:
    """Let jobs come and be done for so long; return what was seen, and how many came."""
    from django.db import connection

    connection.close()
    enqueuer = Enqueuer(rate, seconds)
    command = [sys.executable, "manage.py", "runworker", "--processes", "1", "-v", "0"]
    worker = subprocess.Popen(command, cwd=ROOT, env=dict(os.environ))
    try:
        began = time.monotonic()
        enqueuer.start()
        looks: list[Look] = []
        with _snapshot(url) as hold:
            while (now := time.monotonic() - began) < seconds:
                hold(seconds / 3 < now < seconds * 2 / 3)
                looks.append(_look(url, worker.pid, now, seconds / 3 < now < seconds * 2 / 3))
                time.sleep(max(0.0, LOOK_SECONDS - (time.monotonic() - began - now)))
        enqueuer.join()
        _wait_until_done(worker)
    finally:
        worker.terminate()
        worker.wait(60)
    return looks, enqueuer.enqueued


class Enqueuer(threading.Thread):
    """Enqueues evenly, ten times a second."""

    def __init__(self, rate: float, seconds: float) -> None:
        super().__init__(daemon=True)
        self._batch = max(1, round(rate / BATCHES_PER_SECOND))
        self._seconds = seconds
        self.enqueued = 0

    def run(self) -> None:
        """Go on until the time is over."""
        from django.db import connection

        from testproject.shop.tasks import noop

        began = time.monotonic()
        for turn in range(int(self._seconds * BATCHES_PER_SECOND)):
            time.sleep(max(0.0, began + turn / BATCHES_PER_SECOND - time.monotonic()))
            noop.enqueue_many([(number,) for number in range(self._batch)])
            self.enqueued += self._batch
        connection.close()


@contextmanager
def _snapshot(url: str) -> Iterator[Any]:
    """A reader that holds a snapshot when it is told to."""
    with psycopg.connect(url, autocommit=True) as reader:
        held = False

        def hold(wanted: bool) -> None:
            nonlocal held
            if wanted != held:
                reader.execute("begin isolation level repeatable read" if wanted else "commit")
                reader.execute("select count(*) from djqueue_queue")
                held = wanted

        yield hold


def _look(url: str, pid: int, now: float, held: bool) -> Look:
    memory = [_memory(each) for each in (pid, *descendants_of(pid))]
    with psycopg.connect(url, autocommit=True) as connection:
        table, indexes, unfinished = connection.execute(SIZES).fetchone() or (0, 0, 0)
        (waited,) = connection.execute(WAITED, (LOOK_SECONDS,)).fetchone() or (0,)
        claim = max(_claim(connection) for _ in range(20))
    return Look(
        at=round(now, 1),
        memory_mb=round(sum(memory), 1),
        largest_mb=round(max(memory), 1),
        table_mb=round(float(table), 2),
        indexes_mb=round(float(indexes), 2),
        unfinished=unfinished,
        claim_ms=round(claim * 1000, 2),
        wait_p99_ms=round(float(waited) * 1000, 1),
        held=held,
    )


def _claim(connection: "psycopg.Connection[Any]") -> float:
    """Claim ten jobs, roll back, and return the seconds."""
    from djqueue.store import claim

    request = claim.Request(worker_id="soak", limit=10, free=10, lease_seconds=30)
    given = claim.params(request) | {"queues": ["default"], "lanes": [""], "quotas": [10]}
    began = time.perf_counter()
    with connection.transaction(force_rollback=True):
        connection.execute(claim.CLAIM_FULL, given).fetchall()
    return time.perf_counter() - began


def _memory(pid: int) -> float:
    try:
        words = Path(f"/proc/{pid}/status").read_text().split()
        return int(words[words.index("VmRSS:") + 1]) / 1024
    except (OSError, ValueError):
        return 0.0


def _wait_until_done(worker: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + 120
    while _row("select count(*) from djqueue_job")[0] and time.monotonic() < until:
        if worker.poll() is not None:
            raise SystemExit(f"expected the worker to run on, it ended with {worker.returncode}")
        time.sleep(0.2)


def _report(
    options: argparse.Namespace, capacity: float, rate: float, looks: Sequence[Look], enqueued: int, done: int
) -> dict[str, Any]:
    third = len(looks) // 3
    thirds = {"before": looks[1:third], "snapshot held": looks[third : 2 * third], "after": looks[2 * third :]}
    tenth = max(1, len(looks) // 10)
    grew = max(look.largest_mb for look in looks[-tenth:]) - max(look.largest_mb for look in looks[1 : 1 + tenth])
    return {
        "benchmark": "soak",
        "minutes": options.minutes,
        "capacity per second": round(capacity),
        "rate per second": round(rate),
        "jobs": enqueued,
        "lost": enqueued - done,
        "largest process grew by MB": round(grew, 1),
        "thirds": {name: _medians(part) for name, part in thirds.items()},
        "looks": [asdict(look) for look in looks] if options.json else len(looks),
    }


def _medians(looks: Sequence[Look]) -> dict[str, float]:
    names = ("memory_mb", "largest_mb", "table_mb", "indexes_mb", "claim_ms", "wait_p99_ms")
    return {name: round(statistics.median(getattr(look, name) for look in looks), 2) for name in names} | {
        "last_table_mb": looks[-1].table_mb,
        "last_indexes_mb": looks[-1].indexes_mb,
    }


def picture(looks: Sequence[Look]) -> str:
    """Four small line charts; the time in which the snapshot was held is grey."""
    charts = {
        "Memory of all processes, MB": [look.memory_mb for look in looks],
        "Live table and its indexes, MB": [look.table_mb + look.indexes_mb for look in looks],
        "Claim of ten, slowest of 20, ms": [look.claim_ms for look in looks],
        "Wait for the start, p99, ms": [look.wait_p99_ms for look in looks],
    }
    width, height = 640, 110
    end = max(look.at for look in looks) or 1
    held = [look.at for look in looks if look.held] or [0.0]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{(height + 30) * 4}" role="img" '
        'aria-label="Memory, sizes and times over the soak">',
        "<style>text { font: 12px system-ui, sans-serif; fill: #333 } path { fill: none; stroke: #0c7a5b } "
        "rect { fill: #8883 } @media (prefers-color-scheme: dark) { text { fill: #ddd } }</style>",
    ]
    for number, (title, values) in enumerate(charts.items()):
        top, most = number * (height + 30) + 20, max(values) or 1
        points = [
            f"{look.at / end * width:.1f},{top + height - value / most * height:.1f}"
            for look, value in zip(looks, values, strict=True)
        ]
        x, w = held[0] / end * width, (held[-1] - held[0]) / end * width
        parts += [
            f'<text x="0" y="{top - 6}">{escape(title)} (0 to {most:,.4g})</text>',
            f'<rect x="{x:.1f}" y="{top}" width="{w:.1f}" height="{height}"/>',
            f'<path d="M{" L".join(points)}"/>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _words(report: dict[str, Any]) -> str:
    lines = [f"{name:28} {value}" for name, value in report.items() if not isinstance(value, dict)]
    lines += [f"{name:28} {part}" for name, part in report["thirds"].items()]
    return "\n".join([*lines, str(report["machine"])])


def _empty() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("delete from djqueue_history; delete from djqueue_history_overflow")
        cursor.execute("vacuum (analyze)")


def _row(sql: str) -> tuple[Any, ...]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql)
        found: tuple[Any, ...] = cursor.fetchone()
        return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.soak")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--share", type=float, default=0.5, help="of the capacity (default: 0.5)")
    parser.add_argument("--svg", type=Path, help="where to draw the picture")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
