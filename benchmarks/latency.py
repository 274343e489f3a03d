"""How soon an idle worker starts a new job: milliseconds from the COMMIT of the enqueuer to the handler's first line.

    python -m benchmarks.latency [--jobs 200] [--json]

Three cases, on loopback, one job at a time: a plain commit; a transaction that goes on for 100 ms after the enqueue,
while the worker also gets other jobs (so that it is now busy, now idle); and without notifications, by the poll alone.
Both moments are of the same machine's clock; the first is taken just before COMMIT is sent.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.setting import alone, fresh_server, machine

ROOT = Path(__file__).resolve().parent.parent
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


def main() -> int:
    """Measure the three cases and print them."""
    options = _options()
    with alone(), fresh_server():
        cases = {
            "idle": _case(options.jobs, {}),
            "transaction goes on 100 ms": _case(options.jobs, {}, goes_on=0.1, others=True),
            "poll alone": _case(options.jobs, {"listen_alias": ""}),
        }
        report = {"benchmark": "latency", "unit": "ms", "jobs": options.jobs, "machine": machine(), "cases": cases}
    print(json.dumps(report, indent=2) if options.json else _words(report))
    return 0


def _case(jobs: int, worker_options: dict[str, Any], goes_on: float = 0, others: bool = False) -> dict[str, float]:
    from testproject.trials import ledger

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger"
        env = {**os.environ, ledger.VARIABLE: str(path), "DJQUEUE_OPTIONS": json.dumps(worker_options)}
        worker = subprocess.Popen([sys.executable, "manage.py", "runworker", "-v", "0"], cwd=ROOT, env=env)
        try:
            _wait_for_worker()
            commits = _enqueue(jobs, goes_on, others)
            starts = _wait_for_starts(path, jobs)
        finally:
            worker.terminate()
            worker.wait(60)
    waits = sorted((starts[label] - at) * 1000 for label, at in commits.items())
    return {name: round(waits[min(len(waits) - 1, int(share * len(waits)))], 2) for name, share in PERCENTILES.items()}


def _enqueue(jobs: int, goes_on: float, others: bool) -> dict[str, float]:
    """Enqueue one job after another with pauses, so that the worker has run dry each time."""
    from django.db import transaction

    from testproject.trials.tasks import note

    commits: dict[str, float] = {}
    rng = random.Random(7)
    for number in range(jobs):
        label = f"job {number}"
        with transaction.atomic():
            note.enqueue(label)
            if others:
                time.sleep(goes_on / 2)
                _enqueue_elsewhere(number)
                time.sleep(goes_on / 2)
            commits[label] = time.time()
        time.sleep(rng.uniform(0.02, 0.08))
    return commits


def _enqueue_elsewhere(number: int) -> None:
    """Give the worker something to do meanwhile, over a connection of its own."""
    import psycopg

    from djqueue.policy.ids import uuid7

    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as other:
        other.execute(
            "insert into djqueue_job (id, queue_name, task_name, args) values (%s, 'default', %s, %s::jsonb)",
            (uuid7(), "testproject.shop.tasks.noop", json.dumps({"args": [number], "kwargs": {}})),
        )


def _wait_for_worker() -> None:
    from djqueue.models import Worker

    deadline = time.monotonic() + 60
    while not Worker.objects.exists():
        if time.monotonic() > deadline:
            raise SystemExit("expected a worker to register within 60 s")
        time.sleep(0.05)
    time.sleep(1)


def _wait_for_starts(path: Path, jobs: int) -> dict[str, float]:
    from testproject.trials import ledger

    deadline = time.monotonic() + 60
    while len(found := {line.label: line.at for line in ledger.read(path)}) < jobs:
        if time.monotonic() > deadline:
            raise SystemExit(f"expected {jobs} starts, got {len(found)} within 60 s of the last enqueue")
        time.sleep(0.05)
    return found


def _words(report: dict[str, Any]) -> str:
    lines = [
        f"{name:30} " + "  ".join(f"{key} {value:8.2f}" for key, value in case.items())
        for name, case in report["cases"].items()
    ]
    return "\n".join(["milliseconds from COMMIT to the handler's start", *lines])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
