"""How many no-op jobs one worker process drains in a second, beside a bare psycopg loop of the same statements.

    python -m benchmarks.drain [--jobs 40000] [--pairs 3] [--json] [--at-least 8000]

The worker is the shipped one with default options: history on, durable commits, heartbeats, per-job reset, signals. The
database counts: jobs in history, from the first start to the last end by its own clock. The bare loop claims and acks
100 jobs at a time in one pipelined transaction, and runs nothing. Exit code 1 below `--at-least`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.setting import alone, fresh_server, machine, quartiles

ROOT = Path(__file__).resolve().parent.parent
BARE_BATCH = 100


def main() -> int:
    """Measure, print, and compare with the figure asked for."""
    options = _options()
    with alone(), fresh_server():
        pairs = [_pair(options.jobs) for _ in range(options.pairs)]
        report = _report(options.jobs, pairs)
    print(json.dumps(report, indent=2) if options.json else _words(report))
    return 1 if report["djqueue"]["median"] < options.at_least else 0


def _pair(jobs: int) -> dict[str, float]:
    bare = _bare_loop(jobs)
    djqueue = _worker(jobs)
    print(f"djqueue {djqueue:,.0f} jobs/s, bare loop {bare:,.0f} jobs/s", file=sys.stderr)
    return {"djqueue": djqueue, "bare": bare}


def _worker(jobs: int) -> float:
    """Drain with the shipped worker; return jobs per second as the database counted them."""
    _fill(jobs)
    subprocess.run(
        [sys.executable, "manage.py", "runworker", "--processes", "1", "--drain", "-v", "0"],
        cwd=ROOT,
        env=dict(os.environ),
        check=True,
        timeout=600,
    )
    count, seconds = _row(
        "select count(*), extract(epoch from max(finished_at) - min(started_at)) from djqueue_history"
        " where outcome = 'succeeded' and attempts = 1"
    )
    if count != jobs:
        raise SystemExit(f"expected {jobs} jobs in history, each with one attempt, got {count}")
    return float(count) / float(seconds)


def _bare_loop(jobs: int) -> float:
    """Claim and ack the same jobs with the store's own statements, and nothing around them."""
    from django.db import connection

    from djqueue.store import claim, db, finish

    _fill(jobs)
    db.adopt("default", prepared=True)
    request = claim.Request(worker_id="bare", limit=BARE_BATCH, free=BARE_BATCH, lease_seconds=30)
    acks: list[finish.Ack] = []
    done = 0
    began = time.monotonic()
    while done < jobs:
        acked = None
        with db.together("default"):
            if acks:
                acked = finish.start_ack("default", acks, 0)
            claimed = claim.start_full_claim("default", request, [("default", "")])
        done += len(finish.acked(acked)) if acked is not None else 0
        acks = [finish.Ack(job.id, job.lease_token, 0, 0, "null") for job in claim.claimed(claimed)]
    seconds = time.monotonic() - began
    connection.close()
    return jobs / seconds


def _fill(jobs: int) -> None:
    from django.db import connection

    from testproject.shop.tasks import noop

    with connection.cursor() as cursor:
        cursor.execute("truncate djqueue_job, djqueue_history, djqueue_history_overflow, djqueue_dead_letter")
    noop.enqueue_many([(number,) for number in range(jobs)])
    with connection.cursor() as cursor:
        cursor.execute("vacuum (analyze) djqueue_job")
        cursor.execute("checkpoint")
    connection.close()


def _row(sql: str) -> tuple[Any, ...]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql)
        found: tuple[Any, ...] = cursor.fetchone()
    connection.close()
    return found


def _report(jobs: int, pairs: list[dict[str, float]]) -> dict[str, Any]:
    return {
        "benchmark": "drain",
        "jobs": jobs,
        "machine": machine(),
        "djqueue": quartiles([pair["djqueue"] for pair in pairs]),
        "bare": quartiles([pair["bare"] for pair in pairs]),
        "ratio": quartiles([pair["djqueue"] / pair["bare"] for pair in pairs]),
        "pairs": pairs,
    }


def _words(report: dict[str, Any]) -> str:
    djqueue, bare, ratio = (report[key]["median"] for key in ("djqueue", "bare", "ratio"))
    return f"djqueue {djqueue:,.0f} jobs/s · bare loop {bare:,.0f} jobs/s · ratio {ratio:.2f} (medians)"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=40_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--at-least", type=float, default=0, metavar="JOBS_PER_SECOND")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
