"""How the workloads are measured: each runs one contender once, on a fresh store, and returns figures.

Handlers write to the ledger, which says how often each job ran, and when: rates are taken from the first start until
the contender's own tables hold no job that has not ended, so that nobody pays for its start-up and nobody gains by
acking late. A run in which a job ran twice, or not at all, is no run.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.compare.claims import watched_claims
from benchmarks.compare.databases import Databases
from benchmarks.compare.programs import Contender, RunFailed
from benchmarks.compare.run import Run, fresh_run

CONCURRENCY = 16
SHORT_IDEAL = CONCURRENCY / 0.01
BULK = 20_000
SETTLE_SECONDS = 2.0
"""An idle worker has said that it listens, and runs dry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How long a run takes, and how much stands in its way."""

    seconds: float = 5
    latency_jobs: int = 200
    finished: int = 1_000_000
    scheduled: int = 500_000
    due: int = 500_000
    due_after: float = 40
    """Seconds from the beginning of the filling to the instant."""
    window: float = 60
    snapshot_jobs: int = 200_000
    clients: int = 8


Measured = dict[str, float]


def single(contender: Contender, databases: Databases, scale: Scale, guess: float) -> Measured:
    """Enqueue one job per transaction, nobody listening."""
    with fresh_run(contender, databases) as run:
        said = run.call("single", scale.seconds, 0)
        _expect_rows(run, int(said["jobs"]))
    return {"jobs/s": said["jobs"] / said["seconds"], "jobs": said["jobs"]}


def bulk(contender: Contender, databases: Databases, scale: Scale, guess: float) -> Measured:
    """Enqueue 20,000 jobs in a call, again and again."""
    with fresh_run(contender, databases) as run:
        said = run.call("bulk", BULK, scale.seconds)
        _expect_rows(run, int(said["jobs"]))
    return {"jobs/s": said["jobs"] / said["seconds"], "jobs": said["jobs"]}


def drain(processes: int) -> Callable[[Contender, Databases, Scale, float], Measured]:
    """Run no-op jobs that are all there before the worker starts."""

    def measure(contender: Contender, databases: Databases, scale: Scale, guess: float) -> Measured:
        with fresh_run(contender, databases) as run:
            return _drained(run, max(200, int(guess * scale.seconds)), processes)

    return measure


def crowded(contender: Contender, databases: Databases, scale: Scale, guess: float) -> Measured:
    """Run no-op jobs beside many finished and many scheduled ones."""
    ballast = {"finished": scale.finished, "scheduled": scale.scheduled}
    with fresh_run(contender, databases, "crowded", **ballast) as run:
        return _drained(run, max(200, int(guess * scale.seconds)), 1)


def short(contender: Contender, databases: Databases, scale: Scale, guess: float) -> Measured:
    """Run jobs that wait 10 ms, 16 at a time."""
    with fresh_run(contender, databases) as run:
        jobs = max(100, int(min(guess, SHORT_IDEAL) * scale.seconds))
        run.call("bulk", jobs, 0, "short")
        with run.worker(1, CONCURRENCY, "short"):
            end = run.wait_for_end(jobs)
        rate = jobs / run.account(jobs).seconds(end)
    return {"jobs/s": rate, "jobs": jobs, "share of the ideal": rate / SHORT_IDEAL}


def latency(contender: Contender, databases: Databases, scale: Scale, guess: float) -> Measured:
    """Enqueue one job after another; how soon does the idle worker start it, from the call to the handler?"""
    with fresh_run(contender, databases) as run:
        with run.worker(1, CONCURRENCY):
            time.sleep(SETTLE_SECONDS)
            _warm_up(run)
            moments = run.call("paced", scale.latency_jobs)["moments"]
            run.wait_for(scale.latency_jobs + 1)
        starts = run.account(None).moments
    waits = sorted((starts[number] - at) * 1000 for number, at in enumerate(moments))
    return {"p50": _share(waits, 0.5), "p95": _share(waits, 0.95), "p99": _share(waits, 0.99), "jobs": len(waits)}


def due(contender: Contender, databases: Databases, scale: Scale, guess: float) -> Measured:
    """Many scheduled jobs become due at one instant, while an idle worker waits. Who needs longer than the window is
    measured by what it started within it."""
    with fresh_run(contender, databases) as run:
        instant = time.time() + scale.due_after
        fill = contender.peer.scheduled.format(count=scale.due, seconds=scale.due_after)
        run.databases.execute(fill, run.database)
        run.databases.execute("vacuum (analyze)", run.database)
        run.databases.execute("checkpoint", run.database)
        with run.worker():
            time.sleep(max(0.0, instant - time.time()))
            run.wait_for(scale.due, until=time.time() + scale.window)
            end = time.time()
        account = run.account(None)
    began = min(at for _, _, at in account.starts)
    started = sum(at <= end for _, _, at in account.starts)
    return {"jobs/s": started / (end - began), "jobs": started, "first start after ms": (began - instant) * 1000}


def snapshot(contender: Contender, databases: Databases, scale: Scale, guess: float) -> Measured:
    """Run many jobs while another connection holds an old snapshot: dead rows can't be removed. By the server's log,
    how much longer do claims take in the end than in the beginning? Who needs longer than the window is measured by
    what it has done within it."""
    with fresh_run(contender, databases) as run, watched_claims(run, contender.peer.claim) as claims:
        with old_snapshot(run):
            run.call("bulk", scale.snapshot_jobs, 0)
            with run.worker():
                run.wait_for(1)
                run.wait_for(scale.snapshot_jobs, until=time.time() + scale.window)
                end = time.time()
        account = run.account(None)
        first, last = claims.tenths()
    jobs = len(account.starts)
    return {
        "last tenth ÷ first": last / first,
        "claim p50 first tenth ms": first,
        "claim p50 last tenth ms": last,
        "jobs/s": jobs / account.seconds(end),
        "jobs": jobs,
    }


def committers(state: str) -> Callable[[Contender, Databases, Scale, float], Measured]:
    """Enqueue from several connections at once, with the worker asleep (nothing to do) or awake (a backlog)."""

    def measure(contender: Contender, databases: Databases, scale: Scale, guess: float) -> Measured:
        backlog = int(guess * (scale.seconds + 5)) if state == "awake" else 0
        with fresh_run(contender, databases) as run:
            if backlog:
                run.call("bulk", backlog, 0)
            with run.worker() if state != "none" else contextlib.nullcontext():
                if state == "asleep":
                    time.sleep(SETTLE_SECONDS)
                elif state == "awake":
                    run.wait_for(min(1_000, backlog // 2))
                said = _side_by_side(run, scale)
            run.account(None)
        return {"jobs/s": sum(s["jobs"] / s["seconds"] for s in said), "jobs": sum(s["jobs"] for s in said)}

    return measure


def _drained(run: Run, jobs: int, processes: int) -> Measured:
    run.call("bulk", jobs, 0)
    if run.peer.store == "postgresql":
        run.databases.execute("vacuum (analyze)", run.database)
        run.databases.execute("checkpoint", run.database)
    with run.worker(processes):
        end = run.wait_for_end(jobs)
    seconds = run.account(jobs).seconds(end)
    return {"jobs/s": jobs / seconds, "jobs": jobs, "seconds": seconds}


def _expect_rows(run: Run, jobs: int) -> None:
    left = run.left()
    if run.peer.left and left != jobs:
        raise RunFailed(f"{run.peer.label}: enqueued {jobs} jobs, but its tables hold {left}")


def _warm_up(run: Run) -> None:
    """The first job of all takes longer for everybody: imports, connections, prepared statements."""
    run.call("single", 0, 1_000_000)
    run.wait_for(1)


def _side_by_side(run: Run, scale: Scale) -> list[dict[str, float]]:
    firsts = [2_000_000 + 1_000_000 * client for client in range(scale.clients)]
    processes = [run.start("single", scale.seconds, first) for first in firsts]
    return [run.answer(process) for process in processes]


@contextlib.contextmanager
def old_snapshot(run: Run) -> Iterator[None]:
    import psycopg

    with psycopg.connect(run.env["DATABASE_URL"]) as connection:
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("select txid_current()")
        yield
        connection.rollback()


def _share(values: list[float], share: float) -> float:
    return round(values[min(len(values) - 1, int(share * len(values)))], 2)
