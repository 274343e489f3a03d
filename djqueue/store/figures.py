"""What the control room reads: queue rows, minute statistics, workers, signs of trouble. It writes nothing.

Invariant: no statement here looks at jobs or history one by one: all comes from what the leader and the workers have
summed up, or by an index that holds the few rows in question.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from djqueue.policy.histogram import BUCKETS
from djqueue.store import db

MOST_QUEUES = 500
MOST_TASKS = 200
MOST_NAMED = 5
MOST_ORPHANS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A queue's settings and figures, ages by the database's clock."""

    name: str
    weight: int | None
    target_seconds: float | None
    paused_seconds: float | None
    paused_reason: str
    paused_by: str
    figures_seconds: float | None
    oldest_seconds: float | None
    """At the moment of the figures."""
    ready: int
    scheduled: int
    retrying: int
    parked: int
    leased: int

    @classmethod
    def unknown(cls, name: str) -> "QueueRow":
        """Return the row of a queue of which there are no figures."""
        return cls(
            name=name,
            weight=None,
            target_seconds=None,
            paused_seconds=None,
            paused_reason="",
            paused_by="",
            figures_seconds=None,
            oldest_seconds=None,
            ready=0,
            scheduled=0,
            retrying=0,
            parked=0,
            leased=0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Who works."""

    now: datetime
    workers: int
    silent: int
    slots: int
    served: frozenset[str]
    """Names of queues, `*` where a worker serves all."""
    has_leader: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """Signs of trouble, and the deploys."""

    died: int
    ended: int
    died_in_a_day: int
    causes: list[tuple[str, str, int, float]]
    open_circuits: list[str]
    broken_entries: list[str]
    stopped_replays: list[int]
    versions: list[tuple[str, float]]
    """Versions first seen in the span, and how many seconds ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What ended, in steps of a span; the last step is not over yet."""

    by_outcome: dict[str, list[int]]
    by_queue: dict[str, list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRuns:
    """The attempts of one task in a span."""

    task_name: str
    count: int
    seconds: float
    histogram: list[float]


QUEUES = f"""
select name, weight, target_seconds,
    case when paused_until > statement_timestamp()
        then least(extract(epoch from paused_until - statement_timestamp()), 1e11)::float8 end,
    paused_reason, paused_by, extract(epoch from statement_timestamp() - summary_at)::float8,
    extract(epoch from summary_at - oldest_ready_at)::float8, ready, scheduled, retrying, parked, leased
from djqueue_queue order by name limit {MOST_QUEUES}
"""

FLEET = """
select statement_timestamp(), count(*) filter (where seen_at > statement_timestamp() - interval '90 s'),
    count(*) filter (where seen_at <= statement_timestamp() - interval '90 s'),
    coalesce(sum(slots) filter (where seen_at > statement_timestamp() - interval '90 s'), 0)::bigint,
    array(select distinct q from djqueue_worker w, unnest(w.queues) q
        where w.seen_at > statement_timestamp() - interval '90 s'),
    exists (select from djqueue_leader where name = 'djqueue' and until > statement_timestamp())
from djqueue_worker
"""

# One row: by the index on the minute, by that on the time of the last death, and small tables.
SIGNS = f"""
select coalesce(sum(count) filter (where outcome = 'dead'
        and minute > statement_timestamp() - interval '1 h'), 0)::bigint,
    coalesce(sum(count) filter (where outcome in ('succeeded', 'cancelled', 'dead')
        and minute > statement_timestamp() - interval '1 h'), 0)::bigint,
    coalesce(sum(count) filter (where outcome = 'dead'), 0)::bigint,
    (select jsonb_agg(jsonb_build_array(fingerprint, exception, count,
            extract(epoch from statement_timestamp() - first_seen_at))) from (
        select * from djqueue_error_group where last_seen_at > statement_timestamp() - interval '1 h'
            and first_seen_at > statement_timestamp() - interval '1 h' and state = 'open'
        order by count desc limit {MOST_NAMED}) x),
    (select jsonb_agg(name) from (
        select name from djqueue_circuit where state = 'open' order by name limit {MOST_NAMED}) x),
    (select jsonb_agg(name) from (
        select name from djqueue_cron_entry where last_error <> '' and enabled and removed_at is null
        order by name limit {MOST_NAMED}) x),
    (select jsonb_agg(id) from (
        select id from djqueue_replay where state = 'stopped' and failed > 0
            and finished_at > statement_timestamp() - interval '1 day' order by id desc limit {MOST_NAMED}) x),
    (select jsonb_agg(jsonb_build_array(version, extract(epoch from statement_timestamp() - first_seen_at))) from (
        select * from djqueue_code_version
        where first_seen_at > statement_timestamp() - make_interval(secs => %(span)s::float8)
        order by first_seen_at limit 20) x)
from djqueue_stat where minute > statement_timestamp() - interval '1 day'
"""

# Steps are counted from the one that runs now, which is the last. `date_part` rather than `extract`: floats and whole
# numbers are many times faster than numerics, and a week of minutes may be 200,000 rows. One scan for both charts.
_STEP = """(date_part('epoch', minute)::bigint / %(step)s::int
    - floor(date_part('epoch', statement_timestamp()))::bigint / %(step)s::int + %(steps)s::int - 1)::int"""
_SINCE = """minute >= to_timestamp(%(step)s::int
    * (floor(date_part('epoch', statement_timestamp()) / %(step)s::int) - %(steps)s::int + 1))"""
ENDED = f"""
select b, outcome, queue_name, sum(count)::bigint
from (select {_STEP} as b, outcome, queue_name, count from djqueue_stat where {_SINCE}) x
group by grouping sets ((b, outcome), (b, queue_name))
"""

# Sums of arrays, bucket by bucket: two dozen plain sums are many times faster than unnesting each row.
_WAITS = ", ".join(f"coalesce(sum(w[{n}]::float8), 0)" for n in range(1, BUCKETS + 1))
WAITS = f"""
select b, array[{_WAITS}]
from (select {_STEP} as b, wait_histogram as w from djqueue_stat where {_SINCE} and wait_histogram <> '{{}}') x
group by b
"""
_RUNS = _WAITS.replace("(w[", "(histogram[")
RUNS = f"""
select task_name, sum(count)::bigint, sum(seconds)::float8, array[{_RUNS}]
from djqueue_stat where {_SINCE} group by task_name order by sum(seconds) desc, task_name limit {MOST_TASKS}
"""

# From reason to reason by single index descents, then so many of each at the most: jobs set aside may be many.
ORPHANS = f"""
with recursive r(reason) as (
    (select parked_for from djqueue_job where parked_for >= 'task:' and parked_for < 'task;'
        order by parked_for limit 1)
    union all
    select (select j.parked_for from djqueue_job j where j.parked_for > r.reason and j.parked_for < 'task;'
        order by j.parked_for limit 1)
    from r where r.reason is not null)
select substr(r.reason, 6), n.jobs, n.queues, extract(epoch from statement_timestamp() - n.oldest)::float8
from (select reason from r where reason is not null limit %(most)s) r cross join lateral (
    select count(*) as jobs, array_agg(distinct queue_name) as queues, min(created_at) as oldest from (
        select queue_name, created_at from djqueue_job where parked_for = r.reason limit {MOST_ORPHANS}) x) n
"""


# All live leases, of which there are no more than slots and a few that are about to start: by queue and tenant (the
# gate is empty then), and by each gate of their lanes.
LEASES = """
select j.queue_name, '', j.tenant_id, count(*)::int from djqueue_job j where j.state = 'leased' group by 1, 3
union all
select j.queue_name, g.gate, '', count(*)::int from djqueue_job j
cross join lateral unnest(string_to_array(j.lane, ':')) g(gate) where j.state = 'leased' and j.lane <> '' group by 1, 2
"""


def queues(alias: str) -> list[QueueRow]:
    """Return the rows of at most 500 queues, by name."""
    return [
        QueueRow(
            name=name,
            weight=weight,
            target_seconds=target,
            paused_seconds=paused,
            paused_reason=reason,
            paused_by=by,
            figures_seconds=age,
            oldest_seconds=None if oldest is None else max(0.0, oldest),
            ready=ready,
            scheduled=scheduled,
            retrying=retrying,
            parked=parked,
            leased=leased,
        )
        for name, weight, target, paused, reason, by, age, oldest, ready, scheduled, retrying, parked, leased in (
            db.rows(alias, QUEUES)
        )
    ]


def fleet(alias: str) -> Fleet:
    """Return who works now."""
    [(now, workers, silent, slots, served, has_leader)] = db.rows(alias, FLEET)
    return Fleet(now=now, workers=workers, silent=silent, slots=slots, served=frozenset(served), has_leader=has_leader)


def signs(alias: str, span_seconds: float) -> Signs:
    """Return signs of trouble, and the versions first seen within the span."""
    [(died, ended, in_a_day, causes, circuits, entries, replays, versions)] = db.rows(
        alias, SIGNS, {"span": span_seconds}
    )
    return Signs(
        died=died,
        ended=ended,
        died_in_a_day=in_a_day,
        causes=[(print_, name, int(deaths), float(ago)) for print_, name, deaths, ago in _json(causes)],
        open_circuits=_json(circuits),
        broken_entries=_json(entries),
        stopped_replays=_json(replays),
        versions=[(version, float(ago)) for version, ago in _json(versions)],
    )


def ended(alias: str, step_seconds: int, steps: int) -> Ended:
    """Return what ended in so many steps up to now, by outcome and by queue."""
    by_outcome: dict[str, list[int]] = {}
    by_queue: dict[str, list[int]] = {}
    for place, outcome, queue, count in db.rows(alias, ENDED, {"step": step_seconds, "steps": steps}):
        row = by_outcome.setdefault(outcome, [0] * steps) if queue is None else by_queue.setdefault(queue, [0] * steps)
        if 0 <= place < steps:
            row[place] += count
    return Ended(by_outcome=by_outcome, by_queue=by_queue)


def waits(alias: str, step_seconds: int, steps: int) -> dict[int, list[float]]:
    """Return the histograms of waits, by step."""
    return dict(db.rows(alias, WAITS, {"step": step_seconds, "steps": steps}))


def runs(alias: str, step_seconds: int, steps: int) -> list[TaskRuns]:
    """Return the attempts by task, those first that took most time in all."""
    return [
        TaskRuns(task_name=name, count=count, seconds=seconds, histogram=histogram)
        for name, count, seconds, histogram in db.rows(alias, RUNS, {"step": step_seconds, "steps": steps})
    ]


def orphans(alias: str, most: int = MOST_NAMED) -> list[tuple[str, int, Sequence[str], float]]:
    """Return tasks that no worker knows: name, jobs (counted up to 10,000), queues, age of the oldest in seconds."""
    return [tuple(row) for row in db.rows(alias, ORPHANS, {"most": most})]


def leases(alias: str) -> list[tuple[str, str, str, int]]:
    """Return how many jobs are leased: queue, gate, tenant, count.

    Rows without a gate count each lease once; those with a gate have no tenant.
    """
    return [(queue, gate, tenant, count) for queue, gate, tenant, count in db.rows(alias, LEASES)]


def _json(value: Any) -> list[Any]:
    """Return what an aggregate has collected. A connection of Django's gives its text, a bookkeeping one the value."""
    found: list[Any] | None = json.loads(value) if isinstance(value, str) else value
    return found or []
