"""What fairness costs and whether it is fair: tenants, closed gates, weights, shares by run time, pools, ordering keys.

    python -m benchmarks.fairness [--jobs 1000000] [--tenants 10,1001,50000] [--closed 500000] [--seconds 20] [--json]
                                  [--only tenants,closed,queues,shares,pools,ordering]

A server of its own with default settings. Claims are those of a worker (`runtime.claimer`) or of the store; `shares`
and `ordering` run real workers. Exit code 1 where a promise of docs/fairness.md is not kept.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.setting import alone, fresh_server, machine

ROOT = Path(__file__).resolve().parent.parent
ALIAS = "default"
BATCH = 10
CLAIMS = 60
CAP = 10
GATE = "substr(md5({n}::text), 1, 16)"


def tenants(jobs: int, others: Sequence[int]) -> list[dict[str, Any]]:
    """One tenant with so many jobs, others with one each: claim times beside a plain claim's, and rounds to all."""
    _empty()
    _load(20_000, "queue_name", "'plain'")
    _load(jobs, "queue_name, lane, tenant_id, run_at", "'fair', 't0000000000000000', 'A', now() - interval '1 h'")
    found = []
    for before, count in pairwise([0, *(each - 1 for each in others)]):
        _load(count - before, "queue_name, lane, tenant_id", f"'fair', 't' || {_gate(before)}, 'T' || n + {before}")
        _vacuum()
        plain = _claim_times(lambda: _plain("plain"))
        walk = _claim_times(_walking("fair"))
        row = {"tenants": count + 1, "plain_ms": plain, "fair_ms": walk, "factor": walk / plain}
        found.append(row | _rounds(count) if count <= 2_000 else row)
    return found


def closed(jobs: int) -> dict[str, Any]:
    """Rows of a thousand lanes behind one closed gate, twenty open lanes after them."""
    _empty()
    behind = "'gated', 'c0000000000000001:t' || lpad(to_hex(n % 1000), 16, '0')"
    _load(jobs, "queue_name, lane", behind)
    _load(2_000, "queue_name, lane", "'gated', 't' || lpad(to_hex(n % 20), 16, '0')")
    _sql("insert into djqueue_lane (queue_name, lane, closed_until) values ('', 'c0000000000000001', 'infinity')")
    _vacuum()
    past = _claim_times(lambda: _step("gated", "", BATCH))
    after = _claim_times(lambda: _step("gated", "t", BATCH))
    return {"rows": jobs, "past_ms": past, "after_ms": after, "probe_ms": past - after}


def queues(jobs: int = 10_000) -> dict[str, Any]:
    """Shares of three saturated queues with weights 5:3:2."""
    _empty()
    for name in ("a", "b", "c"):
        _load(jobs, "queue_name", f"'{name}'")
    claimer = _claimer("a:5,b:3,c:2")
    taken: Counter[str] = Counter()
    while taken.total() < jobs:
        taken.update(job.queue_name for job in _turn(claimer, BATCH))
    shares = {name: taken[name] / taken.total() for name in ("a", "b", "c")}
    off = max(abs(shares[name] - share) for name, share in (("a", 0.5), ("b", 0.3), ("c", 0.2)))
    return {"shares": shares, "off": off}


def shares(seconds: float) -> dict[str, Any]:
    """Run time of two tenants with weights 1 and 2, jobs of the first ten times as long; a real worker."""
    from djqueue.store import tenants as store
    from testproject.trials.limited import rest

    _empty()
    store.set_tenant(ALIAS, "default", "quick", tier="double")
    count = int(seconds * 8 / 0.02)
    rest.enqueue_many([("slow", 0.2) for _ in range(count // 10)])
    rest.enqueue_many([("quick", 0.02) for _ in range(count)])
    options = {
        "queues": {"default": {"fair": "weighted", "tiers": {"double": 2}}},
        "task_modules": ["testproject.trials.limited"],
    }
    _work_for(seconds, options)
    ran = dict(_sql("select tenant_id, sum(extract(epoch from finished_at - started_at))::float8 from djqueue_history"
                    " group by tenant_id"))  # fmt: skip
    total = sum(ran.values())
    split = {name: value / total for name, value in ran.items()}
    return {"seconds": seconds, "run_time": ran, "split": split, "off": abs(split["quick"] / (2 / 3) - 1)}


def pools(count: int = 280) -> dict[str, Any]:
    """Eight pools, two for each tenant; one tenant blocks all slots of its own: who is delayed?"""
    from djqueue.policy.fair import pools_of
    from djqueue.policy.gates import Gate, gate

    _empty()
    names = [f"tenant {number}" for number in range(count)]
    noisy = pools_of("noisy", 8)
    claimers = {number: _claimer("q", pool=f"{number}/8:2") for number in range(1, 9)}
    free = dict.fromkeys(claimers, 4)
    for these in (["noisy"] * 100, names):
        for name in these:
            _load(1, "queue_name, lane, tenant_id", f"'q', '{gate(Gate.TENANT, name)}', '{name}'")
        for number, claimer in [*claimers.items()] * 100:
            claimer.refresh()
            jobs = _turn(claimer, free[number]) if free[number] else []
            free[number] -= sum(job.tenant_id == "noisy" for job in jobs)  # those never end
            _end([job for job in jobs if job.tenant_id != "noisy"])
    waiting = [name for (name,) in _sql("select tenant_id from djqueue_job where state = 'ready'") if name != "noisy"]
    return {
        "tenants": count,
        "delayed": len(waiting),
        "share_both_pools": sum(pools_of(name, 8) == noisy for name in names),
        "delayed_without_sharing_both": sum(pools_of(name, 8) != noisy for name in waiting),
    }


# ------------------------------------------------------------------------------------------------ the report


def main() -> int:
    """Measure, print, and tell which promises are broken."""
    options = _options()
    with alone(), fresh_server():
        from djqueue.store import db

        db.adopt(ALIAS, prepared=True)
        report: dict[str, Any] = {"benchmark": "fairness", "machine": machine()}
        report |= {name: measure(options) for name, measure in MEASURES.items() if name in options.only.split(",")}
        report["broken"] = list(_broken(report))
    print(json.dumps(report, indent=2))
    return 1 if report["broken"] else 0


def _ordering(options: argparse.Namespace) -> dict[str, float]:
    from benchmarks.ordering import ordering

    return ordering(options.keys)


MEASURES: dict[str, Callable[[argparse.Namespace], Any]] = {
    "tenants": lambda options: tenants(options.jobs, [int(each) for each in options.tenants.split(",")]),
    "closed": lambda options: closed(options.closed),
    "queues": lambda options: queues(),
    "shares": lambda options: shares(options.seconds),
    "pools": lambda options: pools(),
    "ordering": _ordering,
}


def _broken(report: dict[str, Any]) -> Any:
    for row in report.get("tenants", ()):
        if row["factor"] > 3:
            yield f"a fair claim among {row['tenants']} tenants takes {row['factor']:.1f} times a plain one's time"
        if row.get("rounds", 0) > 2:
            yield f"some tenant of {row['tenants']} started in round {row['rounds']:.1f}"
    if report.get("closed", {}).get("probe_ms", 0) > 2:
        yield f"rows behind a closed gate cost {report['closed']['probe_ms']:.1f} ms"
    if report.get("queues", {}).get("off", 0) > 0.05:
        yield f"shares of queues are off by {report['queues']['off']:.0%}"
    if report.get("shares", {}).get("off", 0) > 0.10:
        yield f"run time is off its weights by {report['shares']['off']:.0%}"
    if report.get("pools", {}).get("delayed_without_sharing_both", 0):
        yield "a tenant was delayed that does not share both pools"
    if report.get("ordering", {}).get("heads_share", 1) < 0.5:
        yield f"ordered jobs drain at {report['ordering']['heads_share']:.0%} of the unordered rate"


# ------------------------------------------------------------------------------------------------ claims


def _rounds(others: int) -> dict[str, float]:
    """How many rounds until each of the others has started, with a cap for every tenant."""
    claimer = _claimer("fair", queues={"fair": {"tenant_max_running": CAP}})
    wanted, claims = set(range(1, others + 1)), 0
    while wanted and claims < 10 * (others // BATCH + 1):
        claims += 1
        wanted -= {int(job.tenant_id[1:]) for job in _turn(claimer, BATCH) if job.tenant_id.startswith("T")}
    ((most,),) = _sql("select count(*) from djqueue_job where state = 'leased' and tenant_id = 'A'")
    _sql("update djqueue_job set state = 'ready', lease_until = null, leased_by = null, attempts = 0"
         " where state = 'leased'")  # fmt: skip
    return {"claims": claims, "rounds": claims * BATCH / (others + 1), "of_the_great_one": most}


def _claim_times(claim: Callable[[], int]) -> float:
    """The median of claims that are rolled back in the end, in milliseconds."""
    from djqueue.store import db

    times: list[float] = []
    try:
        with db.one_transaction(ALIAS):
            for _ in range(CLAIMS):
                began = time.perf_counter()
                count = claim()
                times.append((time.perf_counter() - began) * 1_000)
                if count != BATCH:
                    raise SystemExit(f"expected claims of {BATCH} jobs, got {count}")
            raise _Undo
    except _Undo:
        _vacuum()
    return statistics.median(times)


class _Undo(Exception):
    """Roll back."""


def _request(limit: int) -> Any:
    from djqueue.store.claim import Request

    return Request(worker_id="bench", limit=limit, free=limit, lease_seconds=300)


def _plain(queue: str) -> int:
    from djqueue.store import claim

    return len(claim.claimed(claim.start_full_claim(ALIAS, _request(BATCH), [(queue, "")])))


def _walking(queue: str) -> Callable[[], int]:
    """As a worker walks, beginning where chance puts it."""
    from djqueue.runtime.walker import Walker
    from djqueue.store.lanes import Walk

    walker = Walker(ALIAS, Walk(queue_name=queue, has_caps=True, tenant_cap=10_000), random.Random(3))
    return lambda: len(walker.claim(_request(BATCH)))


def _step(queue: str, from_lane: str, limit: int) -> int:
    from djqueue.store import step
    from djqueue.store.lanes import Walk

    return len(step.step(ALIAS, _request(limit), Walk(queue_name=queue, from_lane=from_lane)).jobs)


def _claimer(names: str, pool: str = "", **options: Any) -> Any:
    from djqueue.conf import Options
    from djqueue.policy.fair import Pool
    from djqueue.policy.weights import QueueSelection
    from djqueue.runtime.claimer import Claimer
    from djqueue.runtime.plan import Plan

    parsed, problems = Options.parse(options)
    if problems:
        raise SystemExit("\n".join(problems))
    selection = QueueSelection.parse(names)
    plan = Plan(
        backend="default",
        options=parsed,
        selection=selection,
        known_queues=tuple(selection.weights),
        pool=Pool.parse(pool) if pool else None,
    )
    claimer = Claimer(plan, "bench")
    claimer.refresh()
    return claimer


def _turn(claimer: Any, limit: int) -> list[Any]:
    """One exchange of a worker."""
    from djqueue.store import claim, db

    if claimer.is_stale():
        claimer.refresh()
    with db.one_transaction(ALIAS):
        cursor = claimer.start(limit, limit)
    jobs = [] if cursor is None else claim.claimed(cursor)
    if claimer.has_many_lanes and len(jobs) < limit:
        jobs += claimer.steps(limit - len(jobs), limit)
    claimer.learn(jobs, limit)
    return jobs


def _end(jobs: Sequence[Any]) -> None:
    from djqueue.store import finish

    if jobs:
        finish.ack(ALIAS, [finish.Ack(job.id, job.lease_token, 0.1, 0.0, "null") for job in jobs])


# ------------------------------------------------------------------------------------------------ workers and rows


def _work_for(seconds: float, options: dict[str, Any]) -> None:
    """Let one worker process with eight slots work so long."""
    env = {**os.environ, "DJQUEUE_OPTIONS": json.dumps(options)}
    command = [sys.executable, "manage.py", "runworker", "--processes", "1", "-v", "0"]
    worker = subprocess.Popen(command, cwd=ROOT, env=env)
    try:
        time.sleep(seconds)
    finally:
        worker.terminate()
        worker.wait(60)


def _gate(before: int) -> str:
    return f"substr(md5((n + {before})::text), 1, 16)"


def _load(count: int, columns: str, values: str) -> None:
    if count > 0:
        _sql(
            f"insert into djqueue_job (id, task_name, {columns})"
            f" select gen_random_uuid(), 't', {values} from generate_series(1, {count}) n"
        )


def _empty() -> None:
    _sql(
        "truncate djqueue_job, djqueue_history, djqueue_history_overflow, djqueue_lane, djqueue_limiter, djqueue_tenant"
    )


def _vacuum() -> None:
    _sql("vacuum (analyze) djqueue_job")


def _sql(statement: str) -> list[Any]:
    from djqueue.store import db

    return db.rows(ALIAS, statement)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--tenants", default="10,1001,50000")
    parser.add_argument("--closed", type=int, default=500_000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--only", default=",".join(MEASURES))
    parser.add_argument("--json", action="store_true", help="the only form there is")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
