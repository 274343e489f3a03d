"""Chaos: everything that can go wrong, at once, and an independent account of what came of it.

    python -m benchmarks.chaos [--jobs 20000] [--seconds 120] [--supervisors 3] [--seed N] [--no-standby] [--json]

Jobs of six kinds (plain, atomic, ordered, limited, delayed, failing) are enqueued over the whole time, while one thread
strikes at processes (kill -9, freeze and thaw, clocks) and one at the server and the network (see `faults`). Then all
is mended, the workers finish, and the handlers' ledger is compared with the database. Exit code 1 where anything was
lost, done twice in an atomic handler, started too often, out of order or beyond its limit. What this machine can't do
is said. The short form: `--jobs 4000 --seconds 40`, under two minutes.
"""

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.chaos.fleet import OPTIONS, Fleet
from benchmarks.chaos.stage import Stage
from benchmarks.setting import alone

PATIENCE_SECONDS = 180
MUST_BE_ZERO = ("lost", "doubled_atomic", "over_attempts", "order_broken", "limit_broken", "doubly_ended", "unfinished")


def main() -> int:
    """Let it happen, and say what came of it."""
    options = _options()
    with alone(), Stage() as stage:
        _set_up(stage)
        if not options.no_standby:
            stage.make_standby()
        report = _run(stage, options)
    print(json.dumps(report, indent=2) if options.json else _words(report))
    return 1 if any(report[key] for key in MUST_BE_ZERO) else 0


def _set_up(stage: Stage) -> None:
    os.environ["DATABASE_URL"] = stage.url
    os.environ["DJQUEUE_OPTIONS"] = json.dumps(OPTIONS)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0, interactive=False)


def _run(stage: Stage, options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks.chaos.faults import PROCESSES, SERVER, Scene
    from benchmarks.chaos.judge import judge
    from benchmarks.chaos.load import Load
    from benchmarks.chaos.storm import Storm
    from benchmarks.setting import machine

    load = Load(options.jobs, options.seconds, options.seed)
    with Fleet(stage, options.supervisors) as fleet:
        scene = Scene(stage=stage, fleet=fleet, rng=random.Random(options.seed))
        until = time.monotonic() + options.seconds
        storms = [Storm(scene, PROCESSES, until, (0.5, 2)), Storm(scene, SERVER, until, (1, 3))]
        for thread in [load, *storms]:
            thread.start()
        for thread in [*storms, load]:
            thread.join()
        fleet.set_clock(0)
        waited = _wait_for_the_end()
    report = judge(fleet.ledger, load.committed, scene.kills)
    if options.keep:
        Path(options.keep).write_bytes(fleet.log.read_bytes())
    return {
        "benchmark": "chaos",
        "jobs": len(load.committed),
        "unknown_commits": load.unknown,
        "seconds": options.seconds,
        "seed": options.seed,
        "settled_after_seconds": round(waited, 1),
        **report,
        "strikes": dict(sorted(sum((storm.strikes for storm in storms), start=type(storms[0].strikes)()).items())),
        "strikes_that_failed": [word for storm in storms for word in storm.trouble],
        "not_possible_here": stage.missing,
        "machine": machine(),
    }


def _wait_for_the_end() -> float:
    """Wait until no unfinished job is left; return the seconds."""
    from django.db import Error, connection

    began = time.monotonic()
    while time.monotonic() - began < PATIENCE_SECONDS:
        try:
            with connection.cursor() as cursor:
                cursor.execute("select exists (select from djqueue_job)")
                if cursor.fetchone() == (False,):
                    break
        except Error:
            connection.close()
        time.sleep(0.2)
    return time.monotonic() - began


def _words(report: dict[str, Any]) -> str:
    lines = [
        f"{key.replace('_', ' '):24} {value}" for key, value in report.items() if not isinstance(value, dict | list)
    ]
    lines += ["", *(f"  {count:4} x {name}" for name, count in report["strikes"].items())]
    lines += [f"  a strike failed: {word}" for word in report["strikes_that_failed"]]
    lines += [f"  not possible here: {name}: {why}" for name, why in report["not_possible_here"].items()]
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.chaos")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--supervisors", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--no-standby", action="store_true", help="no synchronous standby, and so no failover")
    parser.add_argument("--keep", metavar="FILE", help="where to leave the workers' log")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
