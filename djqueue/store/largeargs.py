"""Which of the jobs that have put arguments into a file still exist, and whose files they are.

Invariant: asked in one statement per batch, so that a job that moves from one table to the next is seen in one of them.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from djqueue.store import db

EXISTING = """
select id from djqueue_job where id = any(%(ids)s::uuid[])
union all select id from djqueue_history where id = any(%(ids)s::uuid[])
union all select id from djqueue_history_overflow where id = any(%(ids)s::uuid[])
union all select id from djqueue_dead_letter where id = any(%(ids)s::uuid[])
"""

# Two projects, or a test system and the real one, may share a storage: each leaves the other's files alone.
OWNER = """
select left(md5(c.system_identifier::text || ' ' || d.oid::text), 16), clock_timestamp()
from pg_control_system() c, pg_database d where d.datname = current_database()
"""


def existing(alias: str, ids: Sequence[UUID]) -> set[UUID]:
    """Return those of the ids that are jobs, wherever they stand."""
    return {row[0] for row in db.rows(alias, EXISTING, {"ids": list(ids)})}


def owner(alias: str) -> tuple[str, datetime]:
    """Return a word that no other database has, and the moment by the database's clock."""
    ((word, now),) = db.rows(alias, OWNER)
    return word, now
