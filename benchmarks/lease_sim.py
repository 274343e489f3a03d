"""What the length of a lease costs, and what a heartbeat buys: three settings on the queue in memory.

    python -m benchmarks.lease_sim [--json]

Three workers, one slot each, run twelve jobs of two seconds, one of which takes thirty; one worker dies five seconds in
and is never replaced. Time goes in steps of half a second and passes in no time; every figure is exact, and the same on
every machine. The queue is `benchmarks.model`, which the real store is tested against.
"""

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field

from benchmarks.model import Lease, ModelQueue

STEP_SECONDS = 0.5
HORIZON_SECONDS = 300.0
JOBS = 12
SHORT_SECONDS, LONG_SECONDS = 2.0, 30.0
LONG_JOB = 4
WORKERS = 3
CRASH_AT_SECONDS, CRASHED_WORKER = 5.0, 2
MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How long a lease lasts, and how often it is extended while its worker lives."""

    lease_seconds: float
    heartbeat_seconds: float | None


SETTINGS = {
    "short lease": Setting(lease_seconds=6, heartbeat_seconds=None),
    "long lease": Setting(lease_seconds=60, heartbeat_seconds=None),
    "short lease, heartbeat": Setting(lease_seconds=6, heartbeat_seconds=2),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What came of one setting."""

    completed: int
    expiries: int
    """Leases that ended before their job."""
    ran_twice: int
    """Jobs whose handler was started more than once."""
    stale_acks_rejected: int
    dead: int
    crashed_job_again_after_seconds: float | None
    """From the crash to the next start of the job that it cut short."""


@dataclass(slots=True)
class _Worker:
    lease: Lease | None = None
    done_at: float = 0
    beat_at: float = 0
    alive: bool = True


@dataclass(slots=True)
class _Counts:
    starts: Counter[int] = field(default_factory=Counter)
    expiries: int = 0
    rejected: int = 0
    cut_short: int | None = None
    again_at: float | None = None


def main() -> int:
    """Simulate, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lease_sim", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    as_json = parser.parse_args().json
    found = {name: simulate(setting) for name, setting in SETTINGS.items()}
    if as_json:
        report = {name: {**asdict(SETTINGS[name]), **asdict(each)} for name, each in found.items()}
        print(json.dumps({"benchmark": "lease_sim", "settings": report}, indent=2))
    else:
        print(_table(found))
    return 0


def simulate(setting: Setting) -> Found:
    """Run one setting until all jobs have ended, or to the horizon."""
    queue, counts = ModelQueue(), _Counts()
    workers = [_Worker() for _ in range(WORKERS)]
    for _ in range(JOBS):
        queue.enqueue(0, max_attempts=MAX_ATTEMPTS)
    now = 0.0
    while now < HORIZON_SECONDS and (queue.live or any(w.alive and w.lease for w in workers)):
        if now == CRASH_AT_SECONDS:
            _crash(workers[CRASHED_WORKER], counts)
        _reap(queue, counts, now)
        for worker in workers:
            if worker.alive:
                _work(worker, queue, counts, setting, now)
        now += STEP_SECONDS
    again = None if counts.again_at is None else counts.again_at - CRASH_AT_SECONDS
    return Found(
        completed=len(queue.history),
        expiries=counts.expiries,
        ran_twice=sum(1 for starts in counts.starts.values() if starts > 1),
        stale_acks_rejected=counts.rejected,
        dead=len(queue.dead),
        crashed_job_again_after_seconds=again,
    )


def _crash(worker: _Worker, counts: _Counts) -> None:
    worker.alive = False
    counts.cut_short = worker.lease.id if worker.lease else None


def _reap(queue: ModelQueue, counts: _Counts, now: float) -> None:
    counts.expiries += len(queue.reap(now, 0))


def _work(worker: _Worker, queue: ModelQueue, counts: _Counts, setting: Setting, now: float) -> None:
    """One step of a living worker: beat, ack what is done, start the next."""
    if worker.lease is not None:
        if setting.heartbeat_seconds is not None and now >= worker.beat_at:
            queue.heartbeat(now, [worker.lease], setting.lease_seconds, 0)
            worker.beat_at = now + setting.heartbeat_seconds
        if now < worker.done_at:
            return
        counts.rejected += not queue.ack(now, worker.lease)
        worker.lease = None
    taken = queue.claim(now, 1, 1, setting.lease_seconds) or queue.claim_suspect(now, setting.lease_seconds)
    for lease in taken:
        counts.starts[lease.id] += 1
        if lease.id == counts.cut_short and counts.again_at is None:
            counts.again_at = now
        worker.lease = lease
        worker.done_at = now + (LONG_SECONDS if lease.id == LONG_JOB else SHORT_SECONDS)
        worker.beat_at = now + (setting.heartbeat_seconds or 0)


def _table(found: dict[str, Found]) -> str:
    lines = [f"{'':<24}{'completed':>10}{'expiries':>10}{'ran twice':>11}{'stale acks':>12}{'dead':>6}  again after"]
    for name, each in found.items():
        again = each.crashed_job_again_after_seconds
        lines.append(
            f"{name:<24}{each.completed:>10}{each.expiries:>10}{each.ran_twice:>11}{each.stale_acks_rejected:>12}"
            f"{each.dead:>6}  " + ("never" if again is None else f"{again:.1f} s")
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
