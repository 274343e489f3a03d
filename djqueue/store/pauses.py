"""Pauses of tasks and tenants: who may not start now, and the jobs that are set aside for it.

    pause ─► row ─► workers set aside what they claim, by token      the leader sweeps the others, in batches
    resume, or the moment has come ─► no row in force ─► the leader lets back all that wait for that reason

Pauses of queues are a column of the queue's row (`operate.pause`); this module reads both. Invariant: what is set aside
says why, and every such reason without a pause in force is let back, so that no order of events leaves a job behind.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from djqueue.policy import aside
from djqueue.store import db

BATCH = 5_000


class Kind(StrEnum):
    """What can be paused."""

    QUEUE = "queue"
    TASK = "task"
    TENANT = "tenant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause in force."""

    kind: Kind
    name: str
    until: datetime
    reason: str
    by: str
    at: datetime | None
    """When it was said; not known of queues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """What may not start now, as a worker asks it of each job."""

    queues: frozenset[str] = frozenset()
    tasks: Mapping[str, str] = field(default_factory=dict)
    """Names of tasks that may not start, each with the name under which it is paused."""
    tenants: frozenset[str] = frozenset()

    def reason(self, task_name: str, tenant_id: str) -> str:
        """Return why a claimed job is to be set aside; '' where it may start."""
        if task_name in self.tasks:
            return aside.paused_task(self.tasks[task_name])
        if tenant_id and tenant_id in self.tenants:
            return aside.paused_tenant(tenant_id)
        return ""

    def under_all_names(self, same: Callable[[str], Iterable[str]]) -> "Stopped":
        """Return the same for all names of each task; `same` tells them."""
        if not self.tasks:
            return self
        others = {other: name for name in self.tasks for other in same(name)}
        return replace(self, tasks=others | dict(self.tasks))

    def stops(self, queue_name: str, task_name: str, tenant_id: str) -> bool:
        """Tell whether such a job may not start."""
        return queue_name in self.queues or bool(self.reason(task_name, tenant_id))


# Workers that wait are told, with a star instead of a queue's name: settings have changed.
PAUSE = """
with said as (
    insert into djqueue_pause as p (kind, name, paused_until, reason, paused_by, paused_at, swept)
    values (%(kind)s, %(name)s, %(until)s, %(reason)s, %(by)s, clock_timestamp(), false)
    on conflict (kind, name) do update set paused_until = excluded.paused_until, reason = excluded.reason,
        paused_by = excluded.paused_by, paused_at = excluded.paused_at, swept = false
    returning 1)
select pg_notify('djqueue', '*') from said
"""
RESUME = """
with gone as (
    delete from djqueue_pause where kind = %(kind)s and name = %(name)s
    returning paused_until > clock_timestamp() as held)
select held, pg_notify('djqueue', '*') from gone
"""
IN_FORCE = """
select 'queue', name, paused_until, paused_reason, paused_by, null::timestamptz from djqueue_queue
where paused_until > clock_timestamp()
union all
select kind, name, paused_until, reason, paused_by, paused_at from djqueue_pause
where paused_until > clock_timestamp()
order by 1, 2
"""
STOPPED = """
select 'queue', name from djqueue_queue where paused_until > clock_timestamp()
union all
select kind, name from djqueue_pause where paused_until > clock_timestamp()
"""
UNSWEPT = """
select kind, name from djqueue_pause where not swept and paused_until > clock_timestamp() order by kind, name
"""
SWEPT = "update djqueue_pause set swept = true where kind = %(kind)s and name = %(name)s"
FORGET = "delete from djqueue_pause where paused_until <= clock_timestamp()"
FROM_NOW = "select clock_timestamp() + make_interval(secs => %(seconds)s::float8)"

# Once per pause, in batches; what becomes ready later is set aside by the worker that claims it. Locked rows are being
# claimed just now, so their worker does it.
SWEEP_TASK = f"""
with c as materialized (
    select ctid as t from djqueue_job where state = 'ready' and not suspect
        and task_name = any(%(names)s::text[]) limit {BATCH} for no key update skip locked)
update djqueue_job j set state = 'parked', parked_for = '{aside.TASK}' || %(name)s::text
where j.ctid = any(array(select t from c)) returning j.id
"""
SWEEP_TENANT = f"""
with c as materialized (
    select ctid as t from djqueue_job where state = 'ready' and not suspect and tenant_id = %(name)s
    limit {BATCH} for no key update skip locked)
update djqueue_job j set state = 'parked', parked_for = '{aside.TENANT}' || j.tenant_id
where j.ctid = any(array(select t from c)) returning j.id
"""


def pause(alias: str, kind: Kind, name: str, until: datetime, *, reason: str = "", by: str = "") -> None:
    """Let no job of a task or a tenant start until a moment; a pause that is there already is replaced."""
    db.rows(alias, PAUSE, {"kind": str(kind), "name": name, "until": until, "reason": reason, "by": by})


def resume(alias: str, kind: Kind, name: str) -> bool:
    """Let a task or a tenant go on; return whether it was paused. What was set aside is back within two seconds."""
    return any(held for held, _told in db.rows(alias, RESUME, {"kind": str(kind), "name": name}))


def in_force(alias: str) -> list[Pause]:
    """Return all pauses in force, those of queues too."""
    return [
        Pause(kind=Kind(kind), name=name, until=until, reason=reason, by=by, at=at)
        for kind, name, until, reason, by, at in db.rows(alias, IN_FORCE)
    ]


def stopped(alias: str) -> Stopped:
    """Return what may not start now."""
    names: dict[str, list[str]] = {kind: [] for kind in Kind}
    for kind, name in db.rows(alias, STOPPED):
        names[kind].append(name)
    return Stopped(
        queues=frozenset(names[Kind.QUEUE]),
        tasks={name: name for name in names[Kind.TASK]},
        tenants=frozenset(names[Kind.TENANT]),
    )


def from_now(alias: str, seconds: float) -> datetime:
    """Return the moment so many seconds from now, by the database's clock."""
    moment: datetime = db.rows(alias, FROM_NOW, {"seconds": seconds})[0][0]
    return moment


def unswept(alias: str) -> list[tuple[Kind, str]]:
    """Return the pauses whose ready jobs are not all set aside yet."""
    return [(Kind(kind), name) for kind, name in db.rows(alias, UNSWEPT)]


def sweep(alias: str, kind: Kind, name: str, names: Sequence[str] = ()) -> int:
    """Set aside up to 5,000 ready jobs of a paused task or tenant; return how many. `names` are all that the task has,
    where it has others than the one under which it is paused."""
    if kind is Kind.TENANT:
        return len(db.rows(alias, SWEEP_TENANT, {"name": name}))
    return len(db.rows(alias, SWEEP_TASK, {"name": name, "names": [name, *names]}))


def swept(alias: str, kind: Kind, name: str) -> None:
    """Note that nothing more is to be swept."""
    db.rows(alias, SWEPT, {"kind": str(kind), "name": name})


def forget(alias: str) -> None:
    """Delete the pauses that are over."""
    db.rows(alias, FORGET)


def lifted(alias: str, reasons: Iterable[str]) -> list[str]:
    """Return those of the reasons for which jobs are set aside that were pauses and are so no more."""
    asked = [reason for reason in reasons if aside.is_pause(reason)]
    if not asked:
        return []
    now = stopped(alias)
    held = {aside.paused_task(name) for name in now.tasks} | {aside.paused_tenant(name) for name in now.tenants}
    return [reason for reason in asked if reason not in held]
