"""The one transaction in which entries fire: memories raised, fire rows and jobs written, or nothing at all.

Invariant: a nominal time of a name makes at most one job, whoever leads and however many believe that they do: the
memory of a name only rises, (name, fire time) is unique, and the entry is held in the very version that was read.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from uuid import UUID

from djqueue.policy.cronfires import Outcome, Overlap, outcomes
from djqueue.store import db
from djqueue.store.cron import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """One nominal time of an entry, and what is to become of it."""

    entry: Entry
    at: datetime
    outcome: Outcome = Outcome.ENQUEUED


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """A fire that was written; `job_id` where there is a job."""

    fire: Fire
    outcome: Outcome
    job_id: UUID | None


Enqueue = Callable[[Sequence[Fire]], Sequence[UUID]]
"""Writes a job for each fire in the open transaction; what it raises undoes them all."""

# Held in the version that was read, until the end of the transaction. An entry that somebody else holds (an editor,
# another leader) is passed over.
HOLD = """
select e.id from djqueue_cron_entry e
join unnest(%(ids)s::bigint[], %(versions)s::text[]) g(id, version) on g.id = e.id and g.version = e.xmin::text
where e.enabled and e.removed_at is null order by e.id for update of e skip locked
"""
# Asked after the entries are held: no leader can enqueue another job of theirs meanwhile.
BUSY = "select j.id from djqueue_job j where j.id = any(%(ids)s::uuid[])"

# The memory is raised or refuses: a deleted and re-created entry fires nothing twice, also after its fires were pruned.
FIRE = """
with given as materialized (
    select * from unnest(%(names)s::text[], %(ats)s::timestamptz[], %(outcomes)s::text[]) g(name, fire_at, outcome)),
old as materialized (select m.name, m.last_fire_at from djqueue_cron_memory m where m.name = any(%(names)s::text[])),
raised as (
    insert into djqueue_cron_memory as m (name, last_fire_at)
    select name, max(fire_at) from given group by name order by name
    on conflict (name) do update set last_fire_at = greatest(m.last_fire_at, excluded.last_fire_at)
    where m.last_fire_at < excluded.last_fire_at returning name)
insert into djqueue_cron_fire (name, fire_at, fired_at, outcome)
select g.name, g.fire_at, clock_timestamp(), g.outcome
from given g join raised using (name) left join old using (name)
where old.last_fire_at is null or g.fire_at > old.last_fire_at
order by g.fire_at
on conflict (name, fire_at) do nothing returning name, fire_at
"""
# Where the task's dedupe key is taken, the job is the unfinished one that holds it.
ANSWERED_BY = """
update djqueue_cron_fire f set job_id = g.job_id
from unnest(%(names)s::text[], %(ats)s::timestamptz[], %(jobs)s::uuid[]) g(name, fire_at, job_id)
where f.name = g.name and f.fire_at = g.fire_at
"""
# A fire that waited and gave its place away.
REPLACED = """
update djqueue_cron_fire f set outcome = 'replaced'
from unnest(%(names)s::text[], %(ats)s::timestamptz[]) g(name, fire_at)
where f.name = g.name and f.fire_at = g.fire_at and f.outcome = 'queued'
"""
MARK = """
update djqueue_cron_entry e set last_job_id = coalesce(g.job_id, e.last_job_id),
    queued_fire_at = coalesce(g.queued_fire_at, e.queued_fire_at)
from unnest(%(ids)s::bigint[], %(jobs)s::uuid[], %(queued)s::timestamptz[]) g(id, job_id, queued_fire_at)
where e.id = g.id returning e.id, e.xmin::text
"""

# A fire that waited has its turn.
LEAVE_QUEUE = """
update djqueue_cron_fire f set outcome = 'enqueued', fired_at = clock_timestamp()
from unnest(%(names)s::text[], %(ats)s::timestamptz[]) g(name, fire_at)
where f.name = g.name and f.fire_at = g.fire_at and f.outcome = 'queued' returning f.name, f.fire_at
"""
EMPTY_QUEUE = "update djqueue_cron_entry set queued_fire_at = null where id = any(%(ids)s::bigint[])"

# Somebody asked for a job now. The memory of the name is not touched: the schedule goes on as if nothing were.
BY_HAND = """
insert into djqueue_cron_fire (name, fire_at, fired_at, outcome)
values (%(name)s, clock_timestamp(), clock_timestamp(), 'manual') returning name, fire_at
"""


def fire(alias: str, wanted: Sequence[Fire], enqueue: Enqueue) -> tuple[list[Fired], dict[int, str]]:
    """Fire in one transaction; return what was written, and the new versions of the entries that were touched.

    Left out are entries that are no longer what was read or are held by others, and times that their names have
    answered before. What `enqueue` raises undoes everything.
    """
    with db.one_transaction(alias):
        fires = _decided(alias, _held(alias, wanted))
        written = _written(alias, fires)
        fires = [each for each in fires if (each.entry.name, each.at) in written]
        jobs = _with_jobs(alias, [each for each in fires if each.outcome is Outcome.ENQUEUED], enqueue)
        _replace(alias, fires)
        fired = [Fired(fire=each, outcome=each.outcome, job_id=jobs.get((each.entry.id, each.at))) for each in fires]
        return fired, _mark(alias, fired)


def leave_queue(alias: str, entries: Sequence[Entry], enqueue: Enqueue) -> list[Fired]:
    """Enqueue the fires that waited for a job that has ended, in one transaction; return them."""
    waiting = [Fire(entry=each, at=each.queued_fire_at) for each in entries if each.queued_fire_at is not None]
    with db.one_transaction(alias):
        held = _held(alias, waiting)
        busy = _busy(alias, held)
        held = [each for each in held if each.entry.last_job_id not in busy]
        free = {(name, at) for name, at in db.rows(alias, LEAVE_QUEUE, _keys(held))} if held else set()
        fires = [each for each in held if (each.entry.name, each.at) in free]
        jobs = _with_jobs(alias, fires, enqueue)
        fired = [Fired(fire=each, outcome=each.outcome, job_id=jobs[each.entry.id, each.at]) for each in fires]
        _mark(alias, fired)
        db.rows(alias, EMPTY_QUEUE, {"ids": [each.entry.id for each in held]})
        return fired


def fire_by_hand(alias: str, entry: Entry, enqueue: Enqueue) -> Fired:
    """Enqueue a job of the entry now, whatever its schedule and its policies say."""
    with db.one_transaction(alias):
        ((_, at),) = db.rows(alias, BY_HAND, {"name": entry.name})
        by_hand = Fire(entry=entry, at=at, outcome=Outcome.MANUAL)
        jobs = _with_jobs(alias, [by_hand], enqueue)
        fired = Fired(fire=by_hand, outcome=Outcome.MANUAL, job_id=jobs[entry.id, at])
        _mark(alias, [fired])
        return fired


def _held(alias: str, fires: Sequence[Fire]) -> list[Fire]:
    entries = {each.entry.id: each.entry.version for each in fires}
    held = {id_ for (id_,) in db.rows(alias, HOLD, {"ids": list(entries), "versions": list(entries.values())})}
    return [each for each in fires if each.entry.id in held]


def _decided(alias: str, fires: Sequence[Fire]) -> list[Fire]:
    """Apply each entry's overlap policy; fires of one entry stand together."""
    busy = _busy(alias, [each for each in fires if each.entry.overlap is not Overlap.ALLOW])
    decided: list[Fire] = []
    for _, group in groupby(fires, key=lambda each: each.entry.id):
        of_entry = list(group)
        entry = of_entry[0].entry
        found = outcomes(entry.overlap, [each.outcome for each in of_entry], busy=entry.last_job_id in busy)
        decided += [
            Fire(entry=entry, at=each.at, outcome=outcome) for each, outcome in zip(of_entry, found, strict=True)
        ]
    return decided


def _busy(alias: str, fires: Sequence[Fire]) -> set[UUID | None]:
    ids = list({each.entry.last_job_id for each in fires if each.entry.last_job_id is not None})
    return {id_ for (id_,) in db.rows(alias, BUSY, {"ids": ids})} if ids else set()


def _written(alias: str, fires: Sequence[Fire]) -> set[tuple[str, datetime]]:
    if not fires:
        return set()
    params = {**_keys(fires), "outcomes": [each.outcome.value for each in fires]}
    return {(name, at) for name, at in db.rows(alias, FIRE, params)}


def _with_jobs(alias: str, fires: Sequence[Fire], enqueue: Enqueue) -> dict[tuple[int, datetime], UUID]:
    if not fires:
        return {}
    jobs = list(enqueue(fires))
    db.rows(alias, ANSWERED_BY, {**_keys(fires), "jobs": jobs})
    return {(each.entry.id, each.at): job for each, job in zip(fires, jobs, strict=True)}


def _replace(alias: str, fires: Iterable[Fire]) -> None:
    entries = {each.entry.id: each.entry for each in fires if each.outcome is Outcome.QUEUED}
    gone = [Fire(entry=each, at=each.queued_fire_at) for each in entries.values() if each.queued_fire_at is not None]
    if gone:
        db.rows(alias, REPLACED, _keys(gone))


def _mark(alias: str, fired: Sequence[Fired]) -> dict[int, str]:
    """Write each entry's last job and what waits; return the new versions."""
    jobs: dict[int, UUID | None] = {}
    queued: dict[int, datetime | None] = {}
    for each in fired:
        id_ = each.fire.entry.id
        jobs[id_] = each.job_id or jobs.get(id_)
        queued[id_] = each.fire.at if each.outcome is Outcome.QUEUED else queued.get(id_)
    touched = [id_ for id_ in sorted(jobs) if jobs[id_] or queued[id_]]
    if not touched:
        return {}
    params = {"ids": touched, "jobs": [jobs[id_] for id_ in touched], "queued": [queued[id_] for id_ in touched]}
    return dict(db.rows(alias, MARK, params))


def _keys(fires: Sequence[Fire]) -> dict[str, object]:
    return {"names": [each.entry.name for each in fires], "ats": [each.at for each in fires]}
