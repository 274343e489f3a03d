"""Limits of what may run at once and how often: rows that code, settings and people write, and what they block.

    code, settings ─► declared_… columns ─┐
    people, at run time ─► own columns ───┴─► what counts: the own one where it is set
                                              running jobs: live leases, counted afresh by every claim
                                              rate: a token bucket in the row, by the database's clock

Invariant: a limit knows nothing of jobs but their live leases and the tokens taken at their claims, so that nothing
that happens to a worker can leak a slot.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from djqueue.exceptions import seconds_of
from djqueue.policy.gates import Gate, gate, queue_gate
from djqueue.policy.texts import check_reason
from djqueue.rates import Rate
from djqueue.store import db
from djqueue.store.lanes import _HOLDING, _IN_QUEUE, _MOST, _OF_TENANT, _TOKENS

BATCH = 1_000


class Why(StrEnum):
    """What holds a job back."""

    CLOSED = "closed"
    """Its gate is closed: an open circuit, say."""
    CAPPED = "capped"
    """As many jobs of the gate or the tenant run as may."""
    PAUSED = "paused"
    """The limit is paused, as by a handler that was told to wait."""
    RUNNING = "running"
    """As many jobs of the limit run as may."""
    RATE = "rate"
    """The bucket is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One reason for which a job is not claimed now."""

    gate: str
    why: Why
    label: str
    """What the gate is named after, as far as its row says so; the reason of a closed gate."""
    until: datetime | None
    """When it ends by itself; None: when something else happens."""
    running: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What code says of a task's limits."""

    task_name: str
    running: int | None = None
    rate: Rate | None = None


# Out of the first waiting job of the lane, which carries what its task said. Someone else may make it first. A lane
# that was emptied meanwhile (cancelled, paused) makes none: it would be a limiter without a limit.
MAKE = """
insert into djqueue_limiter (name, label, task_name, declared_running, declared_rate, declared_burst)
select u.gate, coalesce(o.it->>'label', ''), x.task_name, (o.it->>'most')::int, (o.it->>'rate')::float8,
    (o.it->>'burst')::float8
from unnest(%(gates)s::text[], %(lanes)s::text[]) u(gate, lane)
cross join lateral (
    select j.task_name, j.options from djqueue_job j
    where j.queue_name = %(queue)s and j.lane = u.lane and j.state = 'ready' and not j.suspect
    order by j.priority desc, j.run_at, j.seq limit 1) x
cross join lateral (select x.options->'limits'->left(u.gate, 1) as it) o
order by u.gate
on conflict (name) do nothing
"""
# All limiters of a task, those of its keys too.
DECLARE = """
update djqueue_limiter m set declared_running = n.running, declared_rate = n.rate, declared_burst = n.burst
from (
    select x.name, case when left(x.name, 1) = 'k' then u.running end as running,
        case when left(x.name, 1) = 'r' then u.rate end as rate,
        case when left(x.name, 1) = 'r' then u.burst end as burst
    from unnest(%(tasks)s::text[], %(running)s::int[], %(rates)s::float8[], %(bursts)s::float8[])
        u(task, running, rate, burst)
    join djqueue_limiter x on x.task_name = u.task and left(x.name, 1) in ('k', 'r')) n
where m.name = n.name and (m.declared_running, m.declared_rate, m.declared_burst)
    is distinct from (n.running, n.rate, n.burst)
"""
DECLARE_QUEUE = """
insert into djqueue_limiter as m (name, label, declared_running, declared_rate, declared_burst)
select %(name)s, %(label)s, %(running)s::int, %(rate)s::float8, %(burst)s::float8
where %(running)s::int is not null or %(rate)s::float8 is not null
    or exists (select from djqueue_limiter where name = %(name)s)
on conflict (name) do update set declared_running = excluded.declared_running, declared_rate = excluded.declared_rate,
    declared_burst = excluded.declared_burst
where (m.declared_running, m.declared_rate, m.declared_burst)
    is distinct from (excluded.declared_running, excluded.declared_rate, excluded.declared_burst)
"""
# Whether or not settings or rows declare a limit as well. A range of the primary key: gates of queues begin with q.
LIMITED_BY_PEOPLE = """
select name from djqueue_limiter where name >= 'q' and name < 'r'
    and (max_running is not null or rate is not null or paused_until > clock_timestamp())
"""
# People's numbers. Workers that wait look again: an empty name instead of a queue's says that settings have changed.
SET = """
with said as (
    insert into djqueue_limiter as m (name, label, max_running, rate, burst)
    values (%(name)s, %(label)s, %(running)s::int, %(rate)s::float8, %(burst)s::float8)
    on conflict (name) do update
        set max_running = excluded.max_running, rate = excluded.rate, burst = excluded.burst
    returning 1)
select pg_notify('djqueue', '') from said
"""
# A later pause stays: of several handlers that were told to wait, the longest wait counts.
PAUSE = """
with said as (
    update djqueue_limiter set paused_reason = %(reason)s,
        paused_until = coalesce(%(until)s::timestamptz, clock_timestamp() + make_interval(secs => %(seconds)s::float8))
    where name = any(%(names)s::text[]) and coalesce(paused_until, '-infinity')
        < coalesce(%(until)s::timestamptz, clock_timestamp() + make_interval(secs => %(seconds)s::float8))
    returning name)
select name from said
"""
RESUME = """
with said as (
    update djqueue_limiter set paused_until = null, paused_reason = ''
    where name = any(%(names)s::text[]) and paused_until is not null returning name)
select name, pg_notify('djqueue', '') from said
"""
# Keys come and go; a full bucket and no limit of people's own: nothing is lost with the row. A locked one is in use.
FORGET = f"""
with c as materialized (
    select m.name from djqueue_limiter m
    where m.made_at < clock_timestamp() - interval '1 day' and m.task_name <> '' and m.max_running is null
        and m.rate is null and m.burst is null and coalesce(m.paused_until, '-infinity') < clock_timestamp()
        and coalesce(m.filled_at, '-infinity') < clock_timestamp() - interval '1 day'
        and coalesce({_TOKENS} >= coalesce(m.burst, m.declared_burst, 1), true)
        and {_HOLDING.format(gate="m.name", most="1")} = 0
        and not exists (select from djqueue_job where state = 'ready' and suspect)
    limit {BATCH} for update skip locked)
delete from djqueue_limiter m using c where m.name = c.name returning m.name
"""

# The same conditions as a claim's, with words instead of room.
BLOCKS = f"""
with a as (select %(gates)s::text[] as gates)
select g.lane, case when g.closed_until > clock_timestamp() then 'closed' else 'capped' end, g.reason,
    case when g.closed_until > clock_timestamp() then nullif(g.closed_until, 'infinity') end, c.running, g.max_running
from a join djqueue_lane g on g.queue_name in (%(queue)s, '') and g.lane = any(a.gates)
cross join lateral (select count(*) as running from (select from djqueue_job y where y.queue_name = %(queue)s
    and y.state = 'leased' and y.lane >= g.lane and y.lane < g.lane || ';' limit g.max_running) z) c
where g.closed_until > clock_timestamp() or c.running >= g.max_running
union all
select m.name, case when m.paused_until > clock_timestamp() then 'paused' when b.running >= {_MOST} then 'running'
        else 'rate' end, m.label, case when m.paused_until > clock_timestamp() then nullif(m.paused_until, 'infinity')
        when b.running >= {_MOST} then null
        else clock_timestamp() + make_interval(secs => (1 - b.tokens) / coalesce(m.rate, m.declared_rate)) end,
    b.running, {_MOST}
from a join djqueue_limiter m on m.name = any(a.gates || %(queue_gate)s::text)
cross join lateral (select case when left(m.name, 1) = 'q' then {_IN_QUEUE.format(queue="%(queue)s", most=_MOST)}
    else {_HOLDING.format(gate="m.name", most=_MOST)} end as running, {_TOKENS} as tokens) b
where m.paused_until > clock_timestamp() or b.running >= {_MOST} or b.tokens < 1
union all
select u.gate, 'capped', coalesce(t.tenant_id, ''), null, c.running, coalesce(t.max_running, %(tenant_cap)s::int)
from a cross join unnest(a.gates) u(gate) left join djqueue_tenant t on t.queue_name = %(queue)s and t.gate = u.gate
cross join lateral (select {_OF_TENANT.format(gate="u.gate", most="coalesce(t.max_running, %(tenant_cap)s::int)")}
    as running) c
where u.gate ~ '^t[0-9a-f]{{16}}$' and c.running >= coalesce(t.max_running, %(tenant_cap)s::int)
"""


def make(alias: str, queue_name: str, gates: Sequence[tuple[str, str]]) -> None:
    """Make the limiters of these gates, each as the first job of the lane beside it says."""
    db.rows(alias, MAKE, {"queue": queue_name, "gates": [g for g, _ in gates], "lanes": [lane for _, lane in gates]})


def declare(alias: str, tasks: Iterable[Declared]) -> None:
    """Write what code says of these tasks into the limiters that there are already."""
    found = list(tasks)
    params = {
        "tasks": [each.task_name for each in found],
        "running": [each.running for each in found],
        "rates": [each.rate and each.rate.per_second for each in found],
        "bursts": [each.rate and each.rate.burst for each in found],
    }
    if found:
        db.rows(alias, DECLARE, params)


def declare_queue(alias: str, queue_name: str, running: int | None, rate: Rate | None) -> None:
    """Write a queue's limits, as its row or the settings say, into its limiter."""
    db.rows(alias, DECLARE_QUEUE, _named(queue_gate(queue_name), f"queue {queue_name}", running, rate))


def queues_limited_by_people(alias: str) -> set[str]:
    """Return the gates of the queues that somebody has limited or paused at run time."""
    return {row[0] for row in db.rows(alias, LIMITED_BY_PEOPLE)}


def set_limit(alias: str, name: str, *, label: str = "", running: int | None = None, rate: Rate | None = None) -> None:
    """Set a limit at run time, beside what is declared (None: as declared); it counts from the next claim on.

    `name` is a gate: `of_key`, `of_task`, `of_rate` return them.
    """
    db.rows(alias, SET, _named(name, label, running, rate))


def pause(
    alias: str, names: Sequence[str], *, until: datetime | None = None, seconds: float = 0, reason: str = ""
) -> list[str]:
    """Let nothing through these limiters until a moment, or for so many seconds; return those whose pause grew.

    Raises `ValueError` for seconds beyond ten years and a reason that can't be stored.
    """
    params = _pause(names, until, seconds, reason)
    return [row[0] for row in db.rows(alias, PAUSE, params)]


def pause_apart(
    alias: str, names: Sequence[str], *, until: datetime | None = None, seconds: float = 0, reason: str = ""
) -> list[str]:
    """Pause as `pause` does, whatever transaction is open here and however it ends."""
    params = _pause(names, until, seconds, reason)
    return [row[0] for row in db.rows_apart(alias, PAUSE, params)]


def _pause(names: Sequence[str], until: datetime | None, seconds: float, reason: str) -> dict[str, object]:
    check_reason("pause: reason", reason)
    return {"names": list(names), "until": until, "seconds": seconds_of(seconds, "pause: seconds"), "reason": reason}


def resume(alias: str, names: Sequence[str]) -> list[str]:
    """End the pauses of these limiters; return those that had one."""
    return [row[0] for row in db.rows(alias, RESUME, {"names": list(names)})]


def forget(alias: str) -> int:
    """Delete up to 1,000 limiters of keys that nobody has used for a day; return how many."""
    return len(db.rows(alias, FORGET))


def blocked_by(alias: str, *, queue_name: str, lane: str, tenant_cap: int | None = None) -> list[Block]:
    """Return every closed gate, cap and limit that keeps jobs of a lane from being claimed now; none: nothing does.

    `tenant_cap` is the cap of the queue's tenants that have none of their own.
    """
    gates = lane.split(":") if lane else []
    params = {"queue": queue_name, "gates": gates, "queue_gate": queue_gate(queue_name), "tenant_cap": tenant_cap}
    return [
        Block(gate=name, why=Why(why), label=label, until=until, running=running, most=most)
        for name, why, label, until, running, most in db.rows(alias, BLOCKS, params)
    ]


def of_task(task_name: str) -> str:
    """Return the limiter of a task's `concurrency_limit`, where it has no key."""
    return gate(Gate.CONCURRENCY, f"task {task_name}")


def of_key(key: str) -> str:
    """Return the limiter of a `concurrency_key`."""
    return gate(Gate.CONCURRENCY, f"key {key}")


def of_rate(key: str = "", *, task_name: str = "") -> str:
    """Return the limiter of a rate limit's key, or of a task's own."""
    return gate(Gate.RATE, f"key {key}" if key else f"task {task_name}")


def _named(name: str, label: str, running: int | None, rate: Rate | None) -> dict[str, object]:
    return {
        "name": name,
        "label": label,
        "running": running,
        "rate": rate and rate.per_second,
        "burst": rate and rate.burst,
    }
