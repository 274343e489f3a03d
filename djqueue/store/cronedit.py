"""What operators do with cron entries from the command line: list, add, switch, and look at another scheduler's tables.

Invariant: nothing here fires. What changes when an entry fires takes its plan away, and the leader plans it anew.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from djqueue.store import cron, db
from djqueue.store.cron import Entry
from djqueue.store.cronsync import Declared

LIST = """
select e.name, e.schedule, e.timezone, e.task_name, e.queue_name, e.args, e.kwargs, e.missed, e.missed_max,
    e.grace_seconds, e.overlap, e.jitter_seconds, e.enabled, e.in_code, e.removed_at, e.next_fire_at, e.queued_fire_at,
    e.last_error, f.fire_at, f.fired_at, f.outcome, f.job_id
from djqueue_cron_entry e
left join lateral (
    select * from djqueue_cron_fire where name = e.name order by fire_at desc limit 1) f on true
order by e.name
"""
LISTED = (
    "name", "schedule", "timezone", "task", "queue", "args", "kwargs", "missed", "missed_max", "grace_seconds",
    "overlap", "jitter_seconds", "enabled", "in_code", "removed_at", "next_fire_at", "queued_fire_at", "error",
    "last_fire_at", "last_fired_at", "last_outcome", "last_job",
)  # fmt: skip

NAMES = "select name from djqueue_cron_entry order by name"
FIND = f"{cron.SELECT} where e.name = %(name)s"

ADD = """
insert into djqueue_cron_entry (name, schedule, timezone, task_name, queue_name, args, kwargs, missed, missed_max,
    grace_seconds, overlap, jitter_seconds, enabled, changed_at)
values (%(name)s, %(schedule)s, %(timezone)s, %(task_name)s, %(queue_name)s, %(args)s::jsonb, %(kwargs)s::jsonb,
    %(missed)s, %(missed_max)s, %(grace_seconds)s, %(overlap)s, %(jitter_seconds)s, %(enabled)s, statement_timestamp())
on conflict (name) do nothing returning id
"""
SWITCH = """
update djqueue_cron_entry set enabled = %(on)s, changed_at = statement_timestamp(),
    next_fire_at = case when enabled = %(on)s then next_fire_at end
where name = %(name)s returning removed_at is null
"""

# By the unique index of name and time, so many descents as there are names.
RECENT = """
select n.name, f.fire_at, f.fired_at, f.outcome, f.job_id from unnest(%(names)s::text[]) n(name)
cross join lateral (
    select * from djqueue_cron_fire where name = n.name order by fire_at desc limit %(most)s) f
"""

_BEAT_TABLES = "select to_regclass('django_celery_beat_periodictask') is not null"
_BEAT = """
select to_jsonb(t), to_jsonb(c), to_jsonb(i) from django_celery_beat_periodictask t
left join django_celery_beat_crontabschedule c on c.id = t.crontab_id
left join django_celery_beat_intervalschedule i on i.id = t.interval_id
order by t.id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """One fire of an entry."""

    name: str
    fire_at: datetime
    fired_at: datetime
    outcome: str
    job_id: UUID | None


def recent(alias: str, names: Sequence[str], most: int) -> list[Fired]:
    """Return the last fires of each entry, at most so many."""
    found = db.rows(alias, RECENT, {"names": list(names), "most": most})
    return [
        Fired(name=name, fire_at=fire_at, fired_at=fired_at, outcome=outcome, job_id=job_id)
        for name, fire_at, fired_at, outcome, job_id in found
    ]


def entries(alias: str) -> list[dict[str, Any]]:
    """Return every entry with its last fire, by name."""
    found = [dict(zip(LISTED, row, strict=True)) for row in db.rows(alias, LIST)]
    return [{**each, "args": _json(each["args"]), "kwargs": _json(each["kwargs"])} for each in found]


def names(alias: str) -> list[str]:
    """Return the names of all entries."""
    return [name for (name,) in db.rows(alias, NAMES)]


def find(alias: str, name: str) -> Entry | None:
    """Return an entry, on or off."""
    found = db.rows(alias, FIND, {"name": name})
    return cron.entry_of(found[0]) if found else None


def add(alias: str, entry: Declared, *, enabled: bool = True) -> bool:
    """Add an entry; return False if its name is taken."""
    params = {column: getattr(entry, column) for column in Declared.__dataclass_fields__}
    return bool(db.rows(alias, ADD, {**params, "enabled": enabled}))


def switch(alias: str, name: str, *, on: bool) -> bool | None:
    """Switch an entry on or off; return whether it may fire now, None if there is none of that name."""
    found = db.rows(alias, SWITCH, {"name": name, "on": on})
    return bool(found[0][0]) if found else None


def celery_beat(alias: str) -> Sequence[tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any] | None]] | None:
    """Return django-celery-beat's (task, crontab, interval) rows; None where it has no tables here."""
    if db.rows(alias, _BEAT_TABLES) != [(True,)]:
        return None
    return [(_json(task), _json(crontab), _json(interval)) for task, crontab, interval in db.rows(alias, _BEAT)]


def _json(value: Any) -> Any:
    """Return a JSON column as Python has it: Django's connections leave it as text."""
    return json.loads(value) if isinstance(value, str) else value
