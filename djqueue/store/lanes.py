"""Which lanes are open: the parts that statements about lanes have in common.

A lane is '' or its gates joined by ':'. Who can close a gate, each an arm of `_GATES` with the room that it leaves:

    djqueue_lane      a row for each closed or capped gate, of one queue or (queue name '') of all
    djqueue_limiter   rate (r…) and concurrency (k…) limits; only a claim that holds the row's lock may take from behind
    djqueue_tenant    a tenant's cap (t…), where its queue has any
    the worker        the tenants that its pool serves

Invariant: the cost of finding an open lane depends on the lanes that are passed, never on how many jobs they hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from djqueue.store import db

BEYOND_THE_EMPTY_LANE = chr(1)
"""A cursor after the lane '', before all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Which lanes of a queue to claim from, and how."""

    queue_name: str
    from_lane: str = ""
    """The cursor: the first lane at or after it comes first."""
    per_lane: int = 1
    """Jobs from one lane at the most."""
    max_steps: int = 200
    queue_gate: str | None = None
    """The gate of the queue's own limits, where it has any."""
    has_caps: bool = False
    """Tenants have caps here."""
    tenant_cap: int | None = None
    """The cap of those that have none of their own."""
    weighted: bool = False
    """Of the lanes passed, those whose tenants have had least of their share come first."""
    tiers: str = "{}"
    """Weights of the tiers, as JSON."""
    pool_sets: int = 0
    """Sets of pools; 0: no pools. See `policy.fair.Pool`."""
    pool_mine: list[int] = field(default_factory=list)


# ------------------------------------------------------------------------------------------------ how much room is left

# Live leases, counted up to the limit and no further: nothing can leak. `leased_by` says the same as the state, but so
# each of these counts has an index of its own: by the state a plan that was made while little was leased, and is kept,
# would read the leases of all.
_HOLDING = """(select count(*) from (select from djqueue_job y where y.leased_by is not null and y.lane <> ''
    and substring(y.lane, 'k[0-9a-f]{{16}}') = {gate} limit {most}) z)"""
_IN_QUEUE = """(select count(*) from (select from djqueue_job y where y.state = 'leased' and y.queue_name = {queue}
    limit {most}) z)"""
_OF_TENANT = """(select count(*) from (select from djqueue_job y where y.leased_by is not null and y.tenant_id <> ''
    and y.queue_name = %(queue)s and substring(y.lane, 't[0-9a-f]{{16}}') = {gate} limit {most}) z)"""
# The moment of the statement, which is after the limiter was locked: no two fillings overlap.
_TOKENS = """case when coalesce(m.rate, m.declared_rate) is not null then least(
    coalesce(m.burst, m.declared_burst, 1), coalesce(m.tokens, m.burst, m.declared_burst, 1) + greatest(0,
        coalesce(m.rate, m.declared_rate) * extract(epoch from statement_timestamp() - m.filled_at))) end"""
_MOST = "coalesce(m.max_running, m.declared_running)"
# What a limiter (m) leaves: a number, or null where it has no limit at all.
_ROOM = f"""case when m.paused_until > clock_timestamp() then 0 else least(
    floor({_TOKENS})::bigint,
    case when left(m.name, 1) = 'q' then {_MOST} - {_IN_QUEUE.format(queue="%(queue)s", most=_MOST)}
        else {_MOST} - {_HOLDING.format(gate="m.name", most=_MOST)} end) end"""

# ------------------------------------------------------------------------------------------------ the gates of a lane

# A closed gate also closes every lane that begins with the same gates up to it: those come before prefix || ';', since
# ';' follows ':'. The cap of a row in djqueue_lane counts the leases of the lanes that begin with its gate.
_PREFIX = "array_to_string(a.gates[1:array_position(a.gates, {gate})], ':') || ';'"
_BEHIND = """(select count(*) from (select from djqueue_job y where y.state = 'leased' and y.queue_name = %(queue)s
    and y.lane >= g.lane and y.lane < g.lane || ';' limit g.max_running) z)"""
_ROWS = f"""select case when g.closed_until > clock_timestamp() then 0
            when g.max_running is not null then g.max_running - {_BEHIND} end as room,
        {_PREFIX.format(gate="g.lane")} as skip
    from djqueue_lane g where g.queue_name in (%(queue)s, '') and g.lane = any(a.gates)"""
_CAPS = f"""select coalesce(t.max_running, %(tenant_cap)s::int)
        - {_OF_TENANT.format(gate="u.gate", most="coalesce(t.max_running, %(tenant_cap)s::int)")}, x.lane
    from (select substring(x.lane, 't[0-9a-f]{{16}}') as gate) u
    left join djqueue_tenant t on t.queue_name = %(queue)s and t.gate = u.gate
    where %(has_caps)s and u.gate is not null"""
_POOLS = """select 0, x.lane from (select substring(x.lane, 't[0-9a-f]{16}') as gate) u
    where %(pool_sets)s::bigint > 0 and u.gate is not null and
        not mod(('x' || substr(u.gate, 2, 8))::bit(32)::bigint, %(pool_sets)s::bigint) = any(%(pool_mine)s::bigint[])"""
# As the claim sees limits: `held` are the limiters that its transaction holds; all others are closed to it.
_HELD = f"""select coalesce(h.room, case when h.name is null then 0 end), {_PREFIX.format(gate="p.gate")}
    from unnest(a.gates) p(gate) left join held h on h.name = p.gate where p.gate ~ '^[rk][0-9a-f]{{16}}$'"""
# As somebody who only looks sees them: a limiter that nobody has made yet may be open.
_SEEN = f"""select {_ROOM}, {_PREFIX.format(gate="m.name")}
    from djqueue_limiter m where m.name = any(a.gates)"""
_GATES = """cross join lateral (select string_to_array(x.lane, ':') as gates) a cross join lateral (
    select coalesce(min(b.room), %(per_lane)s) as room, coalesce(max(b.skip) filter (where b.room < 1), x.lane) as skip
    from ({arms}) b) o"""
_LOOKED_AT = _GATES.format(arms="\n    union all\n    ".join([_ROWS, _SEEN, _CAPS, _POOLS]))
_CLAIMED = _GATES.format(arms="\n    union all\n    ".join([_ROWS, _HELD, _CAPS, _POOLS]))

# ------------------------------------------------------------------------------------------------ from lane to lane

_FIRST = """(select lane from djqueue_job where queue_name = %(queue)s and state = 'ready' and not suspect
    and lane >= %(from_lane)s order by lane limit 1) x"""
_NEXT = """(select (select z.lane from djqueue_job z where z.queue_name = %(queue)s and z.state = 'ready'
    and not z.suspect and z.lane > l.skip order by z.lane limit 1) as lane) x"""
# Single index descents, at most max_steps of them, until the open lanes seen can fill the batch; where the order of
# lanes matters, on to the last step.
_WALK = """l(lane, skip, n, room, took) as (
    select x.lane, o.skip, 1, o.room, greatest(0, least(o.room, %(per_lane)s)) from {first} {gates}
    union all
    select x.lane, o.skip, l.n + 1, o.room, l.took + greatest(0, least(o.room, %(per_lane)s))
    from l cross join lateral {next} {gates}
    where l.lane is not null and l.n < %(max_steps)s and (%(weighted)s or l.took < %(limit)s))"""
_LOOK = _WALK.format(first=_FIRST, next=_NEXT, gates=_LOOKED_AT)
_CLAIM = _WALK.format(first=_FIRST, next=_NEXT, gates=_CLAIMED)

# The lanes from a given one on, without claiming.
LANES = f"""
with recursive {_LOOK}
select lane, room > 0 from l where lane is not null order by lane
"""

# The queues that have claimable jobs in lanes other than '', by one index descent each.
LANED = """
select q.name from unnest(%(queues)s::text[]) q(name) cross join lateral (
    select from djqueue_job where queue_name = q.name and state = 'ready' and not suspect and lane > ''
    order by lane limit 1) x
"""


def lanes(alias: str, queue_name: str, max_steps: int = 2) -> list[tuple[str, bool]]:
    """Return the first lanes of a queue that hold claimable jobs, each with whether it is open."""
    walk = Walk(queue_name=queue_name, max_steps=max_steps)
    found = db.rows(alias, LANES, walk_params(walk) | {"limit": max_steps + 1})
    return [(lane, is_open) for lane, is_open in found]


def laned(alias: str, queue_names: Sequence[str]) -> list[str]:
    """Return those of these queues that hold claimable jobs in other lanes than ''."""
    return [row[0] for row in db.rows(alias, LANED, {"queues": list(queue_names)})]


def walk_params(walk: Walk) -> dict[str, Any]:
    """Return what every statement about lanes is told."""
    return {
        "queue": walk.queue_name,
        "from_lane": walk.from_lane,
        "per_lane": walk.per_lane,
        "max_steps": walk.max_steps,
        "queue_gate": walk.queue_gate,
        "has_caps": walk.has_caps,
        "tenant_cap": walk.tenant_cap,
        "weighted": walk.weighted,
        "tiers": walk.tiers,
        "pool_sets": walk.pool_sets,
        "pool_mine": walk.pool_mine,
    }
