"""The cron entries that stand in the code, written to the table.

     declared, no row ──► made, on                    declared again ──► back, planned from now on
     declared otherwise ──► changed                   not declared any more ──► removed_at, off, and still shown

Invariant: a row that people made is never touched, `enabled` is theirs in every row, and nothing fires because of this:
a changed schedule or zone loses its plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from djqueue.policy.cronfires import GRACE_SECONDS, MISSED_MAX, Missed, Overlap
from djqueue.store import db

LOCK_TIMEOUT = "2s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """An entry as the code declares it. `args` and `kwargs` are JSON texts."""

    name: str
    schedule: str
    timezone: str
    task_name: str
    queue_name: str = ""
    args: str = "[]"
    kwargs: str = "{}"
    missed: Missed = Missed.RUN_ONCE
    missed_max: int = MISSED_MAX
    grace_seconds: int = GRACE_SECONDS
    overlap: Overlap = Overlap.ALLOW
    jitter_seconds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The names of the entries that were written, and of those that people have taken."""

    made: list[str]
    changed: list[str]
    removed: list[str]
    taken: list[str]


# An editor's open transaction must not hold up the leader.
IMPATIENT = "select set_config('lock_timeout', %(timeout)s::text, true)"

# Conflicting rows are looked at again once they are locked: `where` compares with what is committed. `xmax` is 0 in a
# row that was inserted.
DECLARE = """
insert into djqueue_cron_entry as e (name, schedule, timezone, task_name, queue_name, args, kwargs, missed, missed_max,
    grace_seconds, overlap, jitter_seconds, in_code, changed_at)
select g.name, g.schedule, g.timezone, g.task_name, g.queue_name, g.args::jsonb, g.kwargs::jsonb, g.missed,
    g.missed_max, g.grace_seconds, g.overlap, g.jitter_seconds, true, statement_timestamp()
from unnest(%(name)s::text[], %(schedule)s::text[], %(timezone)s::text[], %(task_name)s::text[],
    %(queue_name)s::text[], %(args)s::text[], %(kwargs)s::text[], %(missed)s::text[], %(missed_max)s::smallint[],
    %(grace_seconds)s::int[], %(overlap)s::text[], %(jitter_seconds)s::int[])
    g(name, schedule, timezone, task_name, queue_name, args, kwargs, missed, missed_max, grace_seconds, overlap,
        jitter_seconds)
order by g.name
on conflict (name) do update set schedule = excluded.schedule, timezone = excluded.timezone,
    task_name = excluded.task_name, queue_name = excluded.queue_name, args = excluded.args, kwargs = excluded.kwargs,
    missed = excluded.missed, missed_max = excluded.missed_max, grace_seconds = excluded.grace_seconds,
    overlap = excluded.overlap, jitter_seconds = excluded.jitter_seconds, removed_at = null,
    changed_at = excluded.changed_at, last_error = '',
    next_fire_at = case when e.removed_at is null and e.last_error = ''
        and (e.schedule, e.timezone) = (excluded.schedule, excluded.timezone) then e.next_fire_at end
where e.in_code and (e.removed_at is not null
    or (e.schedule, e.timezone, e.task_name, e.queue_name, e.args, e.kwargs, e.missed, e.missed_max, e.grace_seconds,
        e.overlap, e.jitter_seconds)
    is distinct from (excluded.schedule, excluded.timezone, excluded.task_name, excluded.queue_name, excluded.args,
        excluded.kwargs, excluded.missed, excluded.missed_max, excluded.grace_seconds, excluded.overlap,
        excluded.jitter_seconds))
returning e.name, e.xmax = 0
"""
REMOVE = """
update djqueue_cron_entry set removed_at = statement_timestamp(), changed_at = statement_timestamp()
where in_code and removed_at is null and name <> all(%(names)s::text[]) returning name
"""
TAKEN = "select name from djqueue_cron_entry where not in_code and name = any(%(names)s::text[]) order by name"


def sync(alias: str, declared: Sequence[Declared]) -> Synced:
    """Make the code's rows what the code says, in one transaction; rows that agree are not written.

    Raises what a lock that can't be had within two seconds raises (55P03).
    """
    names = [each.name for each in declared]
    columns: dict[str, object] = {
        column: [getattr(each, column) for each in declared] for column in Declared.__dataclass_fields__
    }
    with db.one_transaction(alias):
        db.rows(alias, IMPATIENT, {"timeout": LOCK_TIMEOUT})
        written = db.rows(alias, DECLARE, columns) if declared else []
        removed = db.rows(alias, REMOVE, {"names": names})
        taken = db.rows(alias, TAKEN, {"names": names})
    return Synced(
        made=[name for name, is_new in written if is_new],
        changed=[name for name, is_new in written if not is_new],
        removed=[name for (name,) in removed],
        taken=[name for (name,) in taken],
    )
