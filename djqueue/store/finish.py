"""Ending attempts: ack, fail, cancel. Here the road of a job ends, or turns back for another attempt.

Invariant: an end carries (id, lease token) and changes nothing when the token is stale; what has ended leaves the live
table in the statement that ends it. The token alone decides: `and state = 'leased'` would make the planner read the
partial index of leased rows, full of dead entries.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from djqueue.states import State
from djqueue.store import arrays, db, ordering
from djqueue.store.ordering import Key


class Ack(NamedTuple):
    """A job that ended well. Moments are seconds ago (monotonic differences of the worker), so that the database's
    clock is the only one; `result` is a JSON text."""

    id: UUID
    lease_token: int
    began_ago: float
    ended_ago: float
    result: str
    key: Key | None = None
    """Its ordering key, whose next job is let out in the same transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What a death is counted under; texts are bounded, storable and free of what nobody may read."""

    fingerprint: str = ""
    exception: str = ""
    frame: str = ""
    message: str = ""
    """As it was raised, the beginning: a sample for people."""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An attempt that did not end well."""

    id: UUID
    lease_token: int
    entry: dict[str, Any]
    """What happened, for people; the database adds the moment."""
    errors: list[dict[str, Any]]
    """The entries of earlier attempts, already cut to size."""
    delay_seconds: float = 0
    """Wait before the next attempt."""
    reason: str = "attempts used up"
    """Why the job is dead, if it is."""
    final: bool = False
    """Never try again, whatever attempts are left."""
    crash: bool = False
    """Its process was lost: the job becomes a suspect."""
    cancel: bool = False
    """End as cancelled instead."""
    began_ago: float | None = None
    cause: Cause = Cause()


class Ended(NamedTuple):
    """What a failure became: `dead`, `cancelled`, `scheduled` or `ready`."""

    id: UUID
    state: State
    queue_name: str
    is_head: bool = False
    """It had an ordering key, whose next job may be let out now: `ordering.turn` does it."""


_HISTORY = """(id, finished_at, created_at, started_at, lease_token, attempts, interruptions, runs, priority, outcome,
        queue_name, task_name, tenant_id, dedupe_key, ordering_key, worker_ids, args, result, errors, options)"""
# Rows are locked first, in the order of ids, as in every statement that waits for several jobs: so no worker, keeper or
# admin can deadlock with another. It costs a microsecond per job.
_ACK = """
with f as materialized (
    select j.id, u.began, u.ended, u.result from djqueue_job j
    join unnest(%(ids)s::uuid[], %(tokens)s::bigint[], %(began)s::float8[], %(ended)s::float8[], %(results)s::jsonb[])
        u(id, token, began, ended, result)
    on j.id = u.id and j.lease_token = u.token
    order by j.id for update of j),
d as (
    delete from djqueue_job j using f where j.id = f.id
    returning j.*, f.began, f.ended, f.result),
h as (
    insert into {table} {columns}
    select id, clock_timestamp() - make_interval(secs => ended), created_at,
        clock_timestamp() - make_interval(secs => began), lease_token, attempts, interruptions, runs, priority,
        'succeeded', queue_name, task_name, tenant_id, dedupe_key, ordering_key, worker_ids, args, result, errors,
        options
    from d)
select id from d
"""
ACK = _ACK.format(table="djqueue_history", columns=_HISTORY)
# For a day without a partition, until the leader has made one.
ACK_OVERFLOW = _ACK.format(table="djqueue_history_overflow", columns=_HISTORY)

# Dead, cancelled or another attempt, by the row as it is now. A request to cancel beats another attempt, and death.
# A death is noted by an insert, which waits for nobody; counting it in its group's row here would make all who die of
# one cause wait for each other until they have committed (eight connections, ten deaths each: half as many a second, a
# fifth where the transaction has ten milliseconds of other work).
# Whoever had an ordering key leaves it: blocked by its letter, or with a wake row for the next one.
_FAIL = """
with f as materialized (
    select j.id, u.crash, u.delay, u.reason, u.began,
        (u.cancel or j.cancel_requested_at is not null) as cancelled,
        (u.final or j.attempts >= j.max_attempts) and not (u.cancel or j.cancel_requested_at is not null) as over,
        u.errors || jsonb_build_array(u.entry || jsonb_build_object('at', clock_timestamp(), 'started_at',
            coalesce(clock_timestamp() - make_interval(secs => u.began), j.started_at))) as errors, u.cause
    from djqueue_job j
    join unnest(%(ids)s::uuid[], %(tokens)s::bigint[], %(delays)s::float8[], %(finals)s::bool[], %(crashes)s::bool[],
        %(cancels)s::bool[], %(reasons)s::text[], %(errors)s::jsonb[], %(entries)s::jsonb[], %(began)s::float8[],
        %(causes)s::jsonb[])
        u(id, token, delay, final, crash, cancel, reason, errors, entry, began, cause)
    on j.id = u.id and j.lease_token = u.token
    order by j.id for no key update of j),
dead as (
    delete from djqueue_job j using f where j.id = f.id and f.over
    returning j.*, f.errors as all_errors, f.reason, f.began, f.cause),
letter as (
    insert into djqueue_dead_letter (id, seq, died_at, created_at, started_at, lease_token, timeout_seconds, priority,
        attempts, max_attempts, interruptions, runs, reason, fingerprint, queue_name, lane, task_name, tenant_id,
        dedupe_key, ordering_key, on_dead, worker_ids, args, errors, options, progress, checkpoint)
    select id, seq, clock_timestamp(), created_at,
        coalesce(clock_timestamp() - make_interval(secs => began), started_at), lease_token, timeout_seconds, priority,
        attempts, max_attempts, interruptions, runs, reason, cause->>'fingerprint', queue_name, lane, task_name,
        tenant_id, dedupe_key, ordering_key, on_dead, worker_ids, args, all_errors, options, progress, checkpoint
    from dead),
death as (
    insert into djqueue_death (died_at, job_id, queue_name, task_name, tenant_id, reason, fingerprint, exception,
        frame, message, version)
    select clock_timestamp(), id, queue_name, task_name, tenant_id, reason, cause->>'fingerprint', cause->>'exception',
        cause->>'frame', cause->>'message', cause->>'version'
    from dead),
stopped as (
    delete from djqueue_job j using f where j.id = f.id and f.cancelled
    returning j.*, f.errors as all_errors, f.began),
kept as (
    insert into {table} {columns}
    select id, clock_timestamp(), created_at,
        coalesce(clock_timestamp() - make_interval(secs => began), started_at), lease_token, attempts, interruptions,
        runs, priority, 'cancelled', queue_name, task_name, tenant_id, dedupe_key, ordering_key, worker_ids, args,
        null, all_errors, options
    from stopped),
blocked as (
    insert into djqueue_key_block (queue_name, ordering_key, job_id)
    select queue_name, ordering_key, id from dead where ordering_key is not null and on_dead = 'block'
    on conflict do nothing),
woken as (
    insert into djqueue_wake (queue_name, ordering_key)
    select queue_name, ordering_key from dead where ordering_key is not null and on_dead <> 'block'
    union all select queue_name, ordering_key from stopped where ordering_key is not null),
again as (
    update djqueue_job j set state = case when f.delay > 0 then 'scheduled' else 'ready' end,
        run_at = clock_timestamp() + make_interval(secs => f.delay), lease_token = j.lease_token + 1,
        lease_until = null, leased_by = null, suspect = f.crash, errors = f.errors
    from f where j.id = f.id and not f.over and not f.cancelled
    returning j.id, j.state, j.queue_name)
select id, 'dead', queue_name, ordering_key is not null from dead
union all select id, 'cancelled', queue_name, ordering_key is not null from stopped
union all select id, state, queue_name, false from again
"""
FAIL = _FAIL.format(table="djqueue_history", columns=_HISTORY)
FAIL_OVERFLOW = _FAIL.format(table="djqueue_history_overflow", columns=_HISTORY)


# For an ack alone, in its transaction: it is seen by everybody at once, and on disk a moment later.
RELAX = "set local synchronous_commit to off"


def relax(alias: str) -> None:
    """Let the commit of this transaction not wait for the disk. Call it in an open transaction."""
    db.execute(alias, RELAX)


def start_ack(
    alias: str, acks: Sequence[Ack], now: float, *, overflow: bool = False, tell: bool = True
) -> psycopg.Cursor[db.Row]:
    """Start an ack on an adopted connection; read it with `acked`. `began_ago` and `ended_ago` are moments on the
    monotonic clock here, and `now` is that clock's reading.

    Where jobs have ordering keys the next ones are let out; `tell` says whether other workers are to be notified.
    """
    cursor = db.execute(alias, ACK_OVERFLOW if overflow else ACK, _ack_params(acks, now))
    if keys := _keys(acks):
        ordering.start_let_out(alias, keys, tell=tell)
    return cursor


def acked(cursor: psycopg.Cursor[db.Row]) -> set[UUID]:
    """Return the ids that were acked; the leases of all others are lost."""
    return {row[0] for row in db.fetch(cursor)}


def ack(alias: str, acks: Sequence[Ack], now: float = 0, *, overflow: bool = False) -> set[UUID]:
    """Ack in one statement, in the current transaction where there is one; into the overflow table where history has
    no partition for the day, or where the caller says so."""
    keys = _keys(acks)
    if not keys:
        return _ack(alias, acks, now, overflow)
    with db.one_transaction(alias):
        done = _ack(alias, acks, now, overflow)
        ordering.let_out(alias, keys)
    return done


def fail(alias: str, failures: Sequence[Failure], *, overflow: bool = False) -> list[Ended]:
    """End attempts as failed; ids that are not in the answer have lost their lease."""
    statement = FAIL_OVERFLOW if overflow else FAIL
    found = db.rows_or_overflow(alias, statement, FAIL_OVERFLOW, _fail_params(failures))
    return [Ended(id_, State(state), queue, is_head) for id_, state, queue, is_head in found]


def _ack(alias: str, acks: Sequence[Ack], now: float, overflow: bool) -> set[UUID]:
    statement = ACK_OVERFLOW if overflow else ACK
    return {row[0] for row in db.rows_or_overflow(alias, statement, ACK_OVERFLOW, _ack_params(acks, now))}


def _keys(acks: Iterable[Ack]) -> list[Key]:
    return [ack.key for ack in acks if ack.key is not None]


def _ack_params(acks: Sequence[Ack], now: float) -> dict[str, Any]:
    return {
        "ids": arrays.of_ids([ack.id for ack in acks]),
        "tokens": arrays.of_numbers([ack.lease_token for ack in acks]),
        "began": arrays.of_numbers([now - ack.began_ago if now else ack.began_ago for ack in acks]),
        "ended": arrays.of_numbers([now - ack.ended_ago if now else ack.ended_ago for ack in acks]),
        "results": arrays.of_texts([ack.result for ack in acks]),
    }


def _fail_params(failures: Sequence[Failure]) -> dict[str, Any]:
    return {
        "ids": [f.id for f in failures],
        "tokens": [f.lease_token for f in failures],
        "delays": [float(f.delay_seconds) for f in failures],
        "finals": [f.final for f in failures],
        "crashes": [f.crash for f in failures],
        "cancels": [f.cancel for f in failures],
        "reasons": [f.reason for f in failures],
        "errors": [json.dumps(f.errors) for f in failures],
        "entries": [json.dumps(f.entry) for f in failures],
        "began": [None if f.began_ago is None else float(f.began_ago) for f in failures],
        "causes": [json.dumps(asdict(f.cause)) for f in failures],
    }
