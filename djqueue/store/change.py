"""What people change of jobs that wait: their queue, their priority, the moment from which they run.

Invariant: a running job is left as it is, whatever a page showed; every id gets an answer, from the row as it stands
under its lock.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from djqueue.store import db, faults


class ChangeAnswer(StrEnum):
    """What became of a wish to change a waiting job."""

    CHANGED = "changed"
    SAME = "same"
    """It was so before."""
    RUNNING = "running"
    PARKED = "parked"
    """Refused: its turn is decided by who parked it."""
    ORDERED = "ordered"
    """Refused: jobs behind its ordering key wait for it in its queue."""
    KEY_TAKEN = "key taken"
    """Refused: an unfinished job of that queue holds the same dedupe key."""
    GONE = "gone"
    """It had ended before."""


# Rows are locked in the order of ids, as in every statement that waits for several jobs.
_LOCKED = """f as materialized (
    select j.id, j.state, j.queue_name, j.priority, j.dedupe_key, j.ordering_key from djqueue_job j
    where j.id = any(%(ids)s::uuid[]) order by j.id for no key update)"""

PRIORITY = f"""
with {_LOCKED},
made as (
    update djqueue_job j set priority = %(priority)s::smallint from f
    where j.id = f.id and f.state <> 'leased' and f.priority <> %(priority)s::smallint returning j.id)
select f.id, case when made.id is not null then 'changed' when f.state = 'leased' then 'running' else 'same' end
from f left join made on made.id = f.id
"""

# Of several jobs with one dedupe key that come from different queues the oldest gets it. A job that takes the key
# between this snapshot and the update makes the whole statement fail: it is sent again.
QUEUE = f"""
with {_LOCKED},
asked as materialized (
    select f.id, case when f.state = 'leased' then 'running' when f.queue_name = %(queue)s::text then 'same'
        when f.ordering_key is not null then 'ordered'
        when f.dedupe_key is not null and (exists (select from djqueue_job k
                where k.queue_name = %(queue)s::text and k.dedupe_key = f.dedupe_key)
            or row_number() over (partition by f.dedupe_key order by f.id) > 1) then 'key taken'
        else 'changed' end as answer
    from f),
made as (
    update djqueue_job j set queue_name = %(queue)s::text from asked a
    where j.id = a.id and a.answer = 'changed' returning j.id, j.state),
told as (
    select pg_notify('djqueue', %(queue)s::text) from made where state = 'ready' limit 1)
select id, answer from asked where (select count(*) from told) >= 0
"""

# A ready job that is put off is scheduled; one that is due is ready, as the promoter would make it.
RESCHEDULE = f"""
with {_LOCKED},
made as (
    update djqueue_job j set run_at = %(run_at)s::timestamptz,
        state = case when %(run_at)s::timestamptz > clock_timestamp() then 'scheduled' else 'ready' end
    from f where j.id = f.id and f.state in ('ready', 'scheduled') returning j.id, j.queue_name, j.state),
told as (
    select pg_notify('djqueue', queue_name) from made where state = 'ready' group by queue_name)
select f.id, case when made.id is not null then 'changed' when f.state = 'leased' then 'running' else 'parked' end
from f left join made on made.id = f.id where (select count(*) from told) >= 0
"""

_UNIQUE = "23505"
TRIES = 3


def priority(alias: str, ids: Sequence[UUID], value: int) -> dict[UUID, ChangeAnswer]:
    """Give waiting jobs another priority, from -100 to 100."""
    return _answers(ids, db.rows(alias, PRIORITY, {"ids": sorted(set(ids)), "priority": value}))


def queue(alias: str, ids: Sequence[UUID], name: str) -> dict[UUID, ChangeAnswer]:
    """Move waiting jobs to another queue."""
    params = {"ids": sorted(set(ids)), "queue": name}
    for last in (False,) * (TRIES - 1) + (True,):
        try:
            with db.one_transaction(alias):
                return _answers(ids, db.rows(alias, QUEUE, params))
        except faults.ERRORS as error:
            if last or faults.sqlstate(error) != _UNIQUE:
                raise
    raise AssertionError("unreachable")


def reschedule(alias: str, ids: Sequence[UUID], run_at: datetime) -> dict[UUID, ChangeAnswer]:
    """Let ready and scheduled jobs run from another moment, by the database's clock; a past one means now."""
    return _answers(ids, db.rows(alias, RESCHEDULE, {"ids": sorted(set(ids)), "run_at": run_at}))


def _answers(ids: Sequence[UUID], found: list[db.Row]) -> dict[UUID, ChangeAnswer]:
    answers = {id_: ChangeAnswer(word) for id_, word in found}
    return {id_: answers.get(id_, ChangeAnswer.GONE) for id_ in ids}
