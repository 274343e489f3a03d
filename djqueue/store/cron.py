"""Cron entries and their fires: what is due, and the one transaction in which an entry fires.

     entry seen ──plan──► next_fire_at ──due──► fire = memory raised + fire row + job + next_fire_at, or nothing at all
        ▲ disabled, edited: planned anew, and nothing fires

Invariant: a nominal time of a name makes at most one job, whoever leads and however many believe that they do: the
memory of a name only rises, (name, fire time) is unique, and the entry is locked in the very version that was read, so
that an edit, a switch-off or a deletion counts from its commit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from djqueue.store import db

PRUNE_BATCH = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An enabled entry as it stands, with what its name remembers. `args` and `kwargs` are JSON texts."""

    id: int
    version: str
    name: str
    schedule: str
    timezone: str
    task_name: str
    queue_name: str
    args: str
    kwargs: str
    next_fire_at: datetime | None
    last_fire_at: datetime | None
    last_error: str
    now: datetime
    """The database's now when the entry was read."""


ENTRIES = """
select e.id, e.xmin::text, e.name, e.schedule, e.timezone, e.task_name, e.queue_name, e.args::text, e.kwargs::text,
    e.next_fire_at, m.last_fire_at, e.last_error, statement_timestamp()
from djqueue_cron_entry e left join djqueue_cron_memory m on m.name = e.name
where e.enabled order by e.next_fire_at nulls first, e.id
"""

# An entry that is switched on again is planned anew.
FORGET_DISABLED = """
with off as materialized (
    select id from djqueue_cron_entry where not enabled and next_fire_at is not null for update skip locked)
update djqueue_cron_entry e set next_fire_at = null from off where e.id = off.id
"""

# `xmin` names the version of the row: whatever was changed since it was read, this finds nothing. A row that somebody
# is editing is passed over, so that a form left open holds up no other entry.
SETTLE = """
with e as materialized (
    select id from djqueue_cron_entry
    where id = %(id)s and xmin::text = %(version)s and enabled for update skip locked)
update djqueue_cron_entry c set next_fire_at = %(next_fire_at)s::timestamptz, last_error = %(error)s
from e where c.id = e.id returning c.id
"""

# The memory is raised or refuses: a deleted and re-created entry fires nothing twice, also after its fires were pruned.
FIRE = """
with raised as (
    insert into djqueue_cron_memory as m (name, last_fire_at) values (%(name)s, %(fire_at)s::timestamptz)
    on conflict (name) do update set last_fire_at = greatest(m.last_fire_at, excluded.last_fire_at)
    where m.last_fire_at < excluded.last_fire_at returning name)
insert into djqueue_cron_fire (name, fire_at, fired_at)
select name, %(fire_at)s::timestamptz, clock_timestamp() from raised
on conflict (name, fire_at) do nothing returning id
"""
# Where the task's dedupe key is taken, this is the unfinished job that holds it.
ANSWERED_BY = "update djqueue_cron_fire set job_id = %(job_id)s::uuid where id = %(id)s"

# Ids grow with time: the first few by id are the oldest, and no index on fired_at is needed.
PRUNE_FIRES = f"""
with first as materialized (select id, fired_at from djqueue_cron_fire order by id limit {PRUNE_BATCH})
delete from djqueue_cron_fire f using first
where f.id = first.id and first.fired_at < statement_timestamp() - make_interval(days => %(days)s::int)
returning 1
"""


def entries(alias: str) -> list[Entry]:
    """Return all enabled entries, those without a plan and the most overdue first."""
    return [_entry(row) for row in db.rows(alias, ENTRIES)]


def forget_disabled(alias: str) -> None:
    """Take the plan from entries that are switched off."""
    db.rows(alias, FORGET_DISABLED)


def settle(alias: str, entry: Entry, next_fire_at: datetime | None, error: str = "") -> bool:
    """Write when the entry fires next, and its error; return False, having changed nothing, if it is no longer the
    entry that was read."""
    params = {"id": entry.id, "version": entry.version, "next_fire_at": next_fire_at, "error": error}
    return bool(db.rows(alias, SETTLE, params))


def fire(
    alias: str, entry: Entry, fire_at: datetime, next_fire_at: datetime | None, enqueue: Callable[[], UUID]
) -> UUID | None:
    """Fire for one nominal time, in a transaction of its own; return the job's id.

    `enqueue` writes the job in that transaction and returns its id; what it raises undoes the fire.
    None: the entry is no longer the one that was read, or its name has fired for this time or a later one before.
    """
    with db.one_transaction(alias):
        if not settle(alias, entry, next_fire_at):
            return None
        fired = db.rows(alias, FIRE, {"name": entry.name, "fire_at": fire_at})
        if not fired:
            return None
        job_id = enqueue()
        db.rows(alias, ANSWERED_BY, {"id": fired[0][0], "job_id": job_id})
        return job_id


def prune_fires(alias: str, keep_days: int = 90) -> int:
    """Delete up to 5,000 fires so many days back; return how many. The memory of each name stays for ever."""
    return len(db.rows(alias, PRUNE_FIRES, {"days": keep_days}))


def _entry(row: db.Row) -> Entry:
    id_, version, name, schedule, zone, task, queue, args, kwargs, next_fire_at, last_fire_at, error, now = row
    return Entry(
        id=id_,
        version=version,
        name=name,
        schedule=schedule,
        timezone=zone,
        task_name=task,
        queue_name=queue,
        args=args,
        kwargs=kwargs,
        next_fire_at=next_fire_at,
        last_fire_at=last_fire_at,
        last_error=error,
        now=now,
    )
