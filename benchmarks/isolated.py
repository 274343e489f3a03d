"""What a job costs in a process of its own, beside the same job in a thread.

    python -m benchmarks.isolated [--jobs 300] [--json]

One worker process with the default options drains no-op jobs, and jobs with one statement in a transaction, once in its
threads and once with `isolation="process"` for the queue. The database counts: from the first start to the last end.
The cost per job is what one job takes when none runs beside it (`--threads 1`).
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.setting import alone, fresh_server, machine

ROOT = Path(__file__).resolve().parent.parent
ISOLATED = {"queues": {"images": {"isolation": "process"}}}
SPAN = """
select count(*), extract(epoch from max(finished_at) - min(started_at)) from djqueue_history
where outcome = 'succeeded'
"""


def main() -> int:
    """Measure and print."""
    options = _options()
    with alone(), fresh_server():
        report = {"benchmark": "isolated", "jobs": options.jobs, "machine": machine(), "rates": _rates(options.jobs)}
    print(json.dumps(report, indent=2) if options.json else _words(report))
    return 0


def _rates(jobs: int) -> dict[str, dict[str, float]]:
    """Jobs per second by kind of job, where it ran, and how many at a time."""
    return {
        kind: {
            f"{where}, {threads} at a time": _rate(kind, jobs, given, threads)
            for where, given in (("thread", {}), ("process", ISOLATED))
            for threads in (1, 8)
        }
        for kind in ("no-op", "one statement")
    }


def _rate(kind: str, jobs: int, given: dict[str, Any], threads: int) -> float:
    from django.db import connection

    from testproject.shop.models import Counter
    from testproject.shop.tasks import add_one_to_counter, noop

    with connection.cursor() as cursor:
        cursor.execute("truncate djqueue_job, djqueue_history, djqueue_history_overflow, djqueue_dead_letter")
    Counter.objects.get_or_create(name="sum")
    task, row = (noop, (1,)) if kind == "no-op" else (add_one_to_counter, ("nobody",))
    task.using(queue_name="images").enqueue_many([row] * jobs)
    connection.close()
    command = [sys.executable, "manage.py", "runworker", "--threads", str(threads), "--drain", "-v", "0"]
    env = {**os.environ, "DJQUEUE_OPTIONS": json.dumps(given)}
    subprocess.run(command, cwd=ROOT, env=env, check=True, timeout=600)
    with connection.cursor() as cursor:
        cursor.execute(SPAN)
        count, seconds = cursor.fetchone()
    if count != jobs:
        raise SystemExit(f"expected {jobs} jobs in history, got {count}")
    return round(count / float(seconds), 1)


def _words(report: dict[str, Any]) -> str:
    return "\n".join(
        f"{kind}: {where}: {rate:,.0f} jobs/s, {1000 / rate:.2f} ms per job"
        for kind, rates in report["rates"].items()
        for where, rate in rates.items()
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
