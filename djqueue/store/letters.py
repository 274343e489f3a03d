"""What people do with dead letters: requeue all that match, with other arguments, discard; and what time does to them.

Invariant: a letter is locked before it is touched, so that of two who want it only the first finds it; nothing
vanishes: what is discarded becomes a row of history that says who did it and why.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from djqueue.store import db, operate
from djqueue.store.operate import Requeued

BATCH = 1_000
FORMER_KEPT = 3
"""How many times the arguments that were there before an edit are kept with the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letters:
    """Which dead letters: all that fit everything given."""

    fingerprint: str | None = None
    queue_name: str | None = None
    task_name: str | None = None
    until: datetime | None = None
    """Died at that moment or before; None: until now."""


class EditAnswer(StrEnum):
    """What became of a requeue with other arguments."""

    REQUEUED = "requeued"
    KEY_TAKEN = "key taken"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far somebody has walked through the letters that match, in the order of their deaths."""

    died_at: datetime | None = None
    id: UUID | None = None


# One statement per filter that has an index; what else is asked for is looked at on the way. A filter that is null is
# folded away by the planner (with coalesce it would be taken for one that hardly any row passes).
_WHERE = """died_at <= %(until)s::timestamptz and (died_at, id) > (coalesce(%(died_at)s::timestamptz, '-infinity'),
        coalesce(%(id)s::uuid, '00000000-0000-0000-0000-000000000000'))"""
_FITS = "(%(task)s::text is null or task_name = %(task)s::text)"
MATCH = f"""
select died_at, id from djqueue_dead_letter where {_WHERE} and {_FITS} order by died_at, id limit %(limit)s
"""
MATCH_CAUSE = f"""
select died_at, id from djqueue_dead_letter where fingerprint = %(fingerprint)s and {_WHERE} and {_FITS}
    and (%(queue)s::text is null or queue_name = %(queue)s::text)
order by died_at, id limit %(limit)s
"""
MATCH_QUEUE = f"""
select died_at, id from djqueue_dead_letter where queue_name = %(queue)s and {_WHERE} and {_FITS}
order by died_at, id limit %(limit)s
"""
COUNT = f"""
select count(*) from djqueue_dead_letter where {_WHERE} and {_FITS}
    and (%(fingerprint)s::text is null or fingerprint = %(fingerprint)s::text)
    and (%(queue)s::text is null or queue_name = %(queue)s::text)
"""
NOW = "select clock_timestamp()"

# The arguments that were there before stay with the job, wherever it goes.
EDIT = f"""
update djqueue_dead_letter d set args = %(args)s::jsonb,
    options = jsonb_set((d.options - 'version') || jsonb_strip_nulls(jsonb_build_object('version', %(version)s::int)),
    '{{former_args}}', jsonb_path_query_array(jsonb_build_array(jsonb_build_object('args', d.args, 'by', %(by)s::text,
        'at', clock_timestamp())) || coalesce(d.options->'former_args', '[]'), '$[0 to {FORMER_KEPT - 1}]'))
where d.id = %(id)s returning d.id
"""

# In the order of ids, as every statement that waits for several letters; a key that the letter blocks is free again.
_DISCARD = """
with f as materialized (
    select d.id from djqueue_dead_letter d where d.id = any(%(ids)s::uuid[]) order by d.id for update),
ended as (
    delete from djqueue_dead_letter d using f where d.id = f.id returning d.*),
kept as (
    insert into {table} (id, finished_at, created_at, started_at, lease_token, attempts, interruptions, runs,
        priority, outcome, queue_name, task_name, tenant_id, dedupe_key, ordering_key, worker_ids, args, errors,
        options)
    select id, clock_timestamp(), created_at, started_at, lease_token, attempts, interruptions, runs, priority,
        'cancelled', queue_name, task_name, tenant_id, dedupe_key, ordering_key, worker_ids, args,
        errors || jsonb_build_object('kind', 'discarded', 'at', clock_timestamp(), 'exception', 'djqueue.Discarded',
            'message', %(reason)s::text, 'by', %(by)s::text),
        options
    from ended),
unblocked as (
    delete from djqueue_key_block b using ended where b.queue_name = ended.queue_name
        and b.ordering_key = ended.ordering_key and b.job_id = ended.id),
woken as (
    insert into djqueue_wake (queue_name, ordering_key)
    select queue_name, ordering_key from ended where ordering_key is not null)
select id from ended
"""
DISCARD = _DISCARD.format(table="djqueue_history")
DISCARD_OVERFLOW = _DISCARD.format(table="djqueue_history_overflow")

# Only where an option says so.
PRUNE = f"""
with old as materialized (
    select id from djqueue_dead_letter
    where died_at < statement_timestamp() - make_interval(days => %(days)s::int)
    order by died_at, id limit {BATCH} for update skip locked),
gone as (
    delete from djqueue_dead_letter d using old where d.id = old.id returning d.id, d.queue_name, d.ordering_key),
unblocked as (
    delete from djqueue_key_block b using gone where b.queue_name = gone.queue_name
        and b.ordering_key = gone.ordering_key and b.job_id = gone.id),
woken as (
    insert into djqueue_wake (queue_name, ordering_key)
    select queue_name, ordering_key from gone where ordering_key is not null)
select count(*) from gone
"""


def matching(alias: str, letters: Letters, limit: int = BATCH, after: Cursor | None = None) -> list[Cursor]:
    """Return the next letters that match, in the order of their deaths."""
    statement = MATCH
    if letters.fingerprint is not None:
        statement = MATCH_CAUSE
    elif letters.queue_name is not None:
        statement = MATCH_QUEUE
    found = db.rows(alias, statement, _params(alias, letters, after or Cursor()) | {"limit": limit})
    return [Cursor(died_at, id_) for died_at, id_ in found]


def count(alias: str, letters: Letters) -> int:
    """Return how many letters match."""
    return int(db.rows(alias, COUNT, _params(alias, letters, Cursor()))[0][0])


def requeue_matching(alias: str, letters: Letters, most: int | None = None) -> Iterator[Requeued]:
    """Requeue all letters that match and died before the call, or the first so many: a batch of 1,000 per step, each a
    statement of its own, so that a job that dies again meanwhile is not taken twice."""
    until = letters.until or db.rows(alias, NOW)[0][0]
    fixed = Letters(
        fingerprint=letters.fingerprint, queue_name=letters.queue_name, task_name=letters.task_name, until=until
    )
    after: Cursor | None = None
    left = most
    while left is None or left > 0:
        found = matching(alias, fixed, BATCH if left is None else min(BATCH, left), after)
        if not found:
            return
        yield operate.requeue(alias, [each.id for each in found if each.id is not None])
        after = found[-1]
        left = None if left is None else left - len(found)


def requeue_edited(alias: str, id_: UUID, args: str, *, version: int = 1, by: str = "") -> EditAnswer:
    """Requeue a letter with other arguments (JSON text of that version, validated by the caller); the old ones stay
    with the job, in its options, newest first. Where the key is taken nothing changes."""
    params = {"id": id_, "args": args, "by": by, "version": None if version == 1 else version}
    try:
        with db.one_transaction(alias):
            if not db.rows(alias, EDIT, params):
                return EditAnswer.GONE
            if not operate.requeue(alias, [id_]).ids:
                raise _KeyTaken
    except _KeyTaken:
        return EditAnswer.KEY_TAKEN
    return EditAnswer.REQUEUED


def discard(alias: str, ids: Sequence[UUID], *, reason: str, by: str = "") -> set[UUID]:
    """End dead letters for good: they become cancelled rows of history, with the reason as their last entry."""
    params = {"ids": sorted(set(ids)), "reason": reason, "by": by}
    return {row[0] for row in db.rows_or_overflow(alias, DISCARD, DISCARD_OVERFLOW, params)}


def prune(alias: str, days: int) -> int:
    """Delete up to 1,000 letters that are older than so many days; return how many."""
    return int(db.rows(alias, PRUNE, {"days": days})[0][0])


class _KeyTaken(Exception):
    """Takes the edit back with the transaction."""


def _params(alias: str, letters: Letters, after: Cursor) -> dict[str, object]:
    return {
        "fingerprint": letters.fingerprint,
        "queue": letters.queue_name,
        "task": letters.task_name,
        "until": letters.until or db.rows(alias, NOW)[0][0],
        "died_at": after.died_at,
        "id": after.id,
    }
