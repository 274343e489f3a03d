"""Reading one job wherever it is: live, history, overflow or dead letter, in one statement."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from djqueue.states import State
from djqueue.store import db


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A job as it stands. `state` says in which table it was found; `result` is set for succeeded jobs only."""

    id: UUID
    state: State
    queue_name: str
    task_name: str
    priority: int
    attempts: int
    created_at: datetime
    started_at: datetime | None
    run_at: datetime | None
    finished_at: datetime | None
    worker_ids: list[str]
    args: dict[str, Any]
    errors: list[dict[str, Any]]
    result: Any


# A job moves from one table to the next in one statement, so one snapshot sees it in exactly one of them.
RESULT = """
select id, state, queue_name, task_name, priority, attempts, created_at, started_at, run_at, null::timestamptz,
    worker_ids, args::text, errors::text, null::text
from djqueue_job where id = any(%(ids)s::uuid[])
union all
select id, outcome, queue_name, task_name, priority, attempts, created_at, started_at, null, finished_at,
    worker_ids, args::text, errors::text, result::text
from djqueue_history where id = any(%(ids)s::uuid[])
union all
select id, outcome, queue_name, task_name, priority, attempts, created_at, started_at, null, finished_at,
    worker_ids, args::text, errors::text, result::text
from djqueue_history_overflow where id = any(%(ids)s::uuid[])
union all
select id, 'dead', queue_name, task_name, priority, attempts, created_at, started_at, null, died_at,
    worker_ids, args::text, errors::text, null
from djqueue_dead_letter where id = any(%(ids)s::uuid[])
"""


def find(alias: str, ids: Sequence[UUID]) -> dict[UUID, Found]:
    """Return the jobs with these ids that exist, by id."""
    found = (_found(row) for row in db.rows(alias, RESULT, {"ids": list(ids)}))
    return {job.id: job for job in found}


def _found(row: db.Row) -> Found:
    (id_, state, queue, task, priority, attempts, created, started, run_at, finished, workers, *texts) = row
    args, errors, result = texts
    return Found(
        id=id_,
        state=State(state),
        queue_name=queue,
        task_name=task,
        priority=priority,
        attempts=attempts,
        created_at=created,
        started_at=started,
        run_at=run_at,
        finished_at=finished,
        worker_ids=workers,
        args=json.loads(args),
        errors=json.loads(errors),
        result=None if result is None else json.loads(result),
    )
