"""Taking jobs: `ready` rows become `leased` ones, in one statement that can't take more than it was asked for.

    (queue, lane, priority ↓, run_at, seq)      the claim index holds claimable rows only
     ├─ places: start at the mark of each place     every claim: a few index descents
     ├─ full:   start at the head of each lane      once a second and on every short answer: finds what marks pass over
     └─ step:   from lane to lane, round robin      queues with many lanes

Invariants: every claim mints a token greater than all before it for that job, and counts one attempt. A job on its last
attempt is taken only for a slot that is free now, so that none dies without having started.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from djqueue.policy.ageing import Level
from djqueue.store import db

Cursor = psycopg.Cursor[db.Row]


NO_QUOTA = 1_000_000


class Claimed(NamedTuple):
    """A job in a worker's hands. (A named tuple: there may be ten thousand a second.)"""

    id: UUID
    lease_token: int
    attempts: int
    max_attempts: int
    queue_name: str
    lane: str
    priority: int
    run_at: float
    """Seconds since the epoch, for marks."""
    task_name: str
    timeout_seconds: float | None
    interruptions: int
    runs: int
    suspect: bool
    created_at: float
    args: str
    errors: str
    options: str
    seq: int = 0
    expires_in: float | None = None
    """Seconds from the claim on within which it may be started; None: whenever."""
    tenant_id: str = ""
    ordering_key: str | None = None


class Place(NamedTuple):
    """Where an everyday claim looks: one priority of one lane, from a mark (seconds since the epoch) on."""

    queue_name: str
    lane: str
    priority: int
    mark: float
    quota: int = NO_QUOTA
    """The most jobs from here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Who claims, how much and for how long."""

    worker_id: str
    limit: int
    """Jobs at the most."""
    free: int
    """Slots that are free now: the most jobs on their last attempt."""
    lease_seconds: float
    strangers: list[str] = field(default_factory=list)
    """Tasks to leave out, because this worker does not know them and another live one does."""


_COLUMNS = """j.id, j.lease_token, j.attempts, j.max_attempts, j.queue_name, j.lane, j.priority,
    extract(epoch from j.run_at)::float8, j.task_name, j.timeout_seconds, j.interruptions, j.runs, j.suspect,
    extract(epoch from j.created_at)::float8, j.args::text, j.errors::text, j.options::text,
    j.seq, extract(epoch from j.expires_at - clock_timestamp())::float8, j.tenant_id,
    j.ordering_key"""
_PICK = "ctid as t, attempts + 1 >= max_attempts as last"
_CLAIMABLE = "state = 'ready' and not suspect and task_name <> all(%(strangers)s::text[])"
# The rows in c are locked; those not kept are let go at commit.
_KEPT = """kept as (
    select t from (select t, last, sum(last::int) over (rows unbounded preceding) as lasts from c) x
    where not last or lasts <= %(free)s)"""
# By ctid: a TID scan whatever the plan cache believes. The token is microseconds of the clock, or one more than the
# last: strictly growing per job.
_TAKE = f"""update djqueue_job j set state = 'leased', attempts = j.attempts + 1,
    lease_token = greatest(j.lease_token + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint),
    lease_until = clock_timestamp() + make_interval(secs => %(lease)s), leased_by = %(worker)s, started_at = null,
    worker_ids = j.worker_ids || %(worker)s::text
where j.ctid = any(array(select t from kept)) returning {_COLUMNS}"""

# Everyday form. `materialized` and the array keep the limit under any plan: a row may not be locked twice.
CLAIM = f"""
with c as materialized (
    select r.t, r.last
    from unnest(%(queues)s::text[], %(lanes)s::text[], %(priorities)s::smallint[], %(marks)s::float8[],
        %(quotas)s::int[]) with ordinality p(queue_name, lane, priority, mark, quota, n)
    cross join lateral (select * from (
        select {_PICK} from djqueue_job
        where queue_name = p.queue_name and lane = p.lane and priority = p.priority
            and run_at >= to_timestamp(p.mark) and {_CLAIMABLE}
        order by run_at, seq limit %(limit)s for no key update skip locked) y limit p.quota) r
    limit %(limit)s),
{_KEPT}
{_TAKE}
"""

# The same without marks and priorities: sees everything that is claimable in these lanes.
CLAIM_FULL = f"""
with c as materialized (
    select r.t, r.last
    from unnest(%(queues)s::text[], %(lanes)s::text[], %(quotas)s::int[]) with ordinality p(queue_name, lane, quota, n)
    cross join lateral (select * from (
        select {_PICK} from djqueue_job
        where queue_name = p.queue_name and lane = p.lane and {_CLAIMABLE}
        order by priority desc, run_at, seq limit %(limit)s for no key update skip locked) y limit p.quota) r
    limit %(limit)s),
{_KEPT}
{_TAKE}
"""

# The queues that have claimable jobs, by one index descent each.
QUEUES = """
with recursive q(queue_name) as (
    (select queue_name from djqueue_job where state = 'ready' and not suspect order by queue_name limit 1)
    union all
    select (select j.queue_name from djqueue_job j where j.state = 'ready' and not j.suspect
        and j.queue_name > q.queue_name order by j.queue_name limit 1)
    from q where q.queue_name is not null)
select queue_name from q where queue_name is not null
"""

# The priorities that have claimable jobs in lane '', each with its oldest: an index descent for each.
LEVELS = """
with recursive l(priority, run_at) as (
    (select priority, run_at from djqueue_job
        where queue_name = %(queue)s and lane = '' and state = 'ready' and not suspect
        order by priority desc, run_at, seq limit 1)
    union all
    select n.priority, n.run_at from l cross join lateral (
        select z.priority, z.run_at from djqueue_job z
        where z.queue_name = %(queue)s and z.lane = '' and z.state = 'ready' and not z.suspect
            and z.priority < l.priority
        order by z.priority desc, z.run_at, z.seq limit 1) n)
select priority, extract(epoch from run_at)::float8 from l
"""

# Suspects were started when a worker was lost: they run alone, one at a time, in a worker of their own. They are few,
# so each is looked at by itself: whether a gate of its lane is closed.
_NOT_GATED = """not exists (select from djqueue_lane g where g.queue_name in (j.queue_name, '')
    and g.lane = any(string_to_array(j.lane, ':')) and g.closed_until > clock_timestamp())"""
CLAIM_SUSPECT = f"""
with c as materialized (
    select {_PICK} from djqueue_job j
    where queue_name = any(%(queues)s::text[]) and state = 'ready' and suspect
        and task_name <> all(%(strangers)s::text[]) and {_NOT_GATED}
    order by run_at limit 1 for no key update of j skip locked),
kept as (select t from c)
{_TAKE}
"""
SUSPECTS_WAIT = f"select exists (select from djqueue_job j where state = 'ready' and suspect and {_NOT_GATED})"
SUSPECT_QUEUES = "select distinct queue_name from djqueue_job where state = 'ready' and suspect"


def start_claim(alias: str, request: Request, places: Sequence[Place]) -> Cursor:
    """Start the everyday claim from a list of places, in their order; read it with `claimed`."""
    columns = zip(*places, strict=True)
    queues, lanes, priorities, marks, quotas = (list(column) for column in columns)
    extra = {"queues": queues, "lanes": lanes, "priorities": priorities, "marks": marks, "quotas": quotas}
    return db.execute(alias, CLAIM, params(request) | extra)


def start_full_claim(
    alias: str, request: Request, lanes: Sequence[tuple[str, str]], quotas: Sequence[int] | None = None
) -> Cursor:
    """Start the claim that sees everything claimable in these (queue, lane) pairs, in their order; `quotas` are the
    most jobs from each."""
    extra = {
        "queues": [queue for queue, _ in lanes],
        "lanes": [lane for _, lane in lanes],
        "quotas": [NO_QUOTA] * len(lanes) if quotas is None else list(quotas),
    }
    return db.execute(alias, CLAIM_FULL, params(request) | extra)


def levels(alias: str, queue_name: str) -> list[Level]:
    """Return the priorities of a queue that have claimable jobs in lane '', each with since when its oldest waits."""
    return [Level(*row) for row in db.rows(alias, LEVELS, {"queue": queue_name})]


def claimed(cursor: Cursor) -> list[Claimed]:
    """Return what a claim has taken, in the order to start it."""
    return in_order(Claimed._make(row) for row in db.fetch(cursor))


def claim_suspect(alias: str, request: Request, queue_names: Sequence[str]) -> list[Claimed]:
    """Claim one suspect of these queues."""
    found = db.rows(alias, CLAIM_SUSPECT, params(request) | {"queues": list(queue_names)})
    return [Claimed._make(row) for row in found]


def suspects_wait(alias: str) -> bool:
    """Tell whether a suspect is ready to run."""
    return bool(db.rows(alias, SUSPECTS_WAIT)[0][0])


def suspect_queues(alias: str) -> list[str]:
    """Return the queues with suspects."""
    return [row[0] for row in db.rows(alias, SUSPECT_QUEUES)]


def queues_with_jobs(alias: str) -> list[str]:
    """Return the names of all queues that hold claimable jobs."""
    return [row[0] for row in db.rows(alias, QUEUES)]


def in_order(jobs: Iterable[Claimed]) -> list[Claimed]:
    """Return jobs in the order to start them: an UPDATE returns rows as they lie in the table."""
    return sorted(jobs, key=lambda job: (-job.priority, job.run_at, job.seq))


def params(request: Request) -> dict[str, Any]:
    """Return what every claim is told."""
    return {
        "worker": request.worker_id,
        "limit": request.limit,
        "free": request.free,
        "lease": request.lease_seconds,
        "strangers": request.strangers,
    }
