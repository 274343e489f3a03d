"""Ending jobs whose time has passed: by the worker that claimed one too late, and by every keeper for those that nobody
claims.

Invariant: by the database's clock, no attempt starts after `expires_at`. A claim does not look for expired jobs, so
that it costs the same with a million of them; each is touched once, when its turn comes.
"""

from collections.abc import Sequence
from uuid import UUID

from djqueue.states import State
from djqueue.store import db
from djqueue.store.finish import Ended
from djqueue.store.lease import Lease

BATCH = 500

_COLUMNS = """(id, finished_at, created_at, started_at, lease_token, attempts, interruptions, runs, priority, outcome,
        queue_name, task_name, tenant_id, dedupe_key, ordering_key, worker_ids, args, result, errors, options)"""
_NOTE = """errors || jsonb_build_object('kind', 'expired', 'at', clock_timestamp(), 'exception', 'djqueue.Expired',
            'message', 'expired: not started by ' ||
            to_char(expires_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC')"""
_KEPT = f"""
    select id, clock_timestamp(), created_at, started_at, lease_token, attempts - %(charged)s::smallint, interruptions,
        runs, priority, 'cancelled', queue_name, task_name, tenant_id, dedupe_key, ordering_key,
        worker_ids[1:cardinality(worker_ids) - %(charged)s::int], args, null,
        {_NOTE}, options
    from ended"""
_WOKEN = """woken as (
    insert into djqueue_wake (queue_name, ordering_key)
    select queue_name, ordering_key from ended
    where ordering_key is not null and (state <> 'parked' or parked_for is not null))"""

# Claimed, but too late: the attempt that the claim has counted is given back.
_REFUSED = """
with f as materialized (
    select j.id from djqueue_job j
    join unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) u(id, token) on j.id = u.id and j.lease_token = u.token
    where j.expires_at is not null
    order by j.id for update of j),
ended as (delete from djqueue_job j using f where j.id = f.id returning j.*),
kept as (insert into {table} {columns} {kept}),
{woken}
select id, 'cancelled', queue_name from ended
"""
# Those that nobody has claimed (a paused queue, no worker), by their own small index.
_OVERDUE = """
with f as materialized (
    select j.id from djqueue_job j
    where j.expires_at <= statement_timestamp() and j.expires_at is not null and j.state <> 'leased'
    order by j.expires_at limit {batch} for update skip locked),
ended as (delete from djqueue_job j using f where j.id = f.id returning j.*),
kept as (insert into {table} {columns} {kept}),
{woken}
select id, 'cancelled', queue_name from ended
"""
_PARTS = {"columns": _COLUMNS, "kept": _KEPT, "woken": _WOKEN, "batch": BATCH}
REFUSED = _REFUSED.format(table="djqueue_history", **_PARTS)
REFUSED_OVERFLOW = _REFUSED.format(table="djqueue_history_overflow", **_PARTS)
OVERDUE = _OVERDUE.format(table="djqueue_history", **_PARTS)
OVERDUE_OVERFLOW = _OVERDUE.format(table="djqueue_history_overflow", **_PARTS)


def refuse(alias: str, leases: Sequence[Lease]) -> set[UUID]:
    """End jobs that were claimed and may not be started any more; ids that are not in the answer lost their lease."""
    params = {"ids": [each.id for each in leases], "tokens": [each.lease_token for each in leases], "charged": 1}
    return {row[0] for row in db.rows_or_overflow(alias, REFUSED, REFUSED_OVERFLOW, params)}


def end_overdue(alias: str) -> list[Ended]:
    """End up to 500 waiting jobs whose time has passed."""
    found = db.rows_or_overflow(alias, OVERDUE, OVERDUE_OVERFLOW, {"charged": 0})
    return [Ended(id_, State(state), queue) for id_, state, queue in found]
