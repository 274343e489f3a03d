"""`manage.py djqueue plan`: how large the fleet and its database must be, from flags or from the last week.

It parses, asks and prints; the formulas stand in `policy.sizing`.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from djqueue.management.verbs.common import Print, as_json, backend_of, verb
from djqueue.policy.sizing import Load, Size, connections, size
from djqueue.store import sizing

FLAGS: tuple[tuple[str, str, float, float, str], ...] = (
    ("jobs-per-day", "jobs_per_day", 1, 1e12, "jobs per day; without it, what ended in the last week"),
    ("peak", "peak", 1, 1_000, "the busiest time in relation to the mean (4, or as measured)"),
    ("seconds", "seconds", 0.001, 604_800, "how long a job runs (2, or as measured)"),
    ("slots", "slots", 1, 1_000, "jobs that one worker process runs at once (10)"),
    ("bytes", "row_bytes", 1, 1e9, "what a finished job takes in the database (1,000)"),
    ("days", "days", 0, 3_650, "how long finished jobs are kept (7)"),
    ("headroom", "headroom", 0, 10, "workers beyond those that the peak needs, as a share (0.3)"),
    ("server-operations", "server_operations", 1, 1e7, "store operations per second that a server can do (10,000)"),
)
"""Flag, field of `Load`, least, most, words."""


def add_arguments(verbs: Any) -> None:
    """Declare the verb."""
    parser = verb(verbs, "plan", "how many workers, servers, connections and bytes a load needs")
    for flag, field, _, _, words in FLAGS:
        parser.add_argument(f"--{flag}", dest=field, metavar="N", help=words)
    parser.set_defaults(run=_plan)


def _plan(options: dict[str, Any], out: Print) -> None:
    backend = backend_of(options)
    alias = backend.alias_of_database
    given: dict[str, Any] = {
        field: _number(flag, field, options[field], low, high)
        for flag, field, low, high, _ in FLAGS
        if options[field] is not None
    }
    measured = None if "jobs_per_day" in given else _measured(alias)
    load = Load(**{**(measured or {}), "lease_seconds": backend.djqueue_options.lease_seconds, **given})
    found, allowed = size(load), sizing.max_connections(alias)
    if options["json"]:
        source = "flags" if measured is None else "last week"
        out(as_json({"source": source, "load": asdict(load), **asdict(found), "max_connections": allowed}))
    else:
        out("\n".join(_said(load, found, allowed)))


def _measured(alias: str) -> dict[str, float]:
    found = sizing.last_week(alias)
    if found is None:
        raise CommandError("plan: expected --jobs-per-day, because nothing has ended in the last week, got none")
    return {"jobs_per_day": found.jobs_per_day, "peak": found.peak, "seconds": found.seconds}


def _number(flag: str, field: str, text: str, low: float, high: float) -> float:
    try:
        value = float(text.replace(",", "").replace("_", ""))
    except ValueError:
        value = math.nan
    if not low <= value <= high or (field == "slots" and value != int(value)):
        kind = "a whole number" if field == "slots" else "a number"
        raise CommandError(f"--{flag}: expected {kind} from {low:,} to {high:,.0f}, got {text!r}")
    return int(value) if field == "slots" else value


def _said(load: Load, found: Size, allowed: int) -> Iterator[str]:
    yield f"{load.jobs_per_day:,.0f} jobs a day, {load.peak:g} times that at the peak, {load.seconds:g} s each:"
    for figure, words, formula in _lines(load, found):
        yield f"{figure:>10} {words:<20}  {formula}"
    yield f"Connections if each worker has a supervisor of its own; max_connections is {allowed:,} here."
    if found.connections_per_shard > allowed:
        yield "More connections than this server allows: raise max_connections, put PgBouncer before it, or use async"
        yield "handlers and several worker processes per supervisor (runworker --processes)."


def _lines(load: Load, found: Size) -> Iterator[tuple[str, str, str]]:
    lease, trusted = load.lease_seconds, load.server_operations
    yield f"{found.enqueues_per_second:,.10g}", "enqueues/s", "jobs a day ÷ 86,400 · peak"
    yield (
        f"{found.operations_per_second:,.10g}",
        "store operations/s",
        f"3 · enqueues + in flight ÷ {lease:g} s of lease",
    )
    yield f"{found.in_flight:,.10g}", "in flight", f"enqueues · {load.seconds:g} s"
    yield f"{found.workers:,}", "workers", f"in flight ÷ {load.slots} slots, and {load.headroom:.0%} headroom"
    yield _bytes(found.storage_bytes), "of history", f"jobs a day · {load.days:g} days · {load.row_bytes:g} B"
    yield f"{found.shards:,}", "shards", f"operations ÷ {trusted:,.0f}/s that a server is trusted with"
    each = connections(processes=1, slots=load.slots)
    yield (
        f"{found.connections_per_shard:,}",
        "connections a shard",
        f"workers · {each} of a supervisor with one process",
    )


def _bytes(number: float) -> str:
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= unit:
            return f"{number / unit:.10g} {name}"
    return f"{number:.0f} B"
