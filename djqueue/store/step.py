"""Taking jobs from lane to lane: for queues whose jobs can be blocked in groups, and for fairness between groups.

    cursor ─► next lane ─► its gates open? ─yes─► take a share ─► next lane … until the batch is full or the steps are
                               └─no─► jump over every lane behind the closed gate, in one step

A lane is '' or its gates joined by ':'. `djqueue_lane` has a row for each closed or capped gate, of one queue or (queue
name '') of all. Invariant: the cost of a claim depends on the lanes that it passes, never on how many jobs they hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from djqueue.store import db
from djqueue.store.claim import _CLAIMABLE, _KEPT, _PICK, _TAKE, CLAIM_FULL, Claimed, Request, in_order, params

BEYOND_THE_EMPTY_LANE = chr(1)
"""A cursor after the lane '', before all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Which lanes of a queue to claim from."""

    queue_name: str
    from_lane: str = ""
    """The cursor: the first lane at or after it comes first."""
    per_lane: int = 1
    """Jobs from one lane at the most."""
    max_steps: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """What a walk has brought."""

    jobs: list[Claimed]
    cursor: str | None
    """Where to go on; None: the last lane was passed."""
    open_lanes: int
    """Lanes passed that were open."""


# The gates of one lane, looked up by the gate's name: a row for any of them may close the lane. A closed gate also
# closes every lane that begins with the same gates up to it: those come before prefix || ';', since ';' follows ':'.
# A gate's cap counts the leases of the lanes that begin with it.
_GATE = """cross join lateral (select string_to_array(x.lane, ':') as gates) a cross join lateral (
    select coalesce(min(b.room), %(per_lane)s) as room, coalesce(max(b.skip) filter (where b.room < 1), x.lane) as skip
    from (
        select case when g.closed_until > clock_timestamp() then 0 when g.max_running is not null then g.max_running -
                (select count(*) from (select from djqueue_job y where y.queue_name = %(queue)s and y.state = 'leased'
                    and y.lane >= g.lane and y.lane < g.lane || ';' limit g.max_running) z) end as room,
            array_to_string(a.gates[1:array_position(a.gates, g.lane)], ':') || ';' as skip
        from djqueue_lane g where g.queue_name in (%(queue)s, '') and g.lane = any(a.gates)) b) o"""
_FIRST = """(select lane from djqueue_job where queue_name = %(queue)s and state = 'ready' and not suspect
    and lane >= %(from_lane)s order by lane limit 1) x"""
_NEXT = """(select (select z.lane from djqueue_job z where z.queue_name = %(queue)s and z.state = 'ready'
    and not z.suspect and z.lane > l.skip order by z.lane limit 1) as lane) x"""
# Single index descents, at most max_steps of them, until the open lanes seen can fill the batch.
CLAIM_STEP = f"""
with recursive l(lane, skip, n, room, took) as (
    select x.lane, o.skip, 1, o.room, greatest(0, least(o.room, %(per_lane)s)) from {_FIRST} {_GATE}
    union all
    select x.lane, o.skip, l.n + 1, o.room, l.took + greatest(0, least(o.room, %(per_lane)s))
    from l cross join lateral {_NEXT} {_GATE}
    where l.lane is not null and l.n < %(max_steps)s and l.took < %(limit)s),
c as materialized (
    select r.t, r.last from l cross join lateral (
        select {_PICK} from djqueue_job
        where queue_name = %(queue)s and lane = l.lane and {_CLAIMABLE}
        order by priority desc, run_at, seq limit least(l.room, %(per_lane)s) for no key update skip locked) r
    where l.room > 0 and l.lane is not null limit %(limit)s),
{_KEPT},
m as ({_TAKE})
select m.*, s.lane, s.seen from (
    select (select lane from l order by n desc limit 1) as lane,
        (select count(*) from l where lane is not null and room > 0) as seen) s
left join m on true
"""

# The lanes after a given one, without claiming.
LANES = f"""
with recursive l(lane, skip, n, room) as (
    select x.lane, o.skip, 1, o.room from {_FIRST} {_GATE}
    union all
    select x.lane, o.skip, l.n + 1, o.room from l cross join lateral {_NEXT} {_GATE}
    where l.lane is not null and l.n < %(max_steps)s)
select lane, room > 0 from l where lane is not null order by lane
"""

# The queues that have claimable jobs in lanes other than '', by one index descent each.
LANED = """
select q.name from unnest(%(queues)s::text[]) q(name) cross join lateral (
    select from djqueue_job where queue_name = q.name and state = 'ready' and not suspect and lane > ''
    order by lane limit 1) x
"""


def step(alias: str, request: Request, walk: Walk) -> Walked:
    """Claim from lane to lane, beginning at the cursor."""
    found = db.rows(alias, CLAIM_STEP, params(request) | _walk_params(walk))
    jobs = in_order(Claimed._make(row[:-2]) for row in found if row[0] is not None)
    last, seen = found[0][-2:]
    return Walked(jobs=jobs, cursor=None if last is None else last + chr(1), open_lanes=seen)


def claim_now(alias: str, request: Request, queue_names: Sequence[str]) -> list[Claimed]:
    """Claim from the first open lanes of these queues, in the current transaction where there is one: for tests."""
    found = [(name, lane) for name in queue_names for lane, is_open in lanes(alias, name, 200) if is_open]
    extra = {"queues": [name for name, _ in found], "lanes": [lane for _, lane in found]}
    return in_order(Claimed._make(row) for row in db.rows(alias, CLAIM_FULL, params(request) | extra))


def lanes(alias: str, queue_name: str, max_steps: int = 2) -> list[tuple[str, bool]]:
    """Return the first lanes of a queue that hold claimable jobs, each with whether it is open."""
    walk = Walk(queue_name=queue_name, max_steps=max_steps)
    return [(lane, is_open) for lane, is_open in db.rows(alias, LANES, _walk_params(walk))]


def laned(alias: str, queue_names: Sequence[str]) -> list[str]:
    """Return those of these queues that hold claimable jobs in other lanes than ''."""
    return [row[0] for row in db.rows(alias, LANED, {"queues": list(queue_names)})]


def _walk_params(walk: Walk) -> dict[str, Any]:
    return {
        "queue": walk.queue_name,
        "from_lane": walk.from_lane,
        "per_lane": walk.per_lane,
        "max_steps": walk.max_steps,
    }
