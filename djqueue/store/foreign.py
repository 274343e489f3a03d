"""Waiting jobs in the tables of other queues: read under lock, and marked as gone, in the caller's transaction.

    procrastinate     todo ─► cancelled (its trigger writes the event)      django-ox    READY ─► DISCARDED
    django-tasks-db   READY ─► deleted (it has no such state)               django-q2    unlocked ─► deleted

Invariant: only what no worker has is read, row by row skipping what somebody holds, so that a worker of the other queue
that is still alive and this import never get the same job.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from djqueue.store import db

BEGINNING = "0001-01-01 00:00:00+00"


class Waiting(NamedTuple):
    """A waiting job of another queue. What it does not know is None."""

    at: datetime
    """With `key` the cursor for the next batch."""
    key: str
    task_name: str
    queue_name: str
    payload: Any
    """JSON: `{"args": […], "kwargs": {…}}`, or (django-q2) text in a form of its own."""
    priority: int
    run_after: datetime | None
    ordering_key: str | None
    dedupe_key: str | None
    attempts_left: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Another queue: its table, and the statements for it."""

    table: str
    take: str
    done: str
    others: str
    """Counts what is not waiting but not over either, by state."""


PROCRASTINATE_TAKE = """
select 'epoch'::timestamptz, j.id::text, j.task_name, j.queue_name,
    jsonb_build_object('args', '[]'::jsonb, 'kwargs', j.args)::text, j.priority, j.scheduled_at, j.lock,
    j.queueing_lock, null::int
from procrastinate_jobs j
where j.status = 'todo' and j.id > coalesce(nullif(%(key)s::text, ''), '0')::bigint and %(at)s::timestamptz is not null
order by j.id limit %(limit)s for update of j skip locked
"""
PROCRASTINATE_DONE = """
update procrastinate_jobs set status = 'cancelled' where id = any(%(keys)s::bigint[]) and status = 'todo' returning 1
"""
PROCRASTINATE_OTHERS = "select status::text, count(*) from procrastinate_jobs where status = 'doing' group by 1"

# The year 9999 is its word for "at once".
TASKS_DB_TAKE = """
select t.enqueued_at, t.id::text, t.task_path, t.queue_name, t.args_kwargs::text, t.priority,
    case when t.run_after < '9998-01-01' then t.run_after end, null, null, null::int
from django_tasks_database_dbtaskresult t
where t.status = 'READY' and (t.enqueued_at, t.id::text) > (%(at)s::timestamptz, %(key)s::text)
order by t.enqueued_at, t.id::text limit %(limit)s for update of t skip locked
"""
TASKS_DB_DONE = """
delete from django_tasks_database_dbtaskresult where id = any(%(keys)s::uuid[]) and status = 'READY' returning 1
"""
TASKS_DB_OTHERS = """
select status, count(*) from django_tasks_database_dbtaskresult where status = 'RUNNING' group by 1
"""

OX_TAKE = """
select t.enqueued_at, t.id::text, t.task_path, t.queue_name,
    jsonb_build_object('args', t.args, 'kwargs', t.kwargs)::text, t.priority, t.run_after, null, null,
    greatest(t.max_attempts - t.attempts, 1)
from django_ox_oxtask t
where t.status = 'READY' and (t.enqueued_at, t.id::text) > (%(at)s::timestamptz, %(key)s::text)
order by t.enqueued_at, t.id::text limit %(limit)s for update of t skip locked
"""
# As its own `actions.discard` does.
OX_DONE = """
update django_ox_oxtask set status = 'DISCARDED', finished_at = clock_timestamp(), locked_by = null, locked_at = null,
    lease_expires_at = null
where id = any(%(keys)s::uuid[]) and status = 'READY' returning 1
"""
OX_OTHERS = """
select status, count(*) from django_ox_oxtask where status in ('RUNNING', 'WAITING') group by 1 order by 1
"""

# A lock that has not run out is a job that a cluster has.
Q2_TAKE = """
select 'epoch'::timestamptz, q.id::text, '', q.key, q.payload, 0, null::timestamptz, null, null, null::int
from django_q_ormq q
where (q.lock is null or q.lock <= clock_timestamp()) and q.id > coalesce(nullif(%(key)s::text, ''), '0')::bigint
    and %(at)s::timestamptz is not null
order by q.id limit %(limit)s for update of q skip locked
"""
Q2_DONE = "delete from django_q_ormq where id = any(%(keys)s::bigint[]) returning 1"
Q2_OTHERS = "select 'locked', count(*) from django_q_ormq where lock > clock_timestamp() having count(*) > 0"

SOURCES = {
    "procrastinate": Source(
        table="procrastinate_jobs", take=PROCRASTINATE_TAKE, done=PROCRASTINATE_DONE, others=PROCRASTINATE_OTHERS
    ),
    "django-tasks-db": Source(
        table="django_tasks_database_dbtaskresult", take=TASKS_DB_TAKE, done=TASKS_DB_DONE, others=TASKS_DB_OTHERS
    ),
    "django-q2": Source(table="django_q_ormq", take=Q2_TAKE, done=Q2_DONE, others=Q2_OTHERS),
    "django-ox": Source(table="django_ox_oxtask", take=OX_TAKE, done=OX_DONE, others=OX_OTHERS),
}

THERE = "select to_regclass(%(table)s) is not null"


def is_there(alias: str, source: Source) -> bool:
    """Tell whether the other queue's table is in this database."""
    return bool(db.rows(alias, THERE, {"table": source.table})[0][0])


def take(alias: str, source: Source, after: Waiting | None, limit: int) -> list[Waiting]:
    """Lock and return the next waiting jobs in the order of their enqueues."""
    at, key = (BEGINNING, "") if after is None else (after.at, after.key)
    return [Waiting(*row) for row in db.rows(alias, source.take, {"at": at, "key": key, "limit": limit})]


def done(alias: str, source: Source, keys: Sequence[str]) -> int:
    """Take these jobs out of the other queue; return how many."""
    return len(db.rows(alias, source.done, {"keys": list(keys)}))


def others(alias: str, source: Source) -> dict[str, int]:
    """Return how many jobs are neither waiting nor over, by the other queue's own word for their state."""
    return dict(db.rows(alias, source.others))
