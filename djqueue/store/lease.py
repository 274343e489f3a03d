"""While a job is leased: heartbeat, release, snooze, set aside, and finding out what became of an unanswered statement.

Invariant: everything carries (id, lease token) and changes nothing when the token is stale.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from djqueue.store import db


class Lease(NamedTuple):
    """A job in somebody's hands."""

    id: UUID
    lease_token: int


class Beat(NamedTuple):
    """A lease to extend; `began_ago` is set once the handler runs (seconds)."""

    id: UUID
    lease_token: int
    began_ago: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beaten:
    """The answer to a heartbeat: which jobs were asked to cancel, and whose leases are lost."""

    cancelled: set[UUID]
    lost: set[UUID]


class Standing(StrEnum):
    """Where a lease stands."""

    MINE = "mine"
    DONE = "done"
    """Ended under this very token."""
    LOST = "lost"


# A row that is locked just now (by an ack, or an atomic handler's) is skipped, not waited for: LOOK decides about it.
HEARTBEAT = """
with h as materialized (
    select j.id, u.began from djqueue_job j
    join unnest(%(ids)s::uuid[], %(tokens)s::bigint[], %(began)s::float8[]) u(id, token, began)
    on j.id = u.id and j.lease_token = u.token for no key update of j skip locked)
update djqueue_job j set lease_until = clock_timestamp() + make_interval(secs => %(lease)s),
    started_at = coalesce(j.started_at, clock_timestamp() - make_interval(secs => h.began))
from h where j.id = h.id
returning j.id, j.cancel_requested_at is not null
"""

LOOK = """
select u.id, coalesce(j.lease_token = u.token, false),
    exists (select from djqueue_history h where h.id = u.id and h.lease_token = u.token)
    or exists (select from djqueue_history_overflow o where o.id = u.id and o.lease_token = u.token)
    or exists (select from djqueue_dead_letter x where x.id = u.id and x.lease_token = u.token)
from unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) u(id, token) left join djqueue_job j on j.id = u.id
"""

# Rows are locked in the order of ids everywhere, so that no two statements deadlock.
_MINE = """
with f as materialized (
    select j.id, u.n from djqueue_job j
    join unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) with ordinality u(id, token, n)
    on j.id = u.id and j.lease_token = u.token
    order by j.id for update of j)"""

# An uncharged end: never started (interrupted 0), or cut short by a graceful stop (1). A job that was asked to cancel
# is not given back, here and in the next two: nobody wants it any more.
RELEASE = f"""
{_MINE}
update djqueue_job j set state = 'ready', lease_token = j.lease_token + 1, lease_until = null, leased_by = null,
    started_at = null, attempts = j.attempts - 1, interruptions = j.interruptions + %(interrupted)s::int,
    worker_ids = trim_array(j.worker_ids, 1)
from f where j.id = f.id and j.cancel_requested_at is null
returning j.id
"""

SNOOZE = f"""
{_MINE},
d as (select f.id, (%(delays)s::float8[])[f.n] as delay from f)
update djqueue_job j set state = case when d.delay > 0 then 'scheduled' else 'ready' end,
    run_at = clock_timestamp() + make_interval(secs => d.delay), lease_token = j.lease_token + 1, lease_until = null,
    leased_by = null, started_at = null, attempts = j.attempts - 1, worker_ids = trim_array(j.worker_ids, 1),
    suspect = false
from d where j.id = d.id and j.cancel_requested_at is null
returning j.id
"""

# What a worker claimed and does not know, or may not start, goes aside, uncharged, with the reason.
ASIDE = f"""
{_MINE}
update djqueue_job j set state = 'parked', lease_token = j.lease_token + 1,
    parked_for = coalesce((%(reasons)s::text[])[f.n], 'task:' || j.task_name), lease_until = null, leased_by = null,
    started_at = null, attempts = j.attempts - 1, worker_ids = trim_array(j.worker_ids, 1)
from f where j.id = f.id and j.cancel_requested_at is null
returning j.id
"""

_CANCEL_ASKED = f"""
{_MINE},
ended as (
    delete from djqueue_job j using f where j.id = f.id and j.cancel_requested_at is not null
    returning j.*),
kept as (
    insert into {{table}} (id, finished_at, created_at, started_at, lease_token, attempts, interruptions, runs,
        priority, outcome, queue_name, task_name, tenant_id, dedupe_key, ordering_key, worker_ids, args, errors,
        options)
    select id, clock_timestamp(), created_at, started_at, lease_token, attempts, interruptions, runs,
        priority, 'cancelled', queue_name, task_name, tenant_id, dedupe_key, ordering_key, worker_ids, args, errors,
        options
    from ended),
woken as (
    insert into djqueue_wake (queue_name, ordering_key)
    select queue_name, ordering_key from ended where ordering_key is not null)
select id from ended
"""
CANCEL_ASKED = _CANCEL_ASKED.format(table="djqueue_history")
CANCEL_ASKED_OVERFLOW = _CANCEL_ASKED.format(table="djqueue_history_overflow")

# What a worker holds by the rows alone: the truth after a lost answer, and after the worker's death.
OWNED = """
select id, lease_token from djqueue_job where state = 'leased' and leased_by = %(worker)s
"""

# Heartbeats tell of requests to cancel too, but only every few seconds.
CANCEL_REQUESTED = """
select id, lease_token from djqueue_job
where state = 'leased' and cancel_requested_at is not null and leased_by = any(%(workers)s::text[])
"""


def heartbeat(alias: str, beats: Sequence[Beat], lease_seconds: float) -> Beaten:
    """Extend leases; tell which jobs are to be cancelled and which leases are lost."""
    params = {"began": [b.began_ago for b in beats], "lease": lease_seconds} | _keys(beats)
    found: dict[UUID, bool] = dict(db.rows(alias, HEARTBEAT, params))
    unanswered = [b for b in beats if b.id not in found]
    standing = look(alias, unanswered) if unanswered else {}
    return Beaten(
        cancelled={id_ for id_, cancel in found.items() if cancel},
        lost={id_ for id_, word in standing.items() if word is not Standing.MINE},
    )


def look(alias: str, leases: Sequence[Lease | Beat]) -> dict[UUID, Standing]:
    """Find out where leases stand, after an answer was lost or a row was locked."""
    return {id_: _standing(mine, done) for id_, mine, done in db.rows(alias, LOOK, _keys(leases))}


def release(alias: str, leases: Sequence[Lease], *, interrupted: bool = False) -> set[UUID]:
    """Give jobs back, their attempt not used up; `interrupted` says that they had started.

    Jobs that were asked to cancel end as cancelled instead. Ids that are not in the answer have lost their lease.
    """
    params = _keys(leases) | {"interrupted": int(interrupted)}
    return _given_back(alias, leases, db.rows(alias, RELEASE, params))


def snooze(alias: str, leases: Sequence[Lease], delays: Sequence[float]) -> set[UUID]:
    """Run jobs again later, their attempt not used up. Jobs that were asked to cancel are left alone."""
    return {row[0] for row in db.rows(alias, SNOOZE, _keys(leases) | {"delays": [float(delay) for delay in delays]})}


def set_aside(alias: str, leases: Sequence[Lease], reasons: Sequence[str] = ()) -> set[UUID]:
    """Park jobs, their attempt not used up, for these reasons (see `policy.aside`); none: nobody knows their task."""
    return _given_back(alias, leases, db.rows(alias, ASIDE, _keys(leases) | {"reasons": list(reasons)}))


def owned(alias: str, worker_id: str) -> list[Lease]:
    """Return the leases of one worker."""
    return [Lease(*row) for row in db.rows(alias, OWNED, {"worker": worker_id})]


def _given_back(alias: str, leases: Sequence[Lease], found: list[db.Row]) -> set[UUID]:
    done = {row[0] for row in found}
    rest = [lease for lease in leases if lease.id not in done]
    if rest:
        done |= {row[0] for row in db.rows_or_overflow(alias, CANCEL_ASKED, CANCEL_ASKED_OVERFLOW, _keys(rest))}
    return done


def cancel_requested(alias: str, worker_ids: Sequence[str]) -> list[Lease]:
    """Return the leases of these workers whose jobs were asked to cancel."""
    return [Lease(*row) for row in db.rows(alias, CANCEL_REQUESTED, {"workers": list(worker_ids)})]


def _standing(mine: bool, done: bool) -> Standing:
    if mine:
        return Standing.MINE
    return Standing.DONE if done else Standing.LOST


def _keys(leases: Sequence[Lease | Beat]) -> dict[str, object]:
    return {"ids": [lease.id for lease in leases], "tokens": [lease.lease_token for lease in leases]}
