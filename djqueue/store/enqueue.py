"""Writing jobs, inside the caller's transaction: here the road of a job begins.

Invariant: whatever the race at READ COMMITTED, a call answers every job exactly once, as created or as the unfinished
job that already holds its dedupe key; it raises nothing, and never makes a worker's ack wait for the caller.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from djqueue.exceptions import EnqueueError
from djqueue.states import OnDead
from djqueue.store import arrays, db
from djqueue.store.enqueue_ordered import ENQUEUE_ORDERED

CHUNK = 1_000
CHUNK_CHARACTERS = 16_000_000
"""Arguments in one statement: well below what a statement may hold, and no more than a web process has to spare."""

ROUNDS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to be written. `args` and `options` are JSON texts; `run_at` None and `delay_seconds` 0 mean now."""

    id: UUID
    queue_name: str
    task_name: str
    args: str
    priority: int = 0
    run_at: datetime | None = None
    delay_seconds: float = 0
    dedupe_key: str | None = None
    ordering_key: str | None = None
    on_dead: OnDead = OnDead.SKIP
    max_attempts: int = 8
    timeout_seconds: float | None = 300
    expires_seconds: float | None = None
    """No attempt starts later than so long after `run_at` (None: whenever)."""
    options: str = "{}"
    lane: str = ""
    tenant_id: str = ""
    given: str = ""
    """Not written: the arguments themselves, where `args` only says in which file they are."""


class Enqueued(NamedTuple):
    """The answer to one job: its id, or (created False) that of the unfinished job with the same dedupe key."""

    id: UUID
    created: bool
    created_at: datetime
    changed: bool = False
    """Not created, but that job, which waits, was replaced or moved."""


# Workers listen on one channel; the payload is the queue. Notifying costs every committer a server-wide lock, so it is
# done only where a worker said that it wants news; decided here, sent at commit.
_NOTIFY = """(select pg_notify('djqueue', %(queue_name)s) from djqueue_worker
    where wants_news and seen_at > clock_timestamp() - interval '30 s' limit 1)"""

# The statement of most web requests: no key, due now. Django sends it as text, so the server plans it anew each time;
# without the machinery for duplicates that takes a third less.
ENQUEUE_NOW = f"""
insert into djqueue_job (id, queue_name, lane, tenant_id, task_name, priority, run_at, created_at, max_attempts,
    timeout_seconds, expires_at, args, options)
values (%(id)s::uuid, %(queue_name)s::text, %(lane)s::text, %(tenant)s::text, %(task_name)s::text,
        %(priority)s::smallint,
    statement_timestamp(), statement_timestamp(), %(max_attempts)s::smallint, %(timeout_seconds)s::float8,
    statement_timestamp() + make_interval(secs => %(expires)s::float8), %(args)s::jsonb, %(options)s::jsonb)
returning id, created_at, true, {_NOTIFY}
"""

# A duplicate is answered from this statement's snapshot. `not exists` matters: the old job, acked while the insert
# waited for it, is still in that snapshot. No row at all: the holder committed after the snapshot; ask again.
# Never DO UPDATE: it would make the holder's ack wait for this transaction.
ENQUEUE = f"""
with new as (
    insert into djqueue_job (id, queue_name, lane, tenant_id, task_name, priority, state, run_at, created_at,
        dedupe_key, max_attempts, timeout_seconds, expires_at, args, options)
    values (%(id)s::uuid, %(queue_name)s::text, %(lane)s::text, %(tenant)s::text, %(task_name)s::text,
        %(priority)s::smallint,
        case when coalesce(%(run_at)s::timestamptz, '-infinity') > clock_timestamp() or %(delay)s::float8 > 0
            then 'scheduled' else 'ready' end,
        coalesce(%(run_at)s::timestamptz, statement_timestamp()) + make_interval(secs => %(delay)s::float8),
        statement_timestamp(), %(dedupe_key)s::text, %(max_attempts)s::smallint, %(timeout_seconds)s::float8,
        coalesce(%(run_at)s::timestamptz, statement_timestamp())
            + make_interval(secs => %(delay)s::float8 + %(expires)s::float8), %(args)s::jsonb, %(options)s::jsonb)
    on conflict (queue_name, dedupe_key) where dedupe_key is not null do nothing
    returning id, created_at, state)
select id, created_at, true, case when state = 'ready' then {_NOTIFY} end from new
union all
select j.id, j.created_at, false, null from djqueue_job j
where j.queue_name = %(queue_name)s and j.dedupe_key = %(dedupe_key)s and not exists (select from new)
"""

# Many at once. The rows go in in the order of their dedupe keys, so that two calls with the same keys can't deadlock.
# Lane, tenant and options are as a rule the same for all of a call; where they are not, arrays say so.
_LANE = "coalesce((%(lanes)s::text[])[x.n], %(lane)s::text)"
_TENANT = "coalesce((%(tenants)s::text[])[x.n], %(tenant)s::text)"
_OPTIONS = "coalesce((%(all_options)s::jsonb[])[x.n], %(options)s::jsonb)"
_ROWS = """unnest(%(ids)s::uuid[], %(args)s::jsonb[], %(dedupe_keys)s::text[]) with ordinality
    x(id, args, dedupe_key, n)"""
ENQUEUE_MANY = f"""
with new as (
    insert into djqueue_job (id, queue_name, lane, tenant_id, task_name, priority, state, run_at, created_at,
        dedupe_key, max_attempts, timeout_seconds, expires_at, args, options)
    select x.id, %(queue_name)s::text, {_LANE}, {_TENANT}, %(task_name)s::text, %(priority)s::smallint,
        case when coalesce(%(run_at)s::timestamptz, '-infinity') > clock_timestamp() or %(delay)s::float8 > 0
            then 'scheduled' else 'ready' end,
        coalesce(%(run_at)s::timestamptz, statement_timestamp()) + make_interval(secs => %(delay)s::float8),
        statement_timestamp(), x.dedupe_key, %(max_attempts)s::smallint, %(timeout_seconds)s::float8,
        coalesce(%(run_at)s::timestamptz, statement_timestamp())
            + make_interval(secs => %(delay)s::float8 + %(expires)s::float8), x.args, {_OPTIONS}
    from {_ROWS} order by x.dedupe_key, x.n
    on conflict (queue_name, dedupe_key) where dedupe_key is not null do nothing
    returning id, created_at, dedupe_key, state)
select id, created_at, true, dedupe_key, case when state = 'ready' then {_NOTIFY} end from new
union all
select j.id, j.created_at, false, j.dedupe_key, null
from (select distinct dedupe_key from {_ROWS} where dedupe_key is not null) x
join djqueue_job j on j.queue_name = %(queue_name)s and j.dedupe_key = x.dedupe_key
where not exists (select from new where new.dedupe_key = x.dedupe_key)
"""

# Many without keys: every one is created, so one row answers for all.
ENQUEUE_ALL = f"""
with new as (
    insert into djqueue_job (id, queue_name, lane, tenant_id, task_name, priority, state, run_at, created_at,
        max_attempts, timeout_seconds, expires_at, args, options)
    select x.id, %(queue_name)s::text, {_LANE}, {_TENANT}, %(task_name)s::text, %(priority)s::smallint, t.state,
        t.run_at, statement_timestamp(), %(max_attempts)s::smallint, %(timeout_seconds)s::float8,
        t.run_at + make_interval(secs => %(expires)s::float8), x.args, {_OPTIONS}
    from (select case when coalesce(%(run_at)s::timestamptz, '-infinity') > clock_timestamp()
                or %(delay)s::float8 > 0 then 'scheduled' else 'ready' end as state,
            coalesce(%(run_at)s::timestamptz, statement_timestamp()) + make_interval(secs => %(delay)s::float8)
                as run_at) t
    cross join unnest(%(ids)s::uuid[], %(args)s::jsonb[]) with ordinality x(id, args, n)
    returning created_at, state)
select min(created_at), case when bool_or(state = 'ready') then {_NOTIFY} end from new
"""


def enqueue(alias: str, job: NewJob, *, prepared: bool = False) -> Enqueued:
    """Write one job in the current transaction of `alias`. One round trip, but for a race on its dedupe key.

    `prepared`: the connection can carry prepared statements.
    """
    if job.ordering_key is not None:
        return _enqueue_chunk_with_keys(alias, [job], prepared=prepared)[0]
    params = {**_shared(job), "id": job.id, "args": job.args, "dedupe_key": job.dedupe_key}
    is_plain = job.dedupe_key is None and job.run_at is None and not job.delay_seconds
    run = db.rows_prepared if prepared else db.rows
    for _ in range(ROUNDS):
        for id_, created_at, created, _told in run(alias, ENQUEUE_NOW if is_plain else ENQUEUE, params):
            return Enqueued(id=id_, created=created, created_at=created_at)
    raise _unanswered(job.dedupe_key)


def enqueue_many(alias: str, jobs: Iterable[NewJob]) -> Iterator[Enqueued]:
    """Write jobs that differ only in id, arguments, keys, lane, tenant and options; answer in their order, one
    statement per 1,000, fewer where arguments are large. Nothing is written before the answers are read."""
    for chunk in _chunks(jobs):
        yield from _enqueue_chunk(alias, chunk)


def _chunks(jobs: Iterable[NewJob]) -> Iterator[list[NewJob]]:
    chunk: list[NewJob] = []
    characters = 0
    for job in jobs:
        if chunk and (len(chunk) == CHUNK or characters + len(job.args) > CHUNK_CHARACTERS):
            yield chunk
            chunk, characters = [], 0
        chunk.append(job)
        characters += len(job.args)
    if chunk:
        yield chunk


def _enqueue_chunk(alias: str, chunk: Sequence[NewJob]) -> list[Enqueued]:
    if all(job.dedupe_key is None and job.ordering_key is None for job in chunk):
        [(created_at, _told)] = db.rows(alias, ENQUEUE_ALL, _arrays(chunk))
        return [Enqueued(job.id, True, created_at) for job in chunk]
    return _enqueue_chunk_with_keys(alias, chunk)


def _enqueue_chunk_with_keys(alias: str, chunk: Sequence[NewJob], *, prepared: bool = False) -> list[Enqueued]:
    by_id: dict[UUID, Enqueued] = {}
    by_key: dict[str, Enqueued] = {}
    left = list(chunk)
    run = db.rows_prepared if prepared else db.rows
    statement = ENQUEUE_MANY if all(job.ordering_key is None for job in chunk) else ENQUEUE_ORDERED
    for _ in range(ROUNDS):
        for id_, created_at, created, key, *_told in run(alias, statement, _arrays(left)):
            answer = Enqueued(id=id_, created=created, created_at=created_at)
            if created:
                by_id[id_] = answer
            if key is not None:
                by_key.setdefault(key, answer)
        left = [job for job in left if job.id not in by_id and job.dedupe_key not in by_key]
        if not left:
            return [by_id.get(job.id) or _duplicate(by_key[job.dedupe_key or ""]) for job in chunk]
    raise _unanswered(left[0].dedupe_key)


def _duplicate(answer: Enqueued) -> Enqueued:
    return Enqueued(id=answer.id, created=False, created_at=answer.created_at)


def _shared(job: NewJob) -> dict[str, object]:
    return {
        "queue_name": job.queue_name,
        "lane": job.lane,
        "tenant": job.tenant_id,
        "task_name": job.task_name,
        "priority": job.priority,
        "run_at": job.run_at,
        "delay": job.delay_seconds,
        "max_attempts": job.max_attempts,
        "timeout_seconds": job.timeout_seconds,
        "expires": job.expires_seconds,
        "options": job.options,
        "on_dead": job.on_dead.value,
    }


def _arrays(jobs: Sequence[NewJob]) -> dict[str, object]:
    return {
        **_shared(jobs[0]),
        "ids": arrays.of_ids([job.id for job in jobs]),
        "args": arrays.of_texts([job.args for job in jobs]),
        "dedupe_keys": [job.dedupe_key for job in jobs],
        "ordering_keys": [job.ordering_key for job in jobs],
        **_placed(jobs),
    }


def _placed(jobs: Sequence[NewJob]) -> dict[str, object]:
    """Empty arrays where all jobs are placed as the first one is."""
    first = jobs[0].lane, jobs[0].tenant_id, jobs[0].options
    if all((job.lane, job.tenant_id, job.options) == first for job in jobs):
        return {"lanes": [], "tenants": [], "all_options": []}
    return {
        "lanes": [job.lane for job in jobs],
        "tenants": [job.tenant_id for job in jobs],
        "all_options": arrays.of_texts([job.options for job in jobs]),
    }


def _unanswered(key: str | None) -> EnqueueError:
    return EnqueueError(
        f"dedupe key {key!r}: expected to create the job or to find its holder within {ROUNDS} looks, got neither; "
        "the transaction's snapshot is too old to see it: enqueue at READ COMMITTED, or early in the transaction"
    )
