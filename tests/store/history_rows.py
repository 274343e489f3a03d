"""Finished jobs written straight into history or its overflow, and what there is of partitions."""

from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import psycopg
from django.db import connection

from djqueue.policy.ids import uuid7
from djqueue.store import db

INSERT = """
insert into {table} (id, finished_at, created_at, lease_token, attempts, interruptions, runs, priority, outcome,
    queue_name, task_name, tenant_id, worker_ids, args, errors, options)
select i.id, %(at)s, %(at)s, 1, 1, 0, 1, 0, 'succeeded', %(queue)s, 'shop.tasks.noop', '', '{{}}', '{{}}', '[]', '{{}}'
from unnest(%(ids)s::uuid[]) i(id)
"""
PARTITIONS = """
select right(c.relname, 8) from pg_inherits i join pg_class c on c.oid = i.inhrelid
where i.inhparent = 'djqueue_history'::regclass and not i.inhdetachpending order by 1
"""
TABLES = "select right(relname, 8) from pg_class where relname ~ '^djqueue_history_p[0-9]{8}$' order by 1"
WAITING = """
select count(*) from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock' and query ilike %s
"""


def today() -> date:
    """The database's day, UTC."""
    found: date = db.rows("default", "select (clock_timestamp() at time zone 'UTC')::date")[0][0]
    return found


def days_ago(days: float) -> datetime:
    """A moment so many days before the database's now."""
    now: datetime = db.rows("default", "select clock_timestamp()")[0][0]
    return now - timedelta(days=days)


def finished(at: datetime, count: int = 1, queue: str = "default", table: str = "djqueue_history") -> list[UUID]:
    """Write finished jobs; return their ids."""
    ids = [uuid7() for _ in range(count)]
    with connection.cursor() as cursor:
        cursor.execute(INSERT.format(table=table), {"ids": ids, "at": at, "queue": queue})
    return ids


def finished_elsewhere(other: psycopg.Connection, at: datetime) -> UUID:
    """Write one finished job on another session."""
    id_ = uuid7()
    other.execute(INSERT.format(table="djqueue_history"), {"ids": [id_], "at": at, "queue": "default"})
    return id_


def partitions() -> list[str]:
    """The attached days, as YYYYMMDD."""
    return [day for (day,) in db.rows("default", PARTITIONS)]


def tables() -> list[str]:
    """The days that have a table, attached or not."""
    return [day for (day,) in db.rows("default", TABLES)]


def count(table: str = "djqueue_history", queue: str = "default") -> int:
    """How many finished jobs of a queue a table holds."""
    with connection.cursor() as cursor:
        cursor.execute(f"select count(*) from {table} where queue_name = %s", [queue])
        found: int = cursor.fetchone()[0]
    return found


def is_waiting(other: psycopg.Connection, statement: str) -> bool:
    """Tell whether a session waits for a lock with such a statement."""
    row = other.execute(WAITING, [f"{statement}%"]).fetchone()
    return row is not None and row[0] > 0


def digits(day: date) -> str:
    """A day as it stands in a partition's name."""
    return f"{day:%Y%m%d}"


def midday(day: date) -> datetime:
    """Noon of a day, UTC."""
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
