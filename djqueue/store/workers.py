"""Who is there: worker rows, what they know and whether they want news; and the settings that they read.

Information only: recovery never depends on these rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from djqueue.store import db


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """What a worker says of itself when it starts."""

    id: str
    supervisor_id: str
    host: str
    pid: int
    version: str
    slots: int
    queues: list[str]
    task_names: list[str]
    tasks_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """A queue's settings at run time."""

    name: str
    weight: int | None
    paused: bool


REGISTER = """
insert into djqueue_worker (id, supervisor_id, host, pid, version, slots, queues, task_names, tasks_hash, wants_news,
    seen_at)
values (%(id)s, %(supervisor_id)s, %(host)s, %(pid)s, %(version)s, %(slots)s, %(queues)s, %(task_names)s,
    %(tasks_hash)s, true, clock_timestamp())
on conflict (id) do update set seen_at = clock_timestamp(), wants_news = true, stopping = false
"""
SEEN = """
update djqueue_worker set seen_at = clock_timestamp()
where id in (select id from djqueue_worker where id = any(%(ids)s::text[]) for no key update skip locked) returning id
"""
WANTS_NEWS = "update djqueue_worker set wants_news = %(wants)s, seen_at = clock_timestamp() where id = %(id)s"
STOPPING = "update djqueue_worker set stopping = true, wants_news = false where id = %(id)s"
REMOVE = "delete from djqueue_worker where id = any(%(ids)s::text[])"
# The known tasks of all workers seen lately, whatever their queues: enough to tell a stranger from an orphan.
KNOWN = """
select distinct t.name from djqueue_worker w cross join lateral unnest(w.task_names) t(name)
where w.seen_at > clock_timestamp() - interval '90 s' and not w.stopping
"""
SETTINGS = "select name, weight, coalesce(paused_until > clock_timestamp(), false) from djqueue_queue"
# Jobs that are set aside don't count: nobody here could run them. Ready jobs by one index descent per queue, scheduled
# ones in the order of their index: a mere `exists` reads the whole table, hoping to meet one soon.
_SERVED = """(queue_name = any(%(names)s::text[]) or (%(everything)s and queue_name <> all(%(excluded)s::text[])))"""
PENDING = f"""
with recursive q(queue_name) as (
    (select queue_name from djqueue_job where state = 'ready' and not suspect order by queue_name limit 1)
    union all
    select (select j.queue_name from djqueue_job j where j.state = 'ready' and not j.suspect
        and j.queue_name > q.queue_name order by j.queue_name limit 1)
    from q where q.queue_name is not null)
select exists (select from q where queue_name is not null and {_SERVED})
    or exists (select from djqueue_job where state = 'ready' and suspect and {_SERVED})
    or exists (select from djqueue_job where state = 'leased' and {_SERVED})
    or exists (select from djqueue_job where state = 'parked' and parked_for is null and ordering_key is not null
        and {_SERVED})
    or (%(scheduled)s and coalesce((select true from djqueue_job where state = 'scheduled' and {_SERVED}
        order by run_at limit 1), false))
"""


def register(alias: str, info: WorkerInfo) -> None:
    """Write the worker's row."""
    db.rows(
        alias,
        REGISTER,
        {
            "id": info.id,
            "supervisor_id": info.supervisor_id,
            "host": info.host,
            "pid": info.pid,
            "version": info.version,
            "slots": info.slots,
            "queues": info.queues,
            "task_names": info.task_names,
            "tasks_hash": info.tasks_hash,
        },
    )


def seen(alias: str, ids: Sequence[str]) -> list[str]:
    """Say that workers live; return those whose rows exist."""
    return [row[0] for row in db.rows(alias, SEEN, {"ids": list(ids)})]


def wants_news(alias: str, worker_id: str, wants: bool) -> None:
    """Say whether the worker wants to be notified of new jobs."""
    db.rows(alias, WANTS_NEWS, {"id": worker_id, "wants": wants})


def stopping(alias: str, worker_id: str) -> None:
    """Say that the worker claims no more."""
    db.rows(alias, STOPPING, {"id": worker_id})


def remove(alias: str, ids: Sequence[str]) -> None:
    """Delete the rows of workers that have ended."""
    db.rows(alias, REMOVE, {"ids": list(ids)})


def known_tasks(alias: str) -> set[str]:
    """Return the tasks that any live worker knows."""
    return {row[0] for row in db.rows(alias, KNOWN)}


def queue_settings(alias: str) -> dict[str, QueueSettings]:
    """Return the settings rows by queue name."""
    found = db.rows(alias, SETTINGS)
    return {name: QueueSettings(name=name, weight=weight, paused=paused) for name, weight, paused in found}


def has_pending(
    alias: str, names: Sequence[str], *, everything: bool, excluded: Sequence[str], scheduled: bool
) -> bool:
    """Tell whether these queues hold jobs that are ready, leased or parked (or, if asked for, scheduled)."""
    params = {"names": list(names), "everything": everything, "excluded": list(excluded), "scheduled": scheduled}
    return bool(db.rows(alias, PENDING, params)[0][0])
