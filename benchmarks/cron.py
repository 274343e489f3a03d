"""How long many cron entries that are due in the same minute take: until all jobs are there, until all are planned.

    python -m benchmarks.cron [--entries 10000] [--tasks 4] [--jitter 0] [--json]

One leader's cron duty, as in a keeper: a bookkeeping connection, prepared statements. The entries were planned by this
leader before, as in everyday life; `cold` is a leader that sees them for the first time. Target with 10,000 entries:
jobs within 2 s, plans within 10 s.
"""

import argparse
import json
import random
import time
from typing import Any

from benchmarks.setting import alone, fresh_server, machine

TASKS = ["noop", "make_thumbnail", "add_one_to_counter", "send_receipt"]
ARGS = {"noop": [], "make_thumbnail": ["a.png"], "add_one_to_counter": ["a"], "send_receipt": [7]}
SCHEDULES = ["0 * * * *", "30 2 * * *", "*/5 9-17 * * mon-fri", "15,45 * 1 * *", "0 0 L * *"]
ZONES = ["Europe/Paris", "UTC", "America/New_York", "Asia/Kolkata"]


def main() -> int:
    """Measure both cases and print them."""
    options = _options()
    with alone(), fresh_server():
        cases = {name: _case(options, warm=name == "warm") for name in ("warm", "cold")}
        report = {"benchmark": "cron", "unit": "s", "entries": options.entries, "machine": machine(), "cases": cases}
    print(json.dumps(report, indent=2) if options.json else _words(report))
    return 0


def _case(options: argparse.Namespace, *, warm: bool) -> dict[str, float]:
    from djqueue.api import registry
    from djqueue.runtime.cron import CronDuty
    from djqueue.runtime.cron_jobs import CronJobs
    from djqueue.runtime.leader import LeaderDuty
    from djqueue.store import db

    registry.load()
    db.adopt("default", prepared=True)
    _clear()
    _create(options)
    leader = LeaderDuty("default", "benchmark")
    duty = CronDuty("default", leader, CronJobs("default"))
    leader.tick()
    if warm:
        while duty.tick() == 0.0:
            leader.tick()
    _make_due(duty)
    began, fired, ticks = time.perf_counter(), 0.0, []
    while True:
        started = time.perf_counter()
        leader.tick()
        wait = duty.tick()
        ticks.append(time.perf_counter() - started)
        if not fired and _count("djqueue_job") == options.entries:
            fired = time.perf_counter() - began
        if wait and not _count("djqueue_cron_entry where next_fire_at <= now()"):
            break
    figures = {"all jobs": fired, "all plans": time.perf_counter() - began, "longest tick": max(ticks)}
    return {name: round(value, 3) for name, value in figures.items()}


def _create(options: argparse.Namespace) -> None:
    from djqueue.store import db

    rng = random.Random(7)
    rows: list[tuple[str, str, str, str, str]] = []
    for number in range(options.entries):
        name = TASKS[number % options.tasks]
        where = rng.choice(ZONES)
        row = f"entry {number}", rng.choice(SCHEDULES), where, f"testproject.shop.tasks.{name}", json.dumps(ARGS[name])
        rows.append(row)
    db.rows(
        "default",
        "insert into djqueue_cron_entry (name, schedule, timezone, task_name, args, jitter_seconds, changed_at) "
        "select u.*, %(jitter)s, now() from unnest(%(n)s::text[], %(s)s::text[], %(z)s::text[], %(t)s::text[], "
        "%(a)s::jsonb[]) u",
        {
            "jitter": options.jitter,
            **{key: list(column) for key, column in zip("nszta", zip(*rows, strict=True), strict=True)},
        },
    )


def _make_due(duty: Any) -> None:
    """Set all plans to this minute, and let the duty trust them as if it had planned them."""
    from djqueue.store import db

    found = db.rows(
        "default",
        "update djqueue_cron_entry set schedule = '* * * * *', next_fire_at = date_trunc('minute', now()) "
        "returning id, xmin::text",
    )
    for id_, version in found:
        if id_ in duty._known:
            duty._known[id_].version = version


def _clear() -> None:
    from djqueue.store import db

    db.rows(
        "default", "truncate djqueue_cron_entry, djqueue_cron_memory, djqueue_cron_fire, djqueue_job, djqueue_leader"
    )


def _count(what: str) -> int:
    from djqueue.store import db

    return int(db.rows("default", f"select count(*) from {what}")[0][0])


def _words(report: dict[str, Any]) -> str:
    lines = [f"{report['entries']:,} entries due in the same minute, seconds:"]
    for name, figures in report["cases"].items():
        lines.append(f"  {name}: " + ", ".join(f"{what} {value:.2f}" for what, value in figures.items()))
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cron", description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--tasks", type=int, default=len(TASKS), choices=range(1, len(TASKS) + 1))
    parser.add_argument("--jitter", type=int, default=0, help="jitter_seconds of the entries")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
