"""What a job weighs: bytes in the table, its indexes, history and WAL; and the memory of the shipped worker.

    python -m benchmarks.footprint [--jobs 100000] [--json]

Jobs are no-op ones with one number as argument. WAL is what the server wrote while nothing else ran, full-page images
after a checkpoint included. RSS is the resident memory of each process of `runworker`, early in the drain and late.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.setting import alone, fresh_server, machine
from tests.processes import descendants_of

ROOT = Path(__file__).resolve().parent.parent
SIZES = """
select pg_table_size('djqueue_job'), pg_indexes_size('djqueue_job'),
    (select sum(pg_total_relation_size(relid)) from pg_partition_tree('djqueue_history'))
"""


def main() -> int:
    """Measure and print."""
    options = _options()
    with alone(), fresh_server():
        report = {"benchmark": "footprint", "jobs": options.jobs, "machine": machine(), **_measure(options.jobs)}
    print(json.dumps(report, indent=2) if options.json else _words(report))
    return 0


def _measure(jobs: int) -> dict[str, Any]:
    from testproject.shop.tasks import noop

    empty = _row(SIZES)
    began = _wal()
    noop.enqueue_many([(number,) for number in range(jobs)])
    enqueued = _wal()
    full = _row(SIZES)
    memory = _drain(jobs)
    drained = _wal()
    after = _row(SIZES)
    return {
        "bytes per job": {
            "table": (full[0] - empty[0]) / jobs,
            "indexes": (full[1] - empty[1]) / jobs,
            "history": (after[2] - empty[2]) / jobs,
            "WAL of the enqueue": (enqueued - began) / jobs,
            "WAL from claim to history": (drained - enqueued) / jobs,
        },
        "RSS in MB": memory,
    }


def _drain(jobs: int) -> dict[str, dict[str, float]]:
    """Drain with the shipped worker; return the memory of its processes after a tenth and near the end."""
    from django.db import connection

    connection.close()
    worker = subprocess.Popen([sys.executable, "manage.py", "runworker", "-v", "0"], cwd=ROOT, env=dict(os.environ))
    try:
        _wait_until_left(worker, jobs * 9 // 10)
        early = _memory(worker.pid)
        _wait_until_left(worker, 0)
        late = _memory(worker.pid)
    finally:
        worker.terminate()
        worker.wait(60)
    return {"after a tenth": early, "at the end": late}


def _wait_until_left(worker: "subprocess.Popen[bytes]", left: int) -> None:
    while _row("select count(*) from djqueue_job")[0] > left:
        if worker.poll() is not None:
            raise SystemExit(f"expected the worker to run on, it ended with {worker.returncode}")
        time.sleep(0.1)


def _memory(pid: int) -> dict[str, float]:
    """RSS by process: the parent, and what it has forked. Pages that forks share are counted in each."""
    pids = [pid, *descendants_of(pid)]
    names = ["parent", *(f"child {number}" for number in range(1, len(pids)))]
    return {name: round(_rss(each), 1) for name, each in zip(names, pids, strict=True)}


def _rss(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1_000_000


def _wal() -> int:
    return int(_row("select pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint")[0])


def _row(sql: str) -> tuple[Any, ...]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql)
        found: tuple[Any, ...] = cursor.fetchone()
    return found


def _words(report: dict[str, Any]) -> str:
    lines = [f"{name:28}{value:8.0f} bytes per job" for name, value in report["bytes per job"].items()]
    for when, processes in report["RSS in MB"].items():
        lines.append(f"RSS {when:24}" + "  ".join(f"{name} {value} MB" for name, value in processes.items()))
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
