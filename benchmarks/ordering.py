"""How fast jobs with ordering keys drain, beside the same jobs without: one worker process, as shipped.

    python -m benchmarks.ordering [--jobs 100000] [--pairs 1] [--json] [--at-least 0.5]

Three fills of as many no-op jobs: without a key; each with a key of its own, all of them heads; each with a key of its
own, enqueued in one transaction, so that nearly all are parked first and let out by the keeper's tick meanwhile. The
database counts: jobs in history, from the first start to the last end by its own clock. Exit code 1 where the share of
the second is below `--at-least`.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.setting import alone, fresh_server, machine, quartiles

ROOT = Path(__file__).resolve().parent.parent

RATE = """
select count(*), extract(epoch from max(finished_at) - min(started_at))::float8,
    (select count(*) from djqueue_job) + (select count(*) from djqueue_wake)
from djqueue_history where outcome = 'succeeded' and attempts = 1
"""


def ordering(jobs: int = 100_000) -> dict[str, float]:
    """Drain the three fills; return jobs per second of each, and the shares of the rate without keys. Django must be
    set up on a server of one's own (`setting.fresh_server`)."""
    rates = {"unordered": _rate(jobs, None, jobs), "heads": _rate(jobs, _key, 100), "parked": _rate(jobs, _key, jobs)}
    return rates | {f"{kind}_share": rates[kind] / rates["unordered"] for kind in ("heads", "parked")}


def main() -> int:
    """Measure, print, and compare with the share asked for."""
    options = _options()
    with alone(), fresh_server():
        pairs = [ordering(options.jobs) for _ in range(options.pairs)]
        report: dict[str, Any] = {"benchmark": "ordering", "jobs": options.jobs, "machine": machine()}
    report |= {name: quartiles([pair[name] for pair in pairs]) for name in pairs[0]}
    print(json.dumps(report, indent=2) if options.json else _words(report))
    return 1 if report["heads_share"]["median"] < options.at_least else 0


def _key(number: int) -> str:
    return f"key {number}"


def _rate(jobs: int, key: Any, at_once: int) -> float:
    """Fill, `at_once` jobs in each transaction, and drain; return jobs per second."""
    _fill(jobs, key, at_once)
    subprocess.run(
        [sys.executable, "manage.py", "runworker", "--processes", "1", "--drain", "-v", "0"],
        cwd=ROOT,
        env=dict(os.environ),
        check=True,
        timeout=900,
    )
    count, seconds, left = _row(RATE)
    if count != jobs or left:
        raise SystemExit(f"expected {jobs} jobs in history and nothing left, got {count} and {left} left")
    print(f"{count / seconds:,.0f} jobs/s, {at_once:,} enqueued at once, keys: {key is not None}", file=sys.stderr)
    return float(count / seconds)


def _fill(jobs: int, key: Any, at_once: int) -> None:
    from django.db import connection

    from testproject.shop.tasks import noop

    task = noop if key is None else noop.using(ordering_key=key)
    with connection.cursor() as cursor:
        cursor.execute("truncate djqueue_job, djqueue_wake, djqueue_history, djqueue_history_overflow")
    for start in range(0, jobs, at_once):
        task.enqueue_many([(number,) for number in range(start, min(jobs, start + at_once))])
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


def _words(report: dict[str, Any]) -> str:
    rates = " · ".join(f"{kind} {report[kind]['median']:,.0f} jobs/s" for kind in ("unordered", "heads", "parked"))
    return (
        f"{rates} · shares {report['heads_share']['median']:.2f} and {report['parked_share']['median']:.2f} (medians)"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--at-least", type=float, default=0, metavar="SHARE")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
