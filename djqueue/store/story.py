"""What a job has been through, and its family: read in one statement, wherever it stands, without its payload.

Invariant: nothing of messages, tracebacks or arguments is read; whatever a row holds in the place of its errors, there
is an answer.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from djqueue.store import db

ENTRIES = 200
CHILDREN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """A job's parent or child; `state` is that of its row."""

    id: UUID
    state: str
    task_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Moments of a job, by the database's clock, and who belongs to it."""

    now: datetime
    state: str
    queue_name: str
    priority: int
    attempts: int
    created_at: datetime
    run_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    entries: Sequence[dict[str, Any]]
    """Of each kept failure: attempt, run, kind, started_at, at, seconds; all texts, or None."""
    parent_id: str | None
    parent: Relative | None
    subject: str | None
    children: Sequence[Relative]
    progress: tuple[float, float] | None
    """Done, and of how much."""


_ENTRY = """jsonb_build_object('attempt', left(e->>'attempt', 20), 'run', left(e->>'run', 20),
    'kind', left(e->>'kind', 40), 'started_at', left(e->>'started_at', 40),
    'at', left(e->>'at', 40), 'seconds', left(e->>'seconds', 20),
    'dropped', left(e->>'dropped', 20))"""
_IS_ID = "me.options->>'parent' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'"
_PARENT = f"case when {_IS_ID} then (me.options->>'parent')::uuid end"
_CHILD = f"where options->>'parent' = %(id)s::uuid::text order by id desc limit {CHILDREN + 1}"
STORY = f"""
with me as materialized (
    select state, queue_name, priority, attempts, created_at, run_at, started_at, null::timestamptz as ended_at, errors,
        options, progress
    from djqueue_job where id = %(id)s::uuid
    union all
    select outcome, queue_name, priority, attempts, created_at, null, started_at, finished_at, errors, options, null
    from djqueue_history where id = %(id)s::uuid
    union all
    select outcome, queue_name, priority, attempts, created_at, null, started_at, finished_at, errors, options, null
    from djqueue_history_overflow where id = %(id)s::uuid
    union all
    select 'dead', queue_name, priority, attempts, created_at, null, started_at, died_at, errors, options,
        progress
    from djqueue_dead_letter where id = %(id)s::uuid)
select clock_timestamp(), me.state, me.queue_name, me.priority, me.attempts, me.created_at, me.run_at,
    me.started_at, me.ended_at,
    (select jsonb_agg({_ENTRY} order by n) from jsonb_array_elements(
            case when jsonb_typeof(me.errors) = 'array' then me.errors else '[]' end) with ordinality x(e, n)
        where n <= {ENTRIES} and jsonb_typeof(e) = 'object')::text,
    left(me.options->>'parent', 300), left(me.options->>'subject', 300),
    (select jsonb_agg(jsonb_build_array(p.id, p.state, p.task_name)) from (
        select id, state, task_name from djqueue_job where id = {_PARENT}
        union all select id, outcome, task_name from djqueue_history where id = {_PARENT}
        union all select id, outcome, task_name from djqueue_history_overflow where id = {_PARENT}
        union all select id, 'dead', task_name from djqueue_dead_letter where id = {_PARENT}) p)::text,
    (select jsonb_agg(jsonb_build_array(c.id, c.state, c.task_name) order by c.id desc) from (
        (select id, state, task_name from djqueue_job {_CHILD})
        union all (select id, outcome, task_name from djqueue_history {_CHILD})
        union all (select id, outcome, task_name from djqueue_history_overflow {_CHILD})
        union all (select id, 'dead', task_name from djqueue_dead_letter {_CHILD})) c)::text,
    case when jsonb_typeof(me.progress->'done') = 'number' then left(me.progress->>'done', 40) end,
    case when jsonb_typeof(me.progress->'total') = 'number' then left(me.progress->>'total', 40) end
from me limit 1
"""


def story(alias: str, id_: UUID) -> Story | None:
    """Return what a job has been through; None where there is no such job."""
    found = db.rows(alias, STORY, {"id": id_})
    if not found:
        return None
    now, state, queue, priority, attempts, created, run_at, started, ended, entries, parent_id, subject, *family = (
        found[0]
    )
    parent, children, done, total = family
    parents = _relatives(parent)
    return Story(
        now=now,
        state=state,
        queue_name=queue,
        priority=priority,
        attempts=attempts,
        created_at=created,
        run_at=run_at,
        started_at=started,
        ended_at=ended,
        entries=json.loads(entries or "[]"),
        parent_id=parent_id,
        parent=parents[0] if parents else None,
        subject=subject,
        children=_relatives(children),
        progress=_progress(done, total),
    )


def _relatives(text: str | None) -> list[Relative]:
    return [Relative(id=UUID(id_), state=state, task_name=task) for id_, state, task in json.loads(text or "[]")]


def _progress(done: str | None, total: str | None) -> tuple[float, float] | None:
    try:
        return None if done is None or total is None else (float(done), float(total))
    except ValueError:
        return None
