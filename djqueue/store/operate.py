"""What people ask for: cancel, requeue, retry now, pause. Set-based, guarded by state, safe from stale pages.

Invariant: a running job is never re-queued or removed; it is asked to cancel, and its own worker ends it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from djqueue.states import State
from djqueue.store import db


class CancelAnswer(StrEnum):
    """What became of a request to cancel."""

    CANCELLED = "cancelled"
    ASKED = "asked"
    """It is running: its handler is told and decides; returning normally still counts as success."""
    GONE = "gone"
    """It had ended before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """Which unfinished jobs: all that fit everything given."""

    queue_name: str | None = None
    task_name: str | None = None
    tenant_id: str | None = None
    tag: str | None = None
    state: State | None = None
    parked_for: str | None = None
    """Why it is set aside, see `policy.aside`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeued:
    """Dead letters that are jobs again, and those refused because an unfinished job holds their dedupe key."""

    ids: list[UUID]
    refused: list[UUID]


# Ready, scheduled and parked jobs go to history at once; a leased one is only marked. The rows are locked first, in the
# order of ids as every statement does that waits for several jobs, so that none can deadlock; and the state is that of
# the locked row, whoever claims or releases it in this very moment. A head leaves a wake row for the next of its key.
_CANCEL = """
with f as materialized (
    select j.id, j.state = 'leased' as leased from djqueue_job j where j.id = any(%(ids)s::uuid[])
    order by j.id for no key update),
marked as (
    update djqueue_job j set cancel_requested_at = coalesce(j.cancel_requested_at, clock_timestamp())
    from f where j.id = f.id and f.leased returning j.id),
ended as (
    delete from djqueue_job j using f where j.id = f.id and not f.leased returning j.*),
kept as (
    insert into {table} (id, finished_at, created_at, started_at, lease_token, attempts, interruptions, runs,
        priority, outcome, queue_name, task_name, tenant_id, dedupe_key, ordering_key, worker_ids, args, errors,
        options)
    select id, clock_timestamp(), created_at, started_at, lease_token, attempts, interruptions, runs,
        priority, 'cancelled', queue_name, task_name, tenant_id, dedupe_key, ordering_key, worker_ids, args, errors,
        options
    from ended),
woken as (
    insert into djqueue_wake (queue_name, ordering_key)
    select queue_name, ordering_key from ended
    where ordering_key is not null and (state <> 'parked' or parked_for is not null))
select id, 'cancelled' from ended union all select id, 'asked' from marked
"""
CANCEL = _CANCEL.format(table="djqueue_history")
# For a day without a partition, until the leader has made one.
CANCEL_OVERFLOW = _CANCEL.format(table="djqueue_history_overflow")

# The ids of jobs that match, in their order, a batch at a time: a wish of people, which may read the live table once.
MATCH = """
select id from djqueue_job
where id > coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000') and created_at <= %(until)s
    and queue_name = coalesce(%(queue)s::text, queue_name) and task_name = coalesce(%(task)s::text, task_name)
    and tenant_id = coalesce(%(tenant)s::text, tenant_id) and state = coalesce(%(state)s::text, state)
    and (%(parked_for)s::text is null or parked_for = %(parked_for)s)
    and (%(tag)s::text is null or options->'tags' ? %(tag)s::text)
order by id limit 1000
"""
NOW = "select clock_timestamp()"

# A dead letter becomes a job again with all its attempts and a higher token; in the order of dedupe keys, as enqueue
# does. A key that is taken refuses that row alone: it stays a dead letter. The letters are locked: of two who requeue
# or discard one, only the first finds it.
REQUEUE = """
with made as (
    insert into djqueue_job (id, seq, lease_token, created_at, run_at, timeout_seconds, priority, max_attempts, runs,
        queue_name, lane, task_name, tenant_id, dedupe_key, ordering_key, on_dead, state, args, errors, options,
        checkpoint)
    select id, seq, lease_token + 1, created_at, statement_timestamp(), timeout_seconds, priority, max_attempts,
        least(runs + 1, 32767), queue_name, lane, task_name, tenant_id, dedupe_key, ordering_key, on_dead,
        case when ordering_key is null then 'ready' else 'parked' end, args, errors, options, checkpoint
    from djqueue_dead_letter where id = any(%(ids)s::uuid[])
    order by queue_name, dedupe_key, id for update
    on conflict do nothing returning id, queue_name, ordering_key),
unblocked as (
    delete from djqueue_key_block b using made where b.queue_name = made.queue_name
        and b.ordering_key = made.ordering_key and b.job_id = made.id),
woken as (
    insert into djqueue_wake (queue_name, ordering_key)
    select queue_name, ordering_key from made where ordering_key is not null),
told as (
    select pg_notify('djqueue', queue_name) from made group by queue_name)
delete from djqueue_dead_letter d using made where d.id = made.id
returning d.id, (select count(*) from told)
"""
_STILL_DEAD = "select id from djqueue_dead_letter where id = any(%(ids)s::uuid[])"

# A retry is only brought forward; a job that waits because its caller delayed it may be started early as well.
RETRY_NOW = """
with f as materialized (
    select j.id from djqueue_job j where j.id = any(%(ids)s::uuid[]) and j.state = 'scheduled'
    order by j.id for no key update),
made as (
    update djqueue_job j set state = 'ready', run_at = statement_timestamp()
    from f where j.id = f.id returning j.id, j.queue_name),
told as (select pg_notify('djqueue', queue_name) from made group by queue_name)
select id, (select count(*) from told) from made
"""

STATES = "select id, state from djqueue_job where id = any(%(ids)s::uuid[])"

# Pausing needs no row to exist before. Workers that wait are told with a star: settings have changed.
PAUSE = """
with said as (
    insert into djqueue_queue (name, paused_until, paused_reason, paused_by)
    values (%(name)s, %(until)s, %(reason)s, %(by)s)
    on conflict (name) do update set paused_until = excluded.paused_until, paused_reason = excluded.paused_reason,
        paused_by = excluded.paused_by
    returning 1)
select pg_notify('djqueue', '*') from said
"""


def cancel(alias: str, ids: Sequence[UUID]) -> dict[UUID, CancelAnswer]:
    """Cancel jobs, or ask the running ones to; every id gets an answer."""
    found = db.rows_or_overflow(alias, CANCEL, CANCEL_OVERFLOW, {"ids": sorted(set(ids))})
    answers = {id_: CancelAnswer(word) for id_, word in found}
    return {id_: answers.get(id_, CancelAnswer.GONE) for id_ in ids}


def cancel_matching(alias: str, jobs: Jobs) -> Iterator[dict[UUID, CancelAnswer]]:
    """Cancel all unfinished jobs that match and were enqueued before the call, or ask the running ones to: a batch of
    1,000 per step, each a statement of its own. Raises `ValueError` where nothing at all is asked for."""
    params = {"queue": jobs.queue_name, "task": jobs.task_name, "tenant": jobs.tenant_id, "tag": jobs.tag}
    if not any([*params.values(), jobs.state]):
        raise ValueError("cancel_matching: expected a queue, a task, a tenant, a tag or a state, got none of them")
    params["parked_for"] = jobs.parked_for
    params["state"] = None if jobs.state is None else str(jobs.state)
    until = db.rows(alias, NOW)[0][0]
    after: UUID | None = None
    while ids := [row[0] for row in db.rows(alias, MATCH, {**params, "until": until, "after": after})]:
        yield cancel(alias, ids)
        after = ids[-1]


def requeue(alias: str, ids: Sequence[UUID]) -> Requeued:
    """Make dead letters jobs again, with all their attempts. Ids that are no dead letters are in neither list."""
    done = [row[0] for row in db.rows(alias, REQUEUE, {"ids": sorted(set(ids))})]
    rest = sorted(set(ids).difference(done))
    refused = [row[0] for row in db.rows(alias, _STILL_DEAD, {"ids": rest})] if rest else []
    return Requeued(ids=done, refused=refused)


def retry_now(alias: str, ids: Sequence[UUID]) -> list[UUID]:
    """Make scheduled jobs claimable at once; return those that were."""
    return [row[0] for row in db.rows(alias, RETRY_NOW, {"ids": sorted(set(ids))})]


def states(alias: str, ids: Sequence[UUID]) -> dict[UUID, State]:
    """Return in which state unfinished jobs are; ids of others are left out."""
    return {id_: State(state) for id_, state in db.rows(alias, STATES, {"ids": list(ids)})}


def pause(alias: str, queue_name: str, until: datetime | None, *, reason: str = "", by: str = "") -> None:
    """Stop claiming from a queue until a moment; None resumes it."""
    db.rows(alias, PAUSE, {"name": queue_name, "until": until, "reason": reason, "by": by})
