"""Every metric there is: its kind, its labels, and what it says. The documentation's table is tested against it.

Invariant: names end in their unit, seconds; only what never falls but by deleting a row is a counter.
"""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How Prometheus treats a metric."""

    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric; each has the label `database`, an alias, before its own."""

    help: str
    labels: tuple[str, ...] = ()
    kind: Kind = Kind.GAUGE


METRICS = {
    "djqueue_jobs": Metric(help="Jobs by queue and state, as of the last summary.", labels=("queue", "state")),
    "djqueue_oldest_ready_age_seconds": Metric(
        help="Age of the oldest ready job at the last summary; 0 where none is ready.", labels=("queue",)
    ),
    "djqueue_queue_paused": Metric(help="1 where the queue is paused.", labels=("queue",)),
    "djqueue_summary_age_seconds": Metric(help="Age of the oldest summary of a queue; absent where there is none."),
    "djqueue_attempts_per_second": Metric(
        help="Attempts that ended, per second, over the last five whole minutes.", labels=("task", "outcome")
    ),
    "djqueue_attempt_mean_seconds": Metric(
        help="Mean run time of the attempts that ended in the last five whole minutes.", labels=("task",)
    ),
    "djqueue_attempt_run_seconds": Metric(
        help="Run time of the attempts that ended in the last five whole minutes.", labels=("quantile",)
    ),
    "djqueue_attempt_wait_seconds": Metric(
        help="Time from due to started of the attempts that ended in the last five whole minutes.",
        labels=("quantile",),
    ),
    "djqueue_workers": Metric(help="Worker processes seen in the last 90 seconds."),
    "djqueue_workers_silent": Metric(help="Worker processes that have a row and were not seen for 90 seconds."),
    "djqueue_workers_wanted": Metric(help="Worker processes that the present load needs, by Little's law."),
    "djqueue_slots": Metric(help="Slots of the worker processes seen in the last 90 seconds."),
    "djqueue_slots_busy": Metric(help="Jobs under a lease, as of the last summary."),
    "djqueue_leader": Metric(help="1 where somebody holds the leader lease."),
    "djqueue_circuits": Metric(help="Circuits by name and state.", labels=("circuit", "state")),
    "djqueue_circuit_calls_total": Metric(
        help="Calls that a circuit has counted.", labels=("circuit",), kind=Kind.COUNTER
    ),
    "djqueue_circuit_failures_total": Metric(
        help="Failed calls that a circuit has counted.", labels=("circuit",), kind=Kind.COUNTER
    ),
    "djqueue_circuit_openings_total": Metric(
        help="How often a circuit has opened.", labels=("circuit",), kind=Kind.COUNTER
    ),
}
