"""The workloads by name: how each is measured, which figure is compared, and who takes part."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.compare import measures
from benchmarks.compare.databases import Databases
from benchmarks.compare.measures import CONCURRENCY, SHORT_IDEAL, Measured, Scale
from benchmarks.compare.programs import Contender


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One row of the comparison."""

    name: str
    title: str
    measure: Callable[[Contender, Databases, Scale, float], Measured]
    """From a contender and its guessed rate to its figures."""
    figure: str
    """Which of the figures is compared."""
    unit: str
    better: str = "higher"
    suits: Callable[[Contender], str] = lambda contender: ""
    """Why a contender does not take part; empty: it does."""
    rounds: int = 0
    """How often, where that differs from the rest; 0: as often as the rest."""


def _enqueues(contender: Contender) -> str:
    return _as_itself(contender) or ("for bulk only" if contender.peer.name == "copy" else "")


def _enqueues_many(contender: Contender) -> str:
    return _as_itself(contender)


def _drains(contender: Contender) -> str:
    return "it only enqueues" if contender.peer.worker is None else ""


def _waits(contender: Contender) -> str:
    if contender.peer.name in ("bare", "copy"):
        return "the floor has no worker that waits"
    return _as_itself(contender)


def _drains_beside_others(contender: Contender) -> str:
    if contender.peer.store != "postgresql" or not (contender.peer.scheduled or contender.peer.finished):
        return "no statement to fill its tables"
    return _drains(contender)


def _can_be_due(contender: Contender) -> str:
    return (
        _drains(contender) or _as_itself(contender) or ("" if contender.peer.scheduled else "no statement to fill it")
    )


def _is_swift(contender: Contender) -> str:
    swift = ("djqueue", "pgqueuer", "pgqueuer-tuned", "oban")
    return "" if contender.peer.name in swift else "only djqueue, PgQueuer and Oban: the others take too long"


def _as_itself(contender: Contender) -> str:
    return "the same as without tuning" if contender.peer.name.endswith("-tuned") else ""


WORKLOADS = (
    Workload(
        name="single",
        title="single enqueue",
        measure=measures.single,
        figure="jobs/s",
        unit="jobs/s",
        suits=_enqueues,
    ),
    Workload(
        name="bulk",
        title="bulk enqueue, 20,000 per call",
        measure=measures.bulk,
        figure="jobs/s",
        unit="jobs/s",
        suits=_enqueues_many,
    ),
    Workload(
        name="drain",
        title="drain no-op jobs, 1 process",
        measure=measures.drain(1),
        figure="jobs/s",
        unit="jobs/s",
        suits=_drains,
    ),
    Workload(
        name="drain2",
        title="drain no-op jobs, 2 processes",
        measure=measures.drain(2),
        figure="jobs/s",
        unit="jobs/s",
        suits=_drains,
    ),
    Workload(
        name="short",
        title=f"10 ms jobs, {CONCURRENCY} at a time (ideal {SHORT_IDEAL:,.0f})",
        measure=measures.short,
        figure="jobs/s",
        unit="jobs/s",
        suits=_waits,
    ),
    Workload(
        name="latency",
        title="idle start latency",
        measure=measures.latency,
        figure="p50",
        unit="ms",
        better="lower",
        suits=_waits,
    ),
    Workload(
        name="crowded",
        title="drain beside 1,000,000 finished and 500,000 scheduled jobs",
        measure=measures.crowded,
        figure="jobs/s",
        unit="jobs/s",
        suits=_drains_beside_others,
    ),
    Workload(
        name="due",
        title="500,000 jobs due at one instant",
        measure=measures.due,
        figure="jobs/s",
        unit="jobs/s",
        suits=_can_be_due,
        rounds=1,
    ),
    Workload(
        name="snapshot",
        title="200,000 jobs under an old snapshot: claim time, last tenth ÷ first",
        measure=measures.snapshot,
        figure="last tenth ÷ first",
        unit="times",
        better="lower",
        suits=_is_swift,
        rounds=1,
    ),
    Workload(
        name="committers-none",
        title="enqueue from 8 connections, no worker",
        measure=measures.committers("none"),
        figure="jobs/s",
        unit="jobs/s",
        suits=_waits,
    ),
    Workload(
        name="committers-asleep",
        title="enqueue from 8 connections, an idle worker",
        measure=measures.committers("asleep"),
        figure="jobs/s",
        unit="jobs/s",
        suits=_waits,
    ),
    Workload(
        name="committers-awake",
        title="enqueue from 8 connections, a busy worker",
        measure=measures.committers("awake"),
        figure="jobs/s",
        unit="jobs/s",
        suits=_waits,
    ),
)
LATER = {
    "tenants": "50,000 tenants of which one has a million jobs: needs fair queues, which djqueue does not have yet"
}
