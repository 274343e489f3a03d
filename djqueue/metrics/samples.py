"""From the rows of one database to samples. It knows nothing of Prometheus' library.

Invariant: names of queues, tasks and circuits make at most 100 values of a label each; the rest, in the order of their
names, is summed as `other`, so that what is summed stays whole.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from djqueue.policy.health import TARGET_SECONDS
from djqueue.policy.histogram import merged, quantile
from djqueue.policy.wanted import Demand, workers_wanted
from djqueue.store import figures, metrics
from djqueue.store.figures import Fleet, QueueRow
from djqueue.store.metrics import WINDOW_MINUTES, CircuitRow, Lately

MOST_VALUES = 100
OTHER = "other"
QUANTILES = (0.5, 0.95, 0.99)
WINDOW_SECONDS = WINDOW_MINUTES * 60.0

Sample = tuple[str, tuple[str, ...], float]
"""A metric's name, the values of its own labels, and its value."""


@dataclass(frozen=True, slots=True)
class Names:
    """The values that a label may have."""

    kept: frozenset[str]

    @classmethod
    def of(cls, names: Iterable[str]) -> "Names":
        """Keep the first hundred by name."""
        return cls(frozenset(sorted(set(names))[:MOST_VALUES]))

    def __getitem__(self, name: str) -> str:
        return name if name in self.kept else OTHER


def samples(alias: str) -> list[Sample]:
    """Return all samples of a database, in four statements."""
    queues, fleet = figures.queues(alias), figures.fleet(alias)
    lately, circuits = metrics.lately(alias), metrics.circuits(alias)
    return [*_queues(queues), *_attempts(lately), *_fleet(queues, fleet, lately), *_circuits(circuits)]


def _queues(rows: Sequence[QueueRow]) -> Iterator[Sample]:
    names = Names.of(row.name for row in rows)
    jobs: dict[tuple[str, ...], float] = {}
    ages: dict[tuple[str, ...], float] = {}
    paused: dict[tuple[str, ...], float] = {}
    for row in rows:
        name = names[row.name]
        for state, count in _states(row).items():
            jobs[name, state] = jobs.get((name, state), 0) + count
        ages[(name,)] = max(ages.get((name,), 0.0), row.oldest_seconds or 0.0)
        paused[(name,)] = max(paused.get((name,), 0), int(row.paused_seconds is not None))
    yield from _each("djqueue_jobs", jobs)
    yield from _each("djqueue_oldest_ready_age_seconds", ages)
    yield from _each("djqueue_queue_paused", paused)
    known = [row.figures_seconds for row in rows if row.figures_seconds is not None]
    if known:
        yield "djqueue_summary_age_seconds", (), max(known)


def _states(row: QueueRow) -> dict[str, int]:
    """Jobs by state. Those that wait for another attempt are told apart from the scheduled ones."""
    return {
        "ready": row.ready,
        "scheduled": row.scheduled - row.retrying,
        "retrying": row.retrying,
        "parked": row.parked,
        "leased": row.leased,
    }


def _attempts(rows: Sequence[Lately]) -> Iterator[Sample]:
    names = Names.of(row.task_name for row in rows)
    counts: dict[tuple[str, ...], float] = {}
    totals: dict[tuple[str, ...], tuple[int, float]] = {}
    for row in rows:
        name = names[row.task_name]
        counts[name, row.outcome] = counts.get((name, row.outcome), 0) + row.count
        count, seconds = totals.get((name,), (0, 0.0))
        totals[(name,)] = count + row.count, seconds + row.seconds
    yield from _each("djqueue_attempts_per_second", {key: count / WINDOW_SECONDS for key, count in counts.items()})
    means = {key: seconds / count for key, (count, seconds) in totals.items() if count}
    yield from _each("djqueue_attempt_mean_seconds", means)
    yield from _quantiles("djqueue_attempt_run_seconds", merged([row.runs for row in rows]))
    yield from _quantiles("djqueue_attempt_wait_seconds", merged([row.waits for row in rows]))


def _quantiles(metric: str, counts: Sequence[float]) -> Iterator[Sample]:
    for part in QUANTILES:
        seconds = quantile(counts, part)
        if seconds is not None:
            yield metric, (str(part),), seconds


def _fleet(queues: Sequence[QueueRow], fleet: Fleet, lately: Sequence[Lately]) -> Iterator[Sample]:
    demand = Demand(
        attempts=sum(row.count for row in lately),
        attempt_seconds=sum(row.seconds for row in lately),
        window_seconds=WINDOW_SECONDS,
        waiting=[(row.ready, row.target_seconds or TARGET_SECONDS) for row in queues if row.paused_seconds is None],
        slots_per_worker=fleet.slots / fleet.workers if fleet.workers else None,
    )
    yield "djqueue_workers", (), fleet.workers
    yield "djqueue_workers_silent", (), fleet.silent
    yield "djqueue_workers_wanted", (), workers_wanted(demand)
    yield "djqueue_slots", (), fleet.slots
    yield "djqueue_slots_busy", (), sum(row.leased for row in queues)
    yield "djqueue_leader", (), int(fleet.has_leader)


def _circuits(rows: Sequence[CircuitRow]) -> Iterator[Sample]:
    names = Names.of(row.name for row in rows)
    found: dict[tuple[str, tuple[str, ...]], float] = {}
    for row in rows:
        name = names[row.name]
        for metric, labels, value in (
            ("djqueue_circuits", (name, row.state), 1),
            ("djqueue_circuit_calls_total", (name,), row.calls),
            ("djqueue_circuit_failures_total", (name,), row.failures),
            ("djqueue_circuit_openings_total", (name,), row.opened),
        ):
            found[metric, labels] = found.get((metric, labels), 0) + value
    yield from ((metric, labels, value) for (metric, labels), value in found.items())


def _each(metric: str, values: Mapping[tuple[str, ...], float]) -> Iterator[Sample]:
    yield from ((metric, labels, value) for labels, value in values.items())
