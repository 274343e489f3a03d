"""Do queues under saturation get their shares? Real workers drain 10,000 jobs of three queues with weights 5:3:2.

    python -m benchmarks.shares [--jobs 10000] [--weights default:5,emails:3,images:2] [--processes 2] [--json]

Each queue holds more jobs than its share; when so many jobs have ended as asked for, each queue's part of them, by the
database's order of starts, is compared with its weight. Exit code 1 where a share is off by more than 5 %.
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
from djqueue.policy.weights import QueueSelection

ROOT = Path(__file__).resolve().parent.parent
MOST_OFF = 0.05
PATIENCE_SECONDS = 300
# Those that were started first, by the order of their claims.
FIRST = """
select queue_name, count(*) from (
    select queue_name from djqueue_history order by started_at, lease_token limit %s) x group by 1
"""


def main() -> int:
    """Measure, print, and compare with what the weights say."""
    options = _options()
    with alone(), fresh_server():
        report = {"benchmark": "shares", "machine": machine()} | weights(
            options.jobs, options.weights, processes=options.processes
        )
    print(json.dumps(report, indent=2) if options.json else _words(report))
    return 0 if report["holds"] else 1


def weights(jobs: int = 10_000, wanted: str = "default:5,emails:3,images:2", *, processes: int = 2) -> dict[str, Any]:
    """Drain so many jobs on the server that Django is set up for; return each queue's share, and whether all hold."""
    given = QueueSelection.parse(wanted).weights
    total = sum(given.values())
    _fill(jobs, list(given))
    found = _drained(jobs, wanted, processes)
    shares = {name: found.get(name, 0) / jobs for name in given}
    off = {name: shares[name] / (weight / total) - 1 for name, weight in given.items()}
    return {
        "jobs": jobs,
        "weights": given,
        "processes": processes,
        "shares": shares,
        "off": off,
        "most_off": max(abs(each) for each in off.values()),
        "holds": all(abs(each) <= MOST_OFF for each in off.values()),
    }


def _fill(jobs: int, queues: list[str]) -> None:
    from django.db import connection

    from testproject.shop.tasks import noop

    with connection.cursor() as cursor:
        cursor.execute("truncate djqueue_job, djqueue_history, djqueue_history_overflow, djqueue_dead_letter")
    for name in queues:
        noop.using(queue_name=name).enqueue_many([(number,) for number in range(jobs)])
    with connection.cursor() as cursor:
        cursor.execute("vacuum (analyze) djqueue_job")
    connection.close()


def _drained(jobs: int, wanted: str, processes: int) -> dict[str, int]:
    """Let workers work until so many jobs have ended; every queue still holds some then, or its share is off anyway."""
    command = [sys.executable, "manage.py", "runworker", "--queues", wanted, "--processes", str(processes), "-v", "0"]
    worker = subprocess.Popen(command, cwd=ROOT, env=dict(os.environ))
    try:
        until = time.monotonic() + PATIENCE_SECONDS
        while _rows("select count(*) from djqueue_history")[0][0] < jobs:
            if time.monotonic() > until or worker.poll() is not None:
                raise SystemExit(f"expected {jobs} jobs in history within {PATIENCE_SECONDS} s, got fewer")
            time.sleep(0.02)
    finally:
        worker.terminate()
        worker.wait()
    return dict(_rows(FIRST, jobs))


def _rows(sql: str, *params: object) -> list[tuple[Any, ...]]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql, params or None)
        return list(cursor.fetchall())


def _words(report: dict[str, Any]) -> str:
    parts = [f"{name} {share:.1%} ({report['off'][name]:+.1%})" for name, share in report["shares"].items()]
    return (
        f"{report['jobs']:,} jobs: {', '.join(parts)}: {'within' if report['holds'] else 'NOT within'} {MOST_OFF:.0%}"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--weights", default="default:5,emails:3,images:2")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
