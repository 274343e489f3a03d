"""What happens where a dedupe key is held already: the waiting job is left alone, replaced or moved, or the call fails.

    write (ignoring duplicates) ─► created
            └► duplicate ─► window open ─► answered with the job that opened it
                         ─► holder waits ─► changed, in a savepoint
                         ─► holder runs  ─► left alone
                         ─► holder gone  ─► write again

Invariants: the row of a running job is never changed, and never stays locked by an enqueuer: no worker's ack waits for
one. An enqueuer may wait for another enqueuer of the same key, as everywhere.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from djqueue.exceptions import DuplicateJob
from djqueue.states import OnConflict
from djqueue.store import arrays, db, windows
from djqueue.store.enqueue import ROUNDS, Enqueued, NewJob, _shared, _unanswered, enqueue_many
from djqueue.store.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How duplicates are treated by one call."""

    mode: OnConflict = OnConflict.IGNORE
    unique_seconds: float | None = None
    """A key stays taken so long after the enqueue, whatever becomes of the job."""
    longest_seconds: float | None = None
    """A waiting job is moved to at most so long after its enqueue."""


# Only what waits. The retry of a job that has failed is not brought forward. The rows are locked in the order of keys,
# as the inserts; what was claimed between the statement's snapshot and the lock is locked as well, though it is not in
# the answer: the caller then rolls back to the savepoint, and a worker's ack waits no longer than that.
CHANGE = """
with x as materialized (
    select * from unnest(%(dedupe_keys)s::text[], %(args)s::jsonb[], %(lanes)s::text[], %(tenants)s::text[])
        x(dedupe_key, args, lane, tenant_id)),
f as materialized (
    select j.id, x.args, x.lane, x.tenant_id from x join djqueue_job j
        on j.queue_name = %(queue_name)s and j.dedupe_key = x.dedupe_key
    where j.state <> 'leased' and j.task_name = %(task_name)s
    order by j.dedupe_key for no key update of j),
t as materialized (
    select f.id, f.args, f.lane, f.tenant_id, greatest(case when j.attempts > 0 then j.run_at end, least(
        coalesce(%(run_at)s::timestamptz, statement_timestamp()) + make_interval(secs => %(delay)s::float8),
        j.created_at + make_interval(secs => %(longest)s::float8))) as run_at
    from f join djqueue_job j on j.id = f.id),
changed as (
    update djqueue_job j set run_at = t.run_at, expires_at = t.run_at + make_interval(secs => %(expires)s::float8),
        state = case when j.state = 'parked' then 'parked' when t.run_at > clock_timestamp() then 'scheduled'
            else 'ready' end,
        args = case when %(replace)s then t.args else j.args end,
        options = case when %(replace)s then (j.options - 'version') || jsonb_strip_nulls(
            jsonb_build_object('version', %(options)s::jsonb -> 'version')) else j.options end,
        lane = case when %(replace)s then t.lane else j.lane end,
        tenant_id = case when %(replace)s then t.tenant_id else j.tenant_id end,
        priority = case when %(replace)s then %(priority)s::smallint else j.priority end
    from t where j.id = t.id returning j.id, j.created_at, j.dedupe_key, j.state)
select id, created_at, dedupe_key, case when state = 'ready' then (
    select pg_notify('djqueue', %(queue_name)s) from djqueue_worker
    where wants_news and seen_at > clock_timestamp() - interval '30 s' limit 1) end
from changed
"""
HOLDERS = """
select dedupe_key, state <> 'leased' and task_name = %(task_name)s, created_at, id from djqueue_job
where queue_name = %(queue_name)s and dedupe_key = any(%(dedupe_keys)s::text[])
"""


def enqueue_all(alias: str, jobs: Sequence[NewJob], terms: Terms) -> list[Enqueued]:
    """Write jobs of one task in the open transaction, which must be one; answer in their order.

    Raises `DuplicateJob` where the terms say so; the caller then undoes what was written.
    """
    answers: dict[UUID, Enqueued] = {}
    left = list(jobs)
    for _ in range(ROUNDS):
        answers |= _round(alias, left, terms)
        left = [job for job in left if job.id not in answers]
        if not left:
            return [answers[job.id] for job in jobs]
    raise _unanswered(left[0].dedupe_key)


def _round(alias: str, jobs: Sequence[NewJob], terms: Terms) -> dict[UUID, Enqueued]:
    """Answer what can be answered; jobs whose key has become free meanwhile are left out."""
    taken = windows.take(alias, jobs, terms.unique_seconds) if terms.unique_seconds else None
    answers = _written(alias, jobs, taken)
    duplicates = [job for job in jobs if job.id in answers and not answers[job.id].created]
    if duplicates and terms.mode is OnConflict.RAISE:
        raise _duplicate(duplicates[0], answers)
    if not duplicates or terms.mode is OnConflict.IGNORE:
        return answers
    holders = _changed(alias, duplicates, terms)
    ours = {job.id for job in jobs}
    for job in duplicates:
        key = job.dedupe_key or ""
        if key in holders:
            answers[job.id] = holders[key]
        elif taken is None or taken[key].job_id in ours:
            del answers[job.id]  # its holder has ended meanwhile: the key is free
    return answers


def _written(alias: str, jobs: Sequence[NewJob], taken: dict[str, Window] | None) -> dict[UUID, Enqueued]:
    """Write what is new and answer the others; a window that somebody else has opened answers by itself."""
    if taken is None:
        return dict(zip((job.id for job in jobs), enqueue_many(alias, jobs), strict=True))
    ours = {job.id for job in jobs}
    free: list[NewJob] = []
    answers: dict[UUID, Enqueued] = {}
    for job in jobs:
        window = taken.get(job.dedupe_key or "")
        if job.dedupe_key is None or (window is not None and window.job_id in ours):
            free.append(job)
        elif window is not None:
            answers[job.id] = Enqueued(id=window.job_id, created=False, created_at=window.opened_at)
    written = dict(zip((job.id for job in free), enqueue_many(alias, free), strict=True))
    opened = {window.job_id for window in taken.values()}
    windows.close(alias, [job for job in free if job.id in opened and not written[job.id].created])
    return answers | written


def _duplicate(job: NewJob, answers: dict[UUID, Enqueued]) -> DuplicateJob:
    holder = str(answers[job.id].id)
    return DuplicateJob(task_name=job.task_name, dedupe_key=job.dedupe_key or "", holder=holder)


def _changed(alias: str, duplicates: Iterable[NewJob], terms: Terms) -> dict[str, Enqueued]:
    """Change the waiting holders of these keys, each as the last job with its key says; return the holders that there
    are, changed or left alone."""
    todo = {job.dedupe_key: job for job in duplicates if job.dedupe_key is not None}
    found: dict[str, Enqueued] = {}
    for _ in range(ROUNDS):
        if not todo:
            return found
        done = _change(alias, list(todo.values()), terms)
        if done is not None:
            return found | done
        keys: dict[str, tuple[bool, Enqueued]] = {
            key: (waits, Enqueued(id=id_, created=False, created_at=created_at))
            for key, waits, created_at, id_ in db.rows(alias, HOLDERS, _holders(list(todo.values())))
        }
        found |= {key: holder for key, (waits, holder) in keys.items() if not waits}
        todo = {key: job for key, job in todo.items() if key in keys and key not in found}
    raise _unanswered(next(iter(todo)))


def _change(alias: str, jobs: Sequence[NewJob], terms: Terms) -> dict[str, Enqueued] | None:
    """Change all holders of these keys, or none: then somebody has claimed or ended one."""
    params = {
        **_shared(jobs[0]),
        **_holders(jobs),
        "args": arrays.of_texts([job.args for job in jobs]),
        "lanes": [job.lane for job in jobs],
        "tenants": [job.tenant_id for job in jobs],
        "replace": terms.mode is OnConflict.REPLACE,
        "longest": terms.longest_seconds,
    }
    try:
        with db.one_transaction(alias):
            found = db.rows(alias, CHANGE, params)
            if len(found) < len(jobs):
                raise _Incomplete
    except _Incomplete:
        return None
    return {key: Enqueued(id=id_, created=False, created_at=at, changed=True) for id_, at, key, _told in found}


def _holders(jobs: Sequence[NewJob]) -> dict[str, object]:
    return {
        "queue_name": jobs[0].queue_name,
        "task_name": jobs[0].task_name,
        "dedupe_keys": [job.dedupe_key for job in jobs],
    }


class _Incomplete(Exception):
    """Takes the change back to its savepoint, with every lock."""
