"""What decides whether one job can be claimed now: its row, and whatever may hold it back, read together.

Invariant: the same columns and the same clock as the claim; what is counted is counted up to a limit, so that the
answer costs the same before a hundred jobs and before a million.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from djqueue.policy.gates import gates as gates_of
from djqueue.policy.payloads import known_as
from djqueue.states import State
from djqueue.store import db

MOST_AHEAD = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A pause in force, or a closed gate."""

    until: datetime | None
    reason: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """An unfinished job and what stands around it."""

    now: datetime
    id: UUID
    state: State
    queue_name: str
    task_name: str
    tenant_id: str
    priority: int
    lane: str
    run_at: datetime
    expires_at: datetime | None
    is_suspect: bool
    attempts: int
    max_attempts: int
    started_at: datetime | None
    leased_by: str | None
    parked_for: str | None
    ordering_key: str | None
    queue_pause: Held | None
    task_pause: Held | None
    tenant_pause: Held | None
    paused_tasks: dict[str, Held]
    """All pauses of tasks in force, by the name that was paused: a task may have others."""
    tenant_cap: int | None
    """What the queue's row says of tenants that have no cap of their own."""
    head_id: UUID | None
    """The job that holds its ordering key, if that is another one."""
    head_state: str | None
    blocked_by: UUID | None
    """The dead letter that blocks its ordering key."""
    known_as: str
    """What a worker must know to run it, see `policy.payloads`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A gate of the job that has a row: it is closed or capped, or was once."""

    name: str
    closed_until: datetime | None
    """If that is ahead."""
    reason: str
    max_running: int | None
    running: int
    circuit: str
    """The name of the circuit that it belongs to; '' where it is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A live worker, as far as it matters to this job."""

    id: str
    queues: list[str]
    knows: bool
    slots: int
    busy: int


FACTS = """
select clock_timestamp(), j.id, j.state, j.queue_name, j.task_name, j.tenant_id, j.priority, j.lane, j.run_at,
    j.expires_at, j.suspect, j.attempts, j.max_attempts, j.started_at, j.leased_by, j.parked_for, j.ordering_key,
    case when q.paused_until > clock_timestamp() then q.paused_until end, coalesce(q.paused_reason, ''),
    coalesce(q.paused_by, ''), x.paused_until, coalesce(x.reason, ''), coalesce(x.paused_by, ''),
    t.names, t.untils, t.reasons, t.people, q.tenant_max_running,
    head.id, head.state, block.job_id, j.options ->> 'version'
from djqueue_job j
left join djqueue_queue q on q.name = j.queue_name
left join djqueue_pause x on x.kind = 'tenant' and x.name = j.tenant_id and j.tenant_id <> ''
    and x.paused_until > clock_timestamp()
cross join (select coalesce(array_agg(p.name), '{}') as names, coalesce(array_agg(p.paused_until), '{}') as untils,
    coalesce(array_agg(p.reason), '{}') as reasons, coalesce(array_agg(p.paused_by), '{}') as people
    from djqueue_pause p where p.kind = 'task' and p.paused_until > clock_timestamp()) t
left join lateral (select h.id, h.state from djqueue_job h where h.queue_name = j.queue_name
    and h.ordering_key = j.ordering_key and (h.state <> 'parked' or h.parked_for is not null) and h.id <> j.id
    limit 1) head on true
left join lateral (select b.job_id from djqueue_key_block b where b.queue_name = j.queue_name
    and b.ordering_key = j.ordering_key limit 1) block on true
where j.id = %(id)s
"""

# As a walk looks at them: rows of the queue or of all; a cap counts the leases of lanes that begin with the gate.
GATES = """
select g.lane, case when g.closed_until > clock_timestamp() then g.closed_until end, g.reason, g.max_running,
    case when g.max_running is null then 0 else (select count(*) from (select from djqueue_job y
        where y.queue_name = %(queue)s and y.state = 'leased' and y.lane >= g.lane and y.lane < g.lane || ';'
        limit g.max_running) z) end, coalesce(c.name, '')
from djqueue_lane g left join djqueue_circuit c on c.gate = g.lane
where g.queue_name in (%(queue)s, '') and g.lane = any(%(lanes)s::text[]) order by g.lane, g.queue_name
"""

# One row without a worker where there is none. Those ahead are counted in the order of the claim index, in the job's
# own lane, once, and only if asked for.
PROSPECTS = f"""
with a as materialized (select case when %(ahead)s then (select count(*) from (
    select from djqueue_job a where a.queue_name = %(queue)s and a.lane = %(lane)s and a.state = 'ready'
        and not a.suspect and (a.priority > %(priority)s or (a.priority = %(priority)s and (a.run_at, a.seq) <
            (select j.run_at, j.seq from djqueue_job j where j.id = %(id)s)))
    limit {MOST_AHEAD}) x) end as ahead)
select a.ahead, w.id, w.queues, %(task)s::text = any(w.task_names), w.slots,
    (select count(*) from djqueue_job j where j.state = 'leased' and j.leased_by = w.id)
from a left join djqueue_worker w on w.seen_at > clock_timestamp() - interval '90 s' and not w.stopping order by w.id
"""


def facts(alias: str, id_: UUID) -> Facts | None:
    """Return what is known of an unfinished job; None where there is none of this id."""
    found = db.rows(alias, FACTS, {"id": id_})
    return _facts(found[0]) if found else None


def gates(alias: str, queue_name: str, lane: str) -> list[Gate]:
    """Return the gates of a lane that have a row."""
    names = gates_of(lane)
    if not names:
        return []
    return [
        Gate(name=name, closed_until=until, reason=reason, max_running=most, running=running, circuit=circuit)
        for name, until, reason, most, running, circuit in db.rows(alias, GATES, {"queue": queue_name, "lanes": names})
    ]


def prospects(alias: str, job: Facts, *, ahead: bool) -> tuple[list[Server], int | None]:
    """Return the live workers, whatever they serve, and if asked for how many ready jobs of its lane are claimed
    before a job; 10,000 at the most."""
    found = db.rows(
        alias,
        PROSPECTS,
        {
            "ahead": ahead,
            "queue": job.queue_name,
            "lane": job.lane,
            "priority": job.priority,
            "id": job.id,
            "task": job.known_as,
        },
    )
    servers = [
        Server(id=id_, queues=list(queues), knows=knows, slots=slots, busy=busy)
        for _, id_, queues, knows, slots, busy in found
        if id_ is not None
    ]
    return servers, found[0][0]


def _facts(row: db.Row) -> Facts:
    (now, id_, state, queue, task, tenant, priority, lane, run_at, expires, suspect, attempts, most, *rest) = row
    (started, leased_by, parked_for, key, *pauses, tenant_cap, head_id, head_state, blocked_by, version) = rest
    paused_tasks = {name: Held(until=at, reason=why, by=by) for name, at, why, by in zip(*pauses[6:], strict=True)}
    return Facts(
        now=now,
        id=id_,
        state=State(state),
        queue_name=queue,
        task_name=task,
        tenant_id=tenant,
        priority=priority,
        lane=lane,
        run_at=run_at,
        expires_at=expires,
        is_suspect=suspect,
        attempts=attempts,
        max_attempts=most,
        started_at=started,
        leased_by=leased_by,
        parked_for=parked_for,
        ordering_key=key,
        queue_pause=_held(pauses[0:3]),
        task_pause=paused_tasks.get(task),
        tenant_pause=_held(pauses[3:6]),
        paused_tasks=paused_tasks,
        tenant_cap=tenant_cap,
        head_id=head_id,
        head_state=head_state,
        blocked_by=blocked_by,
        known_as=known_as(task, int(version) if (version or "").isdecimal() else 1),
    )


def _held(found: Sequence[Any]) -> Held | None:
    until, reason, by = found
    return None if until is None else Held(until=until, reason=reason, by=by)
