"""Tenants: their caps and weights, and how far the share of each has been used.

    jobs that ended ─► run time ÷ weight ─► virtual time of the tenant's row ─► the least is claimed from first
                                             the row without a tenant: the queue's own, the least of the active ones

Start-time fair queuing, see `policy.fair`. Invariant: a tenant's virtual time only grows, and is never behind the
queue's when it counts, so that a rest saves nothing up.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from djqueue.policy.gates import Gate, gate
from djqueue.store import db

BATCH = 1_000


class Used(NamedTuple):
    """Run time of a tenant's jobs."""

    queue_name: str
    tenant_id: str
    jobs: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant of a queue, as its row says."""

    queue_name: str
    tenant_id: str
    max_running: int | None
    tier: str
    weight: float | None
    virtual_seconds: float


# Workers that wait look again: an empty name instead of a queue's says that settings have changed.
SET = """
with said as (
    insert into djqueue_tenant as t (queue_name, tenant_id, gate, max_running, tier, weight)
    values (%(queue)s, %(tenant)s, %(gate)s, %(running)s::int, %(tier)s, %(weight)s::float8)
    on conflict (queue_name, gate) do update set tenant_id = excluded.tenant_id, max_running = excluded.max_running,
        tier = excluded.tier, weight = excluded.weight
    returning 1)
select pg_notify('djqueue', '') from said
"""
CAPPED = "select distinct queue_name from djqueue_tenant where max_running is not null"
ALL = """
select queue_name, tenant_id, max_running, tier, weight, virtual_seconds from djqueue_tenant
where queue_name = %(queue)s and gate <> '' order by tenant_id
"""
_USED = """unnest(%(queues)s::text[], %(tenants)s::text[], %(gates)s::text[], %(counts)s::int[], %(seconds)s::float8[])
    u(queue_name, tenant_id, gate, n, seconds)"""
MAKE = f"""
insert into djqueue_tenant (queue_name, tenant_id, gate)
select queue_name, tenant_id, gate from {_USED}
union select distinct queue_name, '', '' from {_USED} order by 1, 3
on conflict (queue_name, gate) do nothing
"""
# In the order of the rows' keys, as everywhere, so that no two workers deadlock.
ADVANCE = f"""
with base as materialized (
    select queue_name, virtual_seconds from djqueue_tenant where gate = '' and queue_name = any(%(queues)s::text[])),
f as materialized (
    select t.id, u.n, u.seconds, b.virtual_seconds as base,
        coalesce(t.weight, (%(tiers)s::jsonb -> t.queue_name ->> t.tier)::float8, 1) as weight
    from {_USED} join djqueue_tenant t on t.queue_name = u.queue_name and t.gate = u.gate
    left join base b on b.queue_name = u.queue_name
    order by t.queue_name, t.gate for no key update of t)
update djqueue_tenant t set used_at = clock_timestamp(),
    virtual_seconds = greatest(t.virtual_seconds, coalesce(f.base, 0)) + f.seconds / f.weight,
    mean_seconds = coalesce(0.7 * t.mean_seconds, 0.7 * f.seconds / f.n) + 0.3 * f.seconds / f.n
from f where t.id = f.id
"""
# The queue's virtual time: the least of those whose jobs have ended just now or are leased.
REBASE = """
update djqueue_tenant b set virtual_seconds = x.least
from (
    select t.queue_name, min(t.virtual_seconds) as least from djqueue_tenant t
    where t.queue_name = any(%(queues)s::text[]) and t.gate <> '' and (t.gate = any(%(gates)s::text[]) or t.gate in (
        select substring(j.lane, 't[0-9a-f]{16}') from djqueue_job j
        where j.leased_by is not null and j.tenant_id <> '' and j.queue_name = t.queue_name))
    group by t.queue_name) x
where b.queue_name = x.queue_name and b.gate = '' and b.virtual_seconds < x.least
"""
FORGET = f"""
delete from djqueue_tenant t where t.ctid = any(array(
    select ctid from djqueue_tenant where used_at < clock_timestamp() - interval '1 day' and max_running is null
        and weight is null and tier = '' and gate <> '' limit {BATCH}))
returning t.id
"""


def set_tenant(
    alias: str,
    queue_name: str,
    tenant_id: str,
    *,
    max_running: int | None = None,
    weight: float | None = None,
    tier: str = "",
) -> None:
    """Give a tenant of a queue a cap, a weight or a tier; it counts within a second. None and '': as the queue says."""
    params = {"running": max_running, "weight": weight, "tier": tier}
    db.rows(alias, SET, params | {"queue": queue_name, "tenant": tenant_id, "gate": gate(Gate.TENANT, tenant_id)})


def capped_queues(alias: str) -> list[str]:
    """Return the queues in which some tenant has a cap of its own."""
    return [row[0] for row in db.rows(alias, CAPPED)]


def of_queue(alias: str, queue_name: str) -> list[Tenant]:
    """Return the tenants of a queue that have rows."""
    return [
        Tenant(queue_name=queue, tenant_id=id_, max_running=most, tier=tier, weight=weight, virtual_seconds=virtual)
        for queue, id_, most, tier, weight, virtual in db.rows(alias, ALL, {"queue": queue_name})
    ]


def advance(alias: str, used: Iterable[Used], tiers: str) -> None:
    """Count run time against the tenants' shares; `tiers` is a JSON object of tiers and weights by queue."""
    found = list(used)
    params: dict[str, object] = {
        "queues": [each.queue_name for each in found],
        "tenants": [each.tenant_id for each in found],
        "gates": [gate(Gate.TENANT, each.tenant_id) for each in found],
        "counts": [each.jobs for each in found],
        "seconds": [each.seconds for each in found],
    }
    db.rows(alias, MAKE, params)
    db.rows(alias, ADVANCE, params | {"tiers": tiers})
    db.rows(alias, REBASE, {"queues": params["queues"], "gates": params["gates"]})


def forget(alias: str) -> int:
    """Delete up to 1,000 rows of tenants without settings that had no job for a day; return how many."""
    return len(db.rows(alias, FORGET))
