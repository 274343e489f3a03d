"""Cron entries as they stand, and their plans. How they fire is in `store.cronfire`.

     entry seen ──plan──► next_fire_at ──due──► fires ──► next_fire_at at or before what the name remembers ──plan──► …
        ▲ switched off, edited: planned anew, and nothing fires

Invariant: a plan is written only to the very version of the entry that it was computed from, so that an edit, a
switch-off or a deletion counts from its commit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from djqueue.policy.cronfires import GRACE_SECONDS, MISSED_MAX, Missed, Overlap
from djqueue.store import db

PRUNE_BATCH = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """What tells whether an entry needs attention."""

    id: int
    version: str
    on: bool
    """False: it was switched off, and its plan must go."""

    next_fire_at: datetime | None
    can_leave_queue: bool
    """A fire waits, and the job that it waited for has ended."""

    now: datetime
    """The database's now when the entry was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry that is on, with what its name remembers. `args` and `kwargs` are JSON texts."""

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

    missed: Missed = Missed.RUN_ONCE
    missed_max: int = MISSED_MAX
    grace_seconds: int = GRACE_SECONDS
    overlap: Overlap = Overlap.ALLOW
    jitter_seconds: int = 0
    queued_fire_at: datetime | None = None
    last_job_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A plan and an error, to be written to the version of an entry that they belong to."""

    id: int
    version: str
    next_fire_at: datetime | None
    error: str = ""


# All entries, every second: three columns and no join. Those that are off appear while something is left to take away.
# Moments that Python can't hold (`infinity`, the year 10000) are no plan, lest one row stop the look at all others.
# The job is looked up by a scalar subquery: `not exists` would be planned as a hash of all jobs.
LOOK = """
select e.id, e.xmin::text, e.enabled and e.removed_at is null,
    case when e.next_fire_at between '0002-01-01' and '9999-12-30' then e.next_fire_at end,
    case when e.queued_fire_at is null then false
        else coalesce((select false from djqueue_job j where j.id = e.last_job_id), true) end,
    statement_timestamp()
from djqueue_cron_entry e
where (e.enabled and e.removed_at is null) or e.next_fire_at is not null or e.queued_fire_at is not null
order by e.next_fire_at nulls first, e.id
"""

SELECT = """
select e.id, e.xmin::text, e.name, e.schedule, e.timezone, e.task_name, e.queue_name, e.args::text, e.kwargs::text,
    case when e.next_fire_at between '0002-01-01' and '9999-12-30' then e.next_fire_at end,
    case when m.last_fire_at is not null then greatest(least(m.last_fire_at, '9999-12-30'), '0002-01-01') end,
    e.last_error, statement_timestamp(), e.missed, e.missed_max, e.grace_seconds, e.overlap, e.jitter_seconds,
    case when e.queued_fire_at between '0002-01-01' and '9999-12-30' then e.queued_fire_at end, e.last_job_id
from djqueue_cron_entry e left join djqueue_cron_memory m on m.name = e.name
"""
READ = f"""
{SELECT} where e.id = any(%(ids)s::bigint[]) and e.enabled and e.removed_at is null
order by e.next_fire_at nulls first, e.id
"""

# An entry that is switched on again is planned anew, and nothing of before waits in it.
FORGET_DISABLED = """
with off as materialized (
    select id, name, queued_fire_at from djqueue_cron_entry
    where not (enabled and removed_at is null) and (next_fire_at is not null or queued_fire_at is not null)
    for update skip locked),
dropped as (
    update djqueue_cron_fire f set outcome = 'dropped' from off
    where f.name = off.name and f.fire_at = off.queued_fire_at and f.outcome = 'queued')
update djqueue_cron_entry e set next_fire_at = null, queued_fire_at = null from off where e.id = off.id
"""

# `xmin` names the version of the row: whatever was changed since it was read, this finds nothing. A row that somebody
# is editing is passed over, so that a form left open holds up no other entry.
SETTLE = """
with given as materialized (
    select * from unnest(%(ids)s::bigint[], %(versions)s::text[], %(plans)s::timestamptz[], %(errors)s::text[])
        g(id, version, next_fire_at, error)),
held as materialized (
    select e.id from djqueue_cron_entry e join given g on g.id = e.id and g.version = e.xmin::text
    where e.enabled and e.removed_at is null order by e.id for update of e skip locked)
update djqueue_cron_entry e set next_fire_at = g.next_fire_at, last_error = g.error
from given g join held using (id) where e.id = g.id returning e.id, e.xmin::text
"""

# Ids grow with time: the first few by id are the oldest, and no index on fired_at is needed.
PRUNE_FIRES = f"""
with first as materialized (select id, fired_at from djqueue_cron_fire order by id limit {PRUNE_BATCH})
delete from djqueue_cron_fire f using first
where f.id = first.id and first.fired_at < statement_timestamp() - make_interval(days => %(days)s::int)
returning 1
"""


def look(alias: str) -> list[Glance]:
    """Return what every entry is about, those without a plan and the most overdue first."""
    return [
        Glance(id=id_, version=version, on=on, next_fire_at=plan, can_leave_queue=can_leave, now=now)
        for id_, version, on, plan, can_leave, now in db.rows(alias, LOOK)
    ]


def read(alias: str, ids: Sequence[int]) -> list[Entry]:
    """Return those of these entries that are on, without a plan and the most overdue first."""
    return [entry_of(row) for row in db.rows(alias, READ, {"ids": list(ids)})]


def forget_disabled(alias: str) -> None:
    """Take the plan, and what waits, from entries that are switched off."""
    db.rows(alias, FORGET_DISABLED)


def settle(alias: str, settled: Sequence[Settled]) -> dict[int, str]:
    """Write when entries fire next, and their errors; return the new version of each that is still what was read."""
    if not settled:
        return {}
    params = {
        "ids": [each.id for each in settled],
        "versions": [each.version for each in settled],
        "plans": [each.next_fire_at for each in settled],
        "errors": [each.error for each in settled],
    }
    return dict(db.rows(alias, SETTLE, params))


def prune_fires(alias: str, keep_days: int = 90) -> int:
    """Delete up to 5,000 fires so many days back; return how many. The memory of each name stays for ever."""
    return len(db.rows(alias, PRUNE_FIRES, {"days": keep_days}))


def entry_of(row: db.Row) -> Entry:
    """Return a row of `SELECT` as an entry."""
    id_, version, name, schedule, zone, task, queue, args, kwargs, plan, last, error, now, *policies = row
    missed, missed_max, grace, overlap, jitter, queued, last_job = policies
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
        next_fire_at=plan,
        last_fire_at=last,
        last_error=error,
        now=now,
        missed=Missed(missed),
        missed_max=missed_max,
        grace_seconds=grace,
        overlap=Overlap(overlap),
        jitter_seconds=jitter,
        queued_fire_at=queued,
        last_job_id=last_job,
    )
