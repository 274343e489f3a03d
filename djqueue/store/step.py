"""Taking jobs from lane to lane: for queues whose jobs can be blocked in groups, and for fairness between groups.

    cursor ─► next lane ─► its gates open? ─yes─► take a share ─► next lane … until the batch is full or the steps are
                               └─no─► jump over every lane behind the closed gate, in one step

Hard limits take two statements of one transaction: the first locks the limiters of the lanes it sees, the second claims
from them. The second one's snapshot is younger than the locks, so it sees every lease of whoever held them before; in
one statement limits of 1 were exceeded in one claim of fifty. Who can't have a lock leaves that lane, and waits for
nobody. Invariant: a job behind a limiter is claimed only under its lock, only within its room, only for a free slot.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from djqueue.store import db, limits
from djqueue.store.claim import _PICK, _TAKE, CLAIM_FULL, Claimed, Request, in_order, params
from djqueue.store.lanes import _CLAIM, _LOOK, _ROOM, _TOKENS, Walk, lanes, walk_params


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """What a walk has brought."""

    jobs: list[Claimed]
    cursor: str | None
    """Where to go on; None: the last lane was passed."""
    open_lanes: int = 0
    """Lanes passed that were open."""
    met_limits: bool = False
    """Some lane was behind a limiter: `limited` has to be said."""


# The first statement. A limiter that somebody else holds is skipped: its lanes are his just now.
LOCK = f"""
with recursive {_LOOK},
wanted as materialized (
    select p.gate, min(l.lane) as lane from l cross join lateral unnest(string_to_array(l.lane, ':')) p(gate)
    where l.room > 0 and p.gate ~ '^[rk][0-9a-f]{{16}}$' group by p.gate
    union all select %(queue_gate)s::text, null where %(queue_gate)s::text is not null),
locked as materialized (
    select m.name from djqueue_limiter m where m.name in (select gate from wanted)
    order by m.name for no key update skip locked)
select w.gate, w.lane, k.name is not null, exists (select from djqueue_limiter m where m.name = w.gate)
from wanted w left join locked k on k.name = w.gate
"""

# The second. In a weighted queue the tenant with the least virtual time comes first; what is leased now counts with the
# tenant's mean, so that a batch of long jobs is seen before it has run.
_VIRTUAL = """case when %(weighted)s then (
    select greatest(coalesce(t.virtual_seconds, 0), f.base) + coalesce(t.mean_seconds, 1) * (
            select count(*) from djqueue_job y where y.leased_by is not null and y.tenant_id <> ''
                and y.queue_name = %(queue)s and substring(y.lane, 't[0-9a-f]{16}') = u.gate)
        / coalesce(t.weight, (%(tiers)s::jsonb ->> t.tier)::float8, 1)
    from (select substring(l.lane, 't[0-9a-f]{16}') as gate) u
    left join djqueue_tenant t on t.queue_name = %(queue)s and t.gate = u.gate
    cross join (select coalesce(max(virtual_seconds), 0) as base from djqueue_tenant
        where queue_name = %(queue)s and gate = '') f) end"""
_SPENT = """spent as (
    update djqueue_limiter m set tokens = h.tokens - s.n, filled_at = statement_timestamp()
    from held h join (
        select gate, count(*) as n from (select substring(lane from 'r[0-9a-f]{16}') as gate from m
            union all select %(queue_gate)s::text from m) x where gate is not null group by gate) s on s.gate = h.name
    where m.name = h.name and h.tokens is not null)"""
# `coalesce`, so that the plan for whatever values does not take an empty list of strangers for one that leaves no job,
# and sort the whole lane.
_OURS = "state = 'ready' and not suspect and coalesce(task_name <> all(%(strangers)s::text[]), true)"
# Several lanes may share a limiter: together they get no more than its room (rates, holds), and free slots only.
CLAIM_STEP = f"""
with recursive held as materialized (
    select m.name, {_ROOM} as room, {_TOKENS} as tokens
    from djqueue_limiter m where m.name = any(%(limiters)s::text[])),
{_CLAIM},
c as materialized (
    select r.t, r.last, o.lane from (
        select l.lane, l.room, l.n, {_VIRTUAL} as virtual from l where l.room > 0 and l.lane is not null
        order by virtual, n) o
    cross join lateral (
        select {_PICK} from djqueue_job where queue_name = %(queue)s and lane = o.lane and {_OURS}
        order by priority desc, run_at, seq limit least(o.room, %(per_lane)s) for no key update skip locked) r
    limit least(%(limit)s::bigint, case when %(queue_gate)s::text is not null then coalesce(
        (select coalesce(room, %(limit)s) from held where name = %(queue_gate)s::text), 0) end)),
ranked as (
    select c.t, c.n, r.room as r_room, row_number() over (partition by r.name order by c.n) as r_n,
        k.room as k_room, row_number() over (partition by k.name order by c.n) as k_n,
        c.last or %(queue_gate)s::text is not null or r.name is not null or k.name is not null as bound
    from (select *, row_number() over () as n from c) c
    left join held r on r.name = substring(c.lane, 'r[0-9a-f]{{16}}')
    left join held k on k.name = substring(c.lane, 'k[0-9a-f]{{16}}')),
kept as (
    select t from (select t, bound, sum(bound::int) over (order by n) as so_many from ranked
        where (r_room is null or r_n <= r_room) and (k_room is null or k_n <= k_room)) x
    where not bound or so_many <= %(free)s),
m as ({_TAKE}),
spent as (
    update djqueue_limiter m set tokens = h.tokens - s.n, filled_at = statement_timestamp()
    from held h join (
        select gate, count(*) as n from (select substring(lane, 'r[0-9a-f]{{16}}') as gate from m
            union all select %(queue_gate)s::text from m) x where gate is not null group by gate) s on s.gate = h.name
    where m.name = h.name and h.tokens is not null)
select m.*, s.lane, s.seen, s.limited from (
    select (select lane from l order by n desc limit 1) as lane,
        (select count(*) from l where lane is not null and room > 0) as seen,
        exists (select from l where lane ~ '(^|:)[rk][0-9a-f]{{16}}(:|$)') as limited) s
left join m on true
"""

# Suspects come one at a time, oldest first; limits hold for them as well. The limiters of the first few are made where
# they were forgotten (a suspect may have waited for days until it was due), since none is claimed without, and locked.
MAKE_FOR_SUSPECTS = """
insert into djqueue_limiter (name, label, task_name, declared_running, declared_rate, declared_burst)
select distinct on (p.gate) p.gate, coalesce(o.it->>'label', ''), x.task_name, (o.it->>'most')::int,
    (o.it->>'rate')::float8, (o.it->>'burst')::float8
from (select lane, task_name, options from djqueue_job where queue_name = %(queue)s and state = 'ready' and suspect
    order by run_at limit 20) x
cross join lateral unnest(string_to_array(x.lane, ':')) p(gate)
cross join lateral (select x.options->'limits'->left(p.gate, 1) as it) o
where p.gate ~ '^[rk][0-9a-f]{16}$' and not exists (select from djqueue_limiter m where m.name = p.gate)
order by p.gate
on conflict (name) do nothing
"""
LOCK_SUSPECTS = """
select m.name from djqueue_limiter m where m.name in (
    select p.gate from (
        select lane from djqueue_job where queue_name = %(queue)s and state = 'ready' and suspect
        order by run_at limit 20) x
    cross join lateral unnest(string_to_array(x.lane, ':')) p(gate)
    union all select %(queue_gate)s::text)
order by m.name for no key update skip locked
"""
CLAIM_SUSPECT = f"""
with held as materialized (
    select m.name, {_ROOM} as room, {_TOKENS} as tokens
    from djqueue_limiter m where m.name = any(%(limiters)s::text[])),
c as materialized (
    select s.ctid as t from djqueue_job s
    where s.queue_name = %(queue)s and s.state = 'ready' and s.suspect
        and s.task_name <> all(%(strangers)s::text[])
        and (%(queue_gate)s::text is null
            or exists (select from held h where h.name = %(queue_gate)s::text and coalesce(h.room, 1) > 0))
        and not exists (select from unnest(string_to_array(s.lane, ':')) p(gate) left join held h on h.name = p.gate
            where p.gate ~ '^[rk][0-9a-f]{{16}}$' and coalesce(h.room, case when h.name is null then 0 end) < 1)
        and not exists (select from djqueue_lane g where g.queue_name in (%(queue)s, '')
            and g.lane = any(string_to_array(s.lane, ':')) and g.closed_until > clock_timestamp())
    order by s.run_at limit 1 for no key update skip locked),
kept as (select t from c),
m as ({_TAKE}),
{_SPENT}
select * from m
"""


def step(alias: str, request: Request, walk: Walk, *, limited: bool = False) -> Walked:
    """Claim from lane to lane, beginning at the cursor; from behind limiters only where `limited` is said."""
    if not limited and walk.queue_gate is None:
        return _claim(alias, request, walk, [])
    with db.one_transaction(alias):
        wanted = db.rows_by_generic_plan(alias, LOCK, params(request) | walk_params(walk))
        walked = _claim(alias, request, walk, [gate for gate, _, is_mine, _ in wanted if is_mine])
    unknown = [(gate, lane) for gate, lane, _, is_known in wanted if not is_known and lane is not None]
    if not unknown:
        return walked
    limits.make(alias, walk.queue_name, unknown)
    return walked if walked.jobs else step(alias, request, walk, limited=limited)


def claim_suspect(alias: str, request: Request, walk: Walk) -> list[Claimed]:
    """Claim one suspect of a queue, within its limits."""
    told = params(request) | walk_params(walk)
    db.rows(alias, MAKE_FOR_SUSPECTS, {"queue": walk.queue_name})
    with db.one_transaction(alias):
        limiters = [row[0] for row in db.rows(alias, LOCK_SUSPECTS, told)]
        found = db.rows(alias, CLAIM_SUSPECT, told | {"limiters": limiters})
    return [Claimed._make(row) for row in found]


def claim_now(alias: str, request: Request, queue_names: Sequence[str]) -> list[Claimed]:
    """Claim from the first open lanes of these queues, in the current transaction where there is one: for tests."""
    found = [(name, lane) for name in queue_names for lane, is_open in lanes(alias, name, 200) if is_open]
    queues, lanes_of, quotas = [n for n, _ in found], [lane for _, lane in found], [request.limit] * len(found)
    extra = {"queues": queues, "lanes": lanes_of, "quotas": quotas}
    return in_order(Claimed._make(row) for row in db.rows(alias, CLAIM_FULL, params(request) | extra))


def _claim(alias: str, request: Request, walk: Walk, limiters: list[str]) -> Walked:
    told = params(request) | walk_params(walk) | {"limiters": limiters}
    found = db.rows_by_generic_plan(alias, CLAIM_STEP, told)
    jobs = in_order(Claimed._make(row[:-3]) for row in found if row[0] is not None)
    last, seen, met_limits = found[0][-3:]
    cursor = None if last is None else last + chr(1)
    return Walked(jobs=jobs, cursor=cursor, open_lanes=seen, met_limits=met_limits)
