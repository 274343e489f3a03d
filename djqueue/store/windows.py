"""Dedupe windows: for how long a key stays taken after an enqueue, whatever becomes of the job.

Invariant: a window is opened in the transaction that creates its job; of two who open one, the second waits for the
first's end and then finds it. No worker touches these rows.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from djqueue.store import db
from djqueue.store.enqueue import NewJob

BATCH = 1_000


class Window(NamedTuple):
    """A taken key: by which job, enqueued when."""

    job_id: UUID
    opened_at: datetime


# A look without a lock: in a busy window nobody waits for anybody.
LOOK = """
select dedupe_key, job_id, opened_at from djqueue_dedupe_window
where queue_name = %(queue_name)s and dedupe_key = any(%(keys)s::text[]) and until > clock_timestamp()
"""
OPEN = """
insert into djqueue_dedupe_window as w (queue_name, dedupe_key, job_id, opened_at, until)
select %(queue_name)s::text, x.key, x.id, statement_timestamp(),
    clock_timestamp() + make_interval(secs => %(seconds)s::float8)
from unnest(%(keys)s::text[], %(ids)s::uuid[]) x(key, id) order by x.key
on conflict (queue_name, dedupe_key) do update
    set job_id = excluded.job_id, opened_at = excluded.opened_at, until = excluded.until
    where w.until <= clock_timestamp()
returning dedupe_key, job_id, opened_at
"""
CLOSE = """
delete from djqueue_dedupe_window
where queue_name = %(queue_name)s and dedupe_key = any(%(keys)s::text[]) and job_id = any(%(ids)s::uuid[])
"""
PRUNE = f"""
with old as materialized (
    select ctid as t from djqueue_dedupe_window where until <= statement_timestamp() order by until limit {BATCH}
    for update skip locked),
gone as (delete from djqueue_dedupe_window w where w.ctid = any(array(select t from old)) returning 1)
select count(*) from gone
"""


def take(alias: str, jobs: Sequence[NewJob], seconds: float) -> dict[str, Window]:
    """Open windows for the keys of these jobs, for the first job of each; return the windows of all keys that have one
    now, others' included. A key that is missing has lost a race: ask again."""
    firsts: dict[str, UUID] = {}
    for job in jobs:
        if job.dedupe_key is not None:
            firsts.setdefault(job.dedupe_key, job.id)
    queue_name = jobs[0].queue_name
    found = _windows(db.rows(alias, LOOK, {"queue_name": queue_name, "keys": list(firsts)}))
    new = {key: id_ for key, id_ in firsts.items() if key not in found}
    if new:
        params = {"queue_name": queue_name, "keys": list(new), "ids": list(new.values()), "seconds": seconds}
        found |= _windows(db.rows(alias, OPEN, params))
    return found


def close(alias: str, jobs: Sequence[NewJob]) -> None:
    """Close the windows again that were opened for jobs which were not created."""
    if jobs:
        keys = [job.dedupe_key for job in jobs]
        params = {"queue_name": jobs[0].queue_name, "keys": keys, "ids": [job.id for job in jobs]}
        db.rows(alias, CLOSE, params)


def prune(alias: str) -> int:
    """Delete up to 1,000 windows that are over; return how many."""
    return int(db.rows(alias, PRUNE)[0][0])


def _windows(rows: list[db.Row]) -> dict[str, Window]:
    return {key: Window(job_id, opened_at) for key, job_id, opened_at in rows}
