"""Bringing jobs back: leases that ended, jobs that became due, tasks that are known again.

Invariant: recovery needs the job rows and the database's clock, nothing else; any number of keepers may do it at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from djqueue.policy.errors import stored_errors
from djqueue.store import db

BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """A leased row whose lease ended, or that ran past its time limit. Its row is locked until the transaction ends."""

    id: UUID
    lease_token: int
    task_name: str
    attempts: int
    runs: int
    suspect: bool
    leased_by: str
    expired: bool
    """The lease ended (else: the time limit)."""
    errors: list[dict[str, Any]]


_OVERDUE_COLUMNS = "j.id, j.lease_token, j.task_name, j.attempts, j.runs, j.suspect, j.leased_by"
# By the database's clock. A start older than its time limit and the grace ends however fresh the lease is.
OVERDUE = f"""
select {_OVERDUE_COLUMNS}, j.lease_until < clock_timestamp(), j.errors::text
from djqueue_job j
where j.state = 'leased' and (j.lease_until < clock_timestamp()
    or j.started_at + make_interval(secs => j.timeout_seconds + %(grace)s) < clock_timestamp())
order by j.id limit {BATCH} for no key update skip locked
"""
HELD = f"""
select {_OVERDUE_COLUMNS}, true, j.errors::text from djqueue_job j
where j.state = 'leased' and j.leased_by = %(worker)s order by j.id for no key update skip locked
"""

# `statement_timestamp()` bounds the index scan; the volatile `clock_timestamp()` would walk all that wait, each time.
PROMOTE = """
with d as materialized (
    select ctid as t from djqueue_job where state = 'scheduled' and run_at <= statement_timestamp()
    order by run_at limit 1000 for no key update skip locked),
p as (
    update djqueue_job j set state = 'ready' where j.ctid = any(array(select t from d)) returning j.queue_name)
select queue_name, count(*), min(case when exists (select from djqueue_worker w where w.wants_news
    and w.seen_at > clock_timestamp() - interval '30 s') then pg_notify('djqueue', queue_name)::text end)
from p group by queue_name
"""
MAKE_DUE = "update djqueue_job set run_at = clock_timestamp() where state = 'scheduled' and run_at > clock_timestamp()"
NEXT_DUE = """
select extract(epoch from min(run_at) - clock_timestamp())::float8 from djqueue_job where state = 'scheduled'
"""

# The other ready jobs of tasks that nobody knows, once a worker has met one; and back.
SET_ASIDE = """
with c as materialized (
    select ctid as t from djqueue_job
    where queue_name = %(queue)s and state = 'ready' and not suspect and task_name = any(%(tasks)s::text[])
    limit 5000 for no key update skip locked)
update djqueue_job j set state = 'parked', parked_for = 'task:' || j.task_name
where j.ctid = any(array(select t from c)) returning j.id
"""
# The same of tasks that are known, for jobs whose arguments are of a newer version than the code. What is no version is
# left alone: that job fails by itself.
SET_ASIDE_NEWER = """
with c as materialized (
    select j.ctid as t from djqueue_job j
    join unnest(%(tasks)s::text[], %(versions)s::int[]) k(name, version) on k.name = j.task_name
    where j.queue_name = %(queue)s and j.state = 'ready' and not j.suspect
        and jsonb_typeof(j.options -> 'version') = 'number' and j.options -> 'version' > to_jsonb(k.version)
        and j.options ->> 'version' ~ '^[0-9]{1,4}$'
    limit 5000 for no key update of j skip locked)
update djqueue_job j set state = 'parked', parked_for = 'task:' || j.task_name || '@' || (j.options ->> 'version')
where j.ctid = any(array(select t from c)) returning j.id
"""
BRING_BACK = """
with c as materialized (
    select ctid as t from djqueue_job where parked_for = any(%(reasons)s::text[])
    limit 5000 for no key update skip locked),
b as (
    update djqueue_job j set state = case when j.run_at > clock_timestamp() then 'scheduled' else 'ready' end,
        parked_for = null
    where j.ctid = any(array(select t from c)) returning j.queue_name)
select queue_name, count(*), min(pg_notify('djqueue', queue_name)::text) from b group by queue_name
"""
# One index descent per reason.
ASIDE_REASONS = """
with recursive r(reason) as (
    (select parked_for from djqueue_job where parked_for is not null order by parked_for limit 1)
    union all
    select (select j.parked_for from djqueue_job j where j.parked_for > r.reason order by j.parked_for limit 1)
    from r where r.reason is not null)
select reason from r where reason is not null
"""


def overdue(alias: str, grace_seconds: float) -> list[Overdue]:
    """Lock and return up to 500 leases that have ended; the caller ends them in the same transaction."""
    return [_overdue(row) for row in db.rows(alias, OVERDUE, {"grace": grace_seconds})]


def held(alias: str, worker_id: str) -> list[Overdue]:
    """Lock and return everything that a dead worker of this supervisor held."""
    return [_overdue(row) for row in db.rows(alias, HELD, {"worker": worker_id})]


def promote(alias: str) -> int:
    """Make up to 1,000 due jobs ready and tell the workers; return how many."""
    return sum(row[1] for row in db.rows(alias, PROMOTE))


def make_due(alias: str) -> None:
    """Treat every scheduled job as due now (for tests: nobody waits for a retry there)."""
    db.rows(alias, MAKE_DUE)


def next_due_seconds(alias: str) -> float | None:
    """Return the seconds until the next scheduled job is due (negative: it is); None where there is none."""
    found: float | None = db.rows(alias, NEXT_DUE)[0][0]
    return found


def set_aside_tasks(alias: str, queue_name: str, task_names: Sequence[str]) -> int:
    """Park up to 5,000 ready jobs of tasks that no live worker knows; return how many."""
    return len(db.rows(alias, SET_ASIDE, {"queue": queue_name, "tasks": list(task_names)}))


def set_aside_newer(alias: str, queue_name: str, versions: Mapping[str, int]) -> int:
    """Park up to 5,000 ready jobs of these tasks whose version is above the one that is known; return how many."""
    params = {"queue": queue_name, "tasks": list(versions), "versions": list(versions.values())}
    return len(db.rows(alias, SET_ASIDE_NEWER, params))


def aside_reasons(alias: str) -> list[str]:
    """Return the distinct reasons for which jobs are set aside, such as `task:shop.tasks.old`."""
    return [row[0] for row in db.rows(alias, ASIDE_REASONS)]


def bring_back(alias: str, reasons: Sequence[str]) -> int:
    """Let up to 5,000 jobs that were set aside for these reasons go on; return how many."""
    return sum(row[1] for row in db.rows(alias, BRING_BACK, {"reasons": list(reasons)}))


def _overdue(row: db.Row) -> Overdue:
    id_, token, task, attempts, runs, suspect, leased_by, expired, errors = row
    return Overdue(
        id=id_,
        lease_token=token,
        task_name=task,
        attempts=attempts,
        runs=runs,
        suspect=suspect,
        leased_by=leased_by,
        expired=expired,
        errors=stored_errors(errors),
    )
