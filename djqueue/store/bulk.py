"""Acts of people on all jobs that match a search: kept as a row, worked off in batches, followed to their end.

    create ─► running ─step─► … ─► finished
                  └─ stop, or a batch that the database refuses ─► stopped

Invariant: a batch and the row that says how far the act has come commit together, so an act goes on after a crash where
it was, takes no job twice, and of two who step it one does. What matches is asked anew for each batch; what was
enqueued after the act is left alone, and the state of each job decides under its lock.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from djqueue.policy.search import Search
from djqueue.store import change, db, faults, letters, operate, search, searchcount
from djqueue.store.change import ChangeAnswer
from djqueue.store.operate import CancelAnswer
from djqueue.store.search import TOP, Place
from djqueue.store.searchcount import Count

BATCH = 1_000
MOST_IDS = 10_000
MOST_COUNTED = 1_000_000
REFUSED_KEPT = 20
EVERYTHING = Search()


class Act(StrEnum):
    """What can be done to many jobs at once."""

    RETRY = "retry"
    """Let scheduled jobs start now."""
    CANCEL = "cancel"
    REQUEUE = "requeue"
    DISCARD = "discard"
    QUEUE = "queue"
    """Move waiting jobs to another queue."""
    PRIORITY = "priority"


PLACES = {
    Act.RETRY: Place.LIVE,
    Act.CANCEL: Place.LIVE,
    Act.QUEUE: Place.LIVE,
    Act.PRIORITY: Place.LIVE,
    Act.REQUEUE: Place.DEAD,
    Act.DISCARD: Place.DEAD,
}
"""Where the jobs of an act stand."""

_FOR_GOOD = ("22", "23", "54")
"""Data exceptions, violated constraints, limits of the server: repeating the batch is of no use."""

DONE = "done"
REFUSED_WORDS = {
    "running": "running",
    "ready": "ready already",
    "parked": "parked",
    "same": "so already",
    "ordered": "ordered by a key",
    "key taken": "an unfinished job holds the same dedupe key",
    "gone": "ended or moved meanwhile",
}
"""Why a job was left as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An act to be started: on the jobs of a search, or on those with these ids."""

    act: Act
    search: Search = EVERYTHING
    ids: Sequence[UUID] = ()
    query: str = ""
    """The search as it was typed, for people."""
    queue: str | None = None
    priority: int | None = None
    reason: str = ""
    by: str = ""
    until: datetime | None = None
    """Jobs that were enqueued later are left alone. None: now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an act is."""

    id: int
    state: str
    total: int
    done: int
    refused: dict[str, int] = field(default_factory=dict)
    """How many were left as they are, by why."""
    error: str = ""


CREATE = """
insert into djqueue_bulk_act (created_at, created_by, act, query, wanted, reason, until, total)
values (clock_timestamp(), %(by)s, %(act)s, %(query)s, %(wanted)s::jsonb, %(reason)s, %(until)s, %(total)s)
returning id
"""
RUNNING = "select id from djqueue_bulk_act where state = 'running' order by id"
LOCK = """
select act, wanted::text, reason, created_by, until, total, done, refused::text, refused_ids::text, cursor_id
from djqueue_bulk_act where id = %(id)s and state = 'running' for update skip locked
"""
WRITE = """
update djqueue_bulk_act set state = %(state)s, done = %(done)s, refused = %(refused)s::jsonb,
    refused_ids = %(refused_ids)s::jsonb, cursor_id = %(cursor)s::uuid, error = %(error)s,
    stepped_at = clock_timestamp(), finished_at = case when %(state)s <> 'running' then clock_timestamp() end
where id = %(id)s and state = 'running'
"""
LOOK = "select id, state, total, done, refused::text, error from djqueue_bulk_act where id = %(id)s"
STOP = """
update djqueue_bulk_act set state = 'stopped', error = %(error)s, finished_at = clock_timestamp()
where id = any(%(ids)s::bigint[]) and state = 'running' returning id
"""
PRUNE = """
delete from djqueue_bulk_act where state <> 'running'
    and finished_at < statement_timestamp() - make_interval(days => %(days)s::int)
returning 1
"""


def create(alias: str, wanted: Wanted) -> int:
    """Start an act on what matches at this moment; whoever calls `step` drives it. Return its id."""
    if len(wanted.ids) > MOST_IDS:
        raise ValueError(f"ids: expected at most {MOST_IDS:,}, got {len(wanted.ids):,}; search for them instead")
    kept = {"search": json.loads(search.to_json(wanted.search)), "queue": wanted.queue, "priority": wanted.priority}
    if wanted.ids:
        kept["ids"] = [str(id_) for id_ in sorted(set(wanted.ids), reverse=True)]
    until = wanted.until or search.now(alias)
    params = {
        "by": wanted.by,
        "act": str(wanted.act),
        "query": wanted.query,
        "wanted": json.dumps(kept),
        "reason": wanted.reason,
        "until": until,
        "total": count(alias, wanted, until).number,
    }
    return int(db.rows(alias, CREATE, params)[0][0])


def count(alias: str, wanted: Wanted, until: datetime | None = None) -> Count:
    """Return on how many jobs an act would be tried."""
    if wanted.ids:
        return Count(number=len(set(wanted.ids)))
    places = frozenset({PLACES[wanted.act]})
    return searchcount.count(alias, wanted.search, places, until=until, most=MOST_COUNTED, window=MOST_COUNTED)


def step_all(alias: str) -> list[Progress]:
    """Take the next step of each running act."""
    steps = (step(alias, row[0]) for row in db.rows(alias, RUNNING))
    return [progress for progress in steps if progress is not None]


def step(alias: str, id_: int) -> Progress | None:
    """Do the next batch of an act; None where it does not run, or somebody else is at it. A batch that the database
    refuses for what it holds stops the act, with the database's words."""
    try:
        with db.one_transaction(alias):
            return _step(alias, id_)
    except faults.ERRORS as error:
        if faults.connection_is_lost(alias, error) or faults.sqlstate(error)[:2] not in _FOR_GOOD:
            raise
        stop(alias, [id_], error=f"the database refused a batch: {faults.words(error)}")
        return None


def look(alias: str, id_: int) -> Progress | None:
    """Return how far an act is, whoever drives it."""
    return next((_progress(*row) for row in db.rows(alias, LOOK, {"id": id_})), None)


def stop(alias: str, ids: Sequence[int], *, error: str = "stopped by hand") -> set[int]:
    """End running acts for good; what they have done stays. Return those that were running."""
    return {row[0] for row in db.rows(alias, STOP, {"ids": list(ids), "error": error})}


def prune(alias: str, days: int) -> int:
    """Forget acts that ended so many days ago; return how many."""
    return len(db.rows(alias, PRUNE, {"days": days}))


def _progress(id_: int, state: str, total: int, done: int, refused: str, error: str) -> Progress:
    return Progress(id=id_, state=state, total=total, done=done, refused=json.loads(refused), error=error)


def _step(alias: str, id_: int) -> Progress | None:
    found = db.rows(alias, LOCK, {"id": id_})
    if not found:
        return None
    act, kept_text, reason, by, until, total, done, refused_text, ids_text, cursor = found[0]
    kept = json.loads(kept_text)
    wanted = Wanted(
        act=Act(act),
        search=search.from_json(kept["search"]),
        ids=[UUID(each) for each in kept.get("ids", [])],
        queue=kept["queue"],
        priority=kept["priority"],
        reason=reason,
        by=by,
        until=until,
    )
    ids, after = _next(alias, wanted, cursor or TOP)
    answers = _ACTS[wanted.act](alias, ids, wanted) if ids else {}
    refused = Counter(json.loads(refused_text))
    named: list[list[str]] = json.loads(ids_text)
    for job, answer in answers.items():
        if answer == DONE:
            done += 1
        else:
            refused[answer] += 1
            named += [[str(job), answer]] if len(named) < REFUSED_KEPT else []
    state = "running" if after is not None else "finished"
    params = {
        "id": id_,
        "state": state,
        "done": done,
        "refused": json.dumps(refused),
        "refused_ids": json.dumps(named),
        "cursor": after,
        "error": "",
    }
    db.rows(alias, WRITE, params)
    return Progress(id=id_, state=state, total=total, done=done, refused=dict(refused))


def _next(alias: str, wanted: Wanted, before: UUID) -> tuple[list[UUID], UUID | None]:
    """Return the next ids, and where to go on; None at the end."""
    if wanted.ids:
        ids = [id_ for id_ in wanted.ids if id_ < before]
        return ids[:BATCH], ids[BATCH - 1] if len(ids) > BATCH else None
    places = frozenset({PLACES[wanted.act]})
    found = search.page(alias, wanted.search, places, before=before, until=wanted.until, limit=BATCH)
    return [hit.id for hit in found.hits], found.after


def _retry(alias: str, ids: Sequence[UUID], wanted: Wanted) -> Mapping[UUID, str]:
    done = set(operate.retry_now(alias, ids))
    states = operate.states(alias, [id_ for id_ in ids if id_ not in done])
    words = {"leased": "running", "scheduled": "gone"}
    return {
        id_: DONE if id_ in done else words.get(states[id_], states[id_]) if id_ in states else "gone" for id_ in ids
    }


def _cancel(alias: str, ids: Sequence[UUID], wanted: Wanted) -> Mapping[UUID, str]:
    return {id_: "gone" if answer is CancelAnswer.GONE else DONE for id_, answer in operate.cancel(alias, ids).items()}


def _requeue(alias: str, ids: Sequence[UUID], wanted: Wanted) -> Mapping[UUID, str]:
    answer = operate.requeue(alias, ids)
    done, taken = set(answer.ids), set(answer.refused)
    return {id_: DONE if id_ in done else "key taken" if id_ in taken else "gone" for id_ in ids}


def _discard(alias: str, ids: Sequence[UUID], wanted: Wanted) -> Mapping[UUID, str]:
    done = letters.discard(alias, ids, reason=wanted.reason, by=wanted.by)
    return {id_: DONE if id_ in done else "gone" for id_ in ids}


def _queue(alias: str, ids: Sequence[UUID], wanted: Wanted) -> Mapping[UUID, str]:
    return _changed(change.queue(alias, ids, wanted.queue or ""))


def _priority(alias: str, ids: Sequence[UUID], wanted: Wanted) -> Mapping[UUID, str]:
    return _changed(change.priority(alias, ids, wanted.priority or 0))


def _changed(answers: Mapping[UUID, ChangeAnswer]) -> dict[UUID, str]:
    return {id_: DONE if answer is ChangeAnswer.CHANGED else str(answer) for id_, answer in answers.items()}


_ACTS: dict[Act, Callable[[str, Sequence[UUID], Wanted], Mapping[UUID, str]]] = {
    Act.RETRY: _retry,
    Act.CANCEL: _cancel,
    Act.REQUEUE: _requeue,
    Act.DISCARD: _discard,
    Act.QUEUE: _queue,
    Act.PRIORITY: _priority,
}
