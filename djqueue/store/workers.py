"""Who is there: worker rows, what they know and whether they want news; and the settings that they read.

Information only: recovery never depends on these rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

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
    max_running: int | None = None
    rate_limit: str = ""
    tenant_max_running: int | None = None
    ageing_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """That a worker lives, and what it is like."""

    id: str
    memory_bytes: int | None = None
    jobs_per_minute: float | None = None
    looked_seconds: float | None = None
    """How long ago it has last looked for jobs with success, or was fully busy, or about to end."""


class Order(StrEnum):
    """What people ask of a worker."""

    NONE = ""
    RESTART = "restart"
    """End after what runs; the supervisor starts another."""
    STOP = "stop"
    """Its whole supervisor ends as after SIGTERM; whoever runs it may start it again."""


# The first worker of a version tells when that version was deployed.
REGISTER = """
with told as (
    insert into djqueue_code_version (version, first_seen_at) values (left(%(version)s, 200), clock_timestamp())
    on conflict (version) do nothing)
insert into djqueue_worker (id, supervisor_id, host, pid, version, slots, queues, task_names, tasks_hash, wants_news,
    seen_at)
values (%(id)s, %(supervisor_id)s, %(host)s, %(pid)s, %(version)s, %(slots)s, %(queues)s, %(task_names)s,
    %(tasks_hash)s, true, clock_timestamp())
on conflict (id) do update set seen_at = clock_timestamp(), wants_news = true, stopping = false
"""
SEEN = """
with free as materialized (
    select id from djqueue_worker where id = any(%(ids)s::text[]) for no key update skip locked)
update djqueue_worker w set seen_at = clock_timestamp(), memory_bytes = x.memory, jobs_per_minute = x.rate,
    looked_seconds = x.looked
from free join unnest(%(ids)s::text[], %(memory)s::bigint[], %(rates)s::float8[], %(looked)s::float8[])
    x(id, memory, rate, looked) on x.id = free.id
where w.id = free.id returning w.id, w.ordered
"""
# An order that stands is not changed to a weaker one: who is to stop does not restart.
ORDER = """
with f as materialized (
    select id from djqueue_worker where id = any(%(ids)s::text[]) order by id for no key update)
update djqueue_worker w set ordered = %(ordered)s, ordered_by = %(by)s
from f where w.id = f.id and w.ordered not in (%(ordered)s, 'stop') returning w.id
"""
WANTS_NEWS = "update djqueue_worker set wants_news = %(wants)s, seen_at = clock_timestamp() where id = %(id)s"
STOPPING = "update djqueue_worker set stopping = true, wants_news = false where id = %(id)s"
REMOVE = "delete from djqueue_worker where id = any(%(ids)s::text[])"
# The known tasks of all workers seen lately, whatever their queues: enough to tell a stranger from an orphan.
KNOWN = """
select distinct t.name from djqueue_worker w cross join lateral unnest(w.task_names) t(name)
where w.seen_at > clock_timestamp() - interval '90 s' and not w.stopping
"""
# The index of leased jobs holds no more than all slots together do, and a few that are about to start.
HELD = """
select leased_by, count(*)::int from djqueue_job where state = 'leased' and leased_by = any(%(ids)s::text[]) group by 1
"""
SETTINGS = """
select name, weight, coalesce(paused_until > clock_timestamp(), false), max_running, rate_limit, tenant_max_running,
    ageing_seconds
from djqueue_queue
"""
# Jobs that are set aside don't count: nobody here could run them. What is parked behind its ordering key has a head,
# which counts or not, or a wake row, or is blocked until somebody decides. Ready jobs by one index descent per queue,
# scheduled ones in the order of their index: a mere `exists` reads the whole table, hoping to meet one soon.
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
    or exists (select from djqueue_wake where {_SERVED})
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


def seen(alias: str, those: Sequence[Presence]) -> dict[str, Order]:
    """Say that workers live; return those whose rows exist, each with what is asked of it."""
    params = {
        "ids": [each.id for each in those],
        "memory": [each.memory_bytes for each in those],
        "rates": [each.jobs_per_minute for each in those],
        "looked": [each.looked_seconds for each in those],
    }
    return {id_: Order(ordered) for id_, ordered in db.rows(alias, SEEN, params)}


def order(alias: str, ids: Sequence[str], ordered: Order, *, by: str = "") -> set[str]:
    """Ask workers for something; their supervisors obey with the next heartbeat. Return those asked by this call."""
    return {row[0] for row in db.rows(alias, ORDER, {"ids": sorted(set(ids)), "ordered": str(ordered), "by": by})}


def wants_news(alias: str, worker_id: str, wants: bool) -> None:
    """Say whether the worker wants to be notified of new jobs."""
    db.rows(alias, WANTS_NEWS, {"id": worker_id, "wants": wants})


def stopping(alias: str, worker_id: str) -> None:
    """Say that the worker claims no more."""
    db.rows(alias, STOPPING, {"id": worker_id})


def remove(alias: str, ids: Sequence[str]) -> None:
    """Delete the rows of workers that have ended."""
    db.rows(alias, REMOVE, {"ids": list(ids)})


def held(alias: str, ids: Sequence[str]) -> dict[str, int]:
    """Return how many jobs each of these workers holds; none where it holds none."""
    return dict(db.rows(alias, HELD, {"ids": list(ids)}))


def known_tasks(alias: str) -> set[str]:
    """Return the tasks that any live worker knows."""
    return {row[0] for row in db.rows(alias, KNOWN)}


def queue_settings(alias: str) -> dict[str, QueueSettings]:
    """Return the settings rows by queue name."""
    found = db.rows(alias, SETTINGS)
    return {
        name: QueueSettings(
            name=name,
            weight=weight,
            paused=paused,
            max_running=running,
            rate_limit=rate,
            tenant_max_running=of_tenant,
            ageing_seconds=ageing,
        )
        for name, weight, paused, running, rate, of_tenant, ageing in found
    }


def has_pending(
    alias: str, names: Sequence[str], *, everything: bool, excluded: Sequence[str], scheduled: bool
) -> bool:
    """Tell whether these queues hold jobs that are ready or leased, or about to be let out (or, if asked for,
    scheduled)."""
    params = {"names": list(names), "everything": everything, "excluded": list(excluded), "scheduled": scheduled}
    return bool(db.rows(alias, PENDING, params)[0][0])
