"""Vacuum of the hot table, before dead rows make claims slow: autovacuum alone comes once a minute.

Invariant: it runs outside a transaction and waits for nobody; where autovacuum is at work on the table already, it
leaves it to it.
"""

from enum import StrEnum

from django.db import connections

from djqueue.store import db

DEAD_ROWS = 10_000


class Vacuumed(StrEnum):
    """What became of a look at the table."""

    DONE = "done"
    NOT_NEEDED = "not needed"
    REFUSED = "refused"
    """This role may not vacuum djqueue_job: it takes the owner's role or, from PostgreSQL 17, the MAINTAIN right."""


# PostgreSQL refuses VACUUM with a mere warning, so the right is looked up. MAINTAIN is an unknown word before 17, so
# the CASE must keep it from being read.
LOOK = """
select pg_stat_get_dead_tuples(c.oid), pg_has_role(c.relowner, 'usage')
    or (select pg_has_role(d.datdba, 'usage') from pg_database d where d.datname = current_database())
    or case when current_setting('server_version_num')::int >= 170000
        then has_table_privilege(c.oid, 'MAINTAIN') else false end
from pg_class c where c.oid = to_regclass('djqueue_job')
"""
VACUUM = "vacuum (analyze, skip_locked) djqueue_job"


def vacuum_if_needed(alias: str, dead_rows: int = DEAD_ROWS) -> Vacuumed:
    """Vacuum and analyze djqueue_job when it has more than so many dead rows. Not for use inside a transaction."""
    connections[alias].validate_no_atomic_block()
    for dead, may_vacuum in db.rows(alias, LOOK):
        if dead <= dead_rows:
            return Vacuumed.NOT_NEEDED
        if not may_vacuum:
            return Vacuumed.REFUSED
        db.rows(alias, VACUUM)
        return Vacuumed.DONE
    return Vacuumed.NOT_NEEDED
