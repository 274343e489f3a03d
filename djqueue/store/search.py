"""Finding jobs for people: a page of those that fit, newest first by id, wherever they stand.

Invariant: no search reads more than a window of each table, whatever is asked and however many rows there are. What an
index leads to is read directly; everything else is looked for among the newest rows below the cursor, and the answer
says how far that was, so that the next page goes on from there.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from djqueue.policy.search import HISTORY_TABS, LIVE_TABS, Search, Tab
from djqueue.store import db

WINDOW = 100_000
JSON_WINDOW = 20_000
"""Rows of a table that one page looks at; the second where it must look into JSON, which may be large."""

CLOCKS_APART_SECONDS = 3_600
TOP = UUID(int=2**128 - 1)
"""Above every id that there is."""


class Place(StrEnum):
    """A table, or two, in which a job may stand."""

    LIVE = "live"
    HISTORY = "history"
    DEAD = "dead"


EVERYWHERE = frozenset(Place)


class Hit(NamedTuple):
    """A job as a list shows it. `state` is a `Tab`; `ended_at` the end of a job that is over."""

    id: UUID
    state: str
    task_name: str
    queue_name: str
    tenant_id: str
    priority: int
    attempts: int
    max_attempts: int | None
    created_at: datetime
    run_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    note: str
    """Why it is parked, that it is asked to cancel, or the beginning of why it died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Jobs that fit, newest first. `after` is where the next page begins, None at the end; `looked_to` says how far a
    search without an index has come when it found less than a page."""

    hits: list[Hit]
    after: UUID | None = None
    looked_to: UUID | None = None


# With literals, or values bound to an unnamed statement, the planner drops every condition whose value is null.
_FITS = """(%(id)s::uuid is null or id = %(id)s::uuid)
    and (%(queue)s::text is null or queue_name = %(queue)s::text)
    and (%(tasks)s::text[] is null or task_name like any(%(tasks)s::text[]))
    and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
    and (%(key)s::text is null or dedupe_key like %(key)s::text)
    and (%(older)s::float8 is null or created_at < statement_timestamp() - make_interval(secs => %(older)s::float8))
    and (%(until)s::timestamptz is null or created_at <= %(until)s::timestamptz)
    and (%(words)s::text[] is null or lower(task_name) like all(%(words)s::text[]) or dedupe_key = %(word)s::text)
    and (%(subject)s::text is null or options->>'subject' = %(subject)s::text)
    and (%(parent)s::text is null or options->>'parent' = %(parent)s::text)
    and (%(tag)s::text is null or options->'tags' ? %(tag)s::text)
    and (%(args)s::text is null or args @? (%(args)s::text)::jsonpath)"""
_ERROR = "(%(error)s::text is null or strpos(lower(errors::text), lower(%(error)s::text)) > 0)"
LIVE_FITS = f"""{_FITS} and {_ERROR}
    and (%(state)s::text is null or state = %(state)s::text)
    and (%(retrying)s::bool is null or (attempts > 0) = %(retrying)s::bool)"""
ENDED_FITS = f"{_FITS} and {_ERROR} and (%(outcome)s::text is null or outcome = %(outcome)s::text)"
DEAD_FITS = f"""{_FITS} and (%(cause)s::text is null or fingerprint = %(cause)s::text)
    and (%(error)s::text is null or strpos(lower(reason), lower(%(error)s::text)) > 0 or {_ERROR})"""

_LIVE_COLUMNS = """id,
    case when state = 'leased' then 'running' when state = 'scheduled' and attempts > 0 then 'retrying' else state end,
    task_name, queue_name, tenant_id, priority, attempts, max_attempts, created_at, run_at,
    started_at, null::timestamptz,
    case when cancel_requested_at is not null then 'asked to cancel' else coalesce(parked_for, '') end"""
_ENDED_COLUMNS = """id, outcome, task_name, queue_name, tenant_id, priority, attempts, null::smallint, created_at,
    null::timestamptz, started_at, finished_at, ''"""
_DEAD_COLUMNS = """id, 'dead', task_name, queue_name, tenant_id, priority, attempts, max_attempts, created_at,
    null::timestamptz, started_at, died_at, left(reason, 120)"""

# The limit inside is a fence: whatever the statistics say, the rows are walked by the index of ids, newest first, at
# most a window of them, and the walk ends with the page.
WALK = "where id < %(before)s::uuid order by id desc limit %(window)s"
_PAGE = "order by id desc limit %(limit)s"
LIVE = f"select {_LIVE_COLUMNS} from (select * from djqueue_job {WALK}) j where {LIVE_FITS} {_PAGE}"
HISTORY = f"select {_ENDED_COLUMNS} from (select * from djqueue_history {WALK}) j where {ENDED_FITS} {_PAGE}"
OVERFLOW = f"""
select {_ENDED_COLUMNS} from (select * from djqueue_history_overflow {WALK}) j where {ENDED_FITS} {_PAGE}
"""
DEAD = f"select {_DEAD_COLUMNS} from (select * from djqueue_dead_letter {WALK}) j where {DEAD_FITS} {_PAGE}"

# An id, a subject or a parent leads to its rows in the order of ids, however many there are.
BELOW = "where id < %(before)s::uuid and"
LIVE_EXACT = f"select {_LIVE_COLUMNS} from djqueue_job {BELOW} {LIVE_FITS} {_PAGE}"
HISTORY_EXACT = f"select {_ENDED_COLUMNS} from djqueue_history {BELOW} {ENDED_FITS} {_PAGE}"
OVERFLOW_EXACT = f"select {_ENDED_COLUMNS} from djqueue_history_overflow {BELOW} {ENDED_FITS} {_PAGE}"
DEAD_EXACT = f"select {_DEAD_COLUMNS} from djqueue_dead_letter {BELOW} {DEAD_FITS} {_PAGE}"

# Never more running jobs than slots: all of them are read, by their own small index.
LIVE_RUNNING = f"""
with r as materialized (select * from djqueue_job where state = 'leased')
select {_LIVE_COLUMNS} from r {BELOW} {LIVE_FITS} {_PAGE}
"""

# Where a window ends: asked only for tables in which a page was not filled.
_FLOOR = "where id < %(before)s::uuid order by id desc offset %(window)s - 1 limit 1"
FLOOR = f"""
select case when %(live)s::bool then (select id from djqueue_job {_FLOOR}) end,
    case when %(ended)s::bool then (select id from djqueue_history {_FLOOR}) end,
    case when %(ended)s::bool then (select id from djqueue_history_overflow {_FLOOR}) end,
    case when %(dead)s::bool then (select id from djqueue_dead_letter {_FLOOR}) end
"""

NOW = "select clock_timestamp()"

LIVE_BY_IDS = f"select {_LIVE_COLUMNS} from djqueue_job where id = any(%(ids)s::uuid[])"
HISTORY_BY_IDS = f"select {_ENDED_COLUMNS} from djqueue_history where id = any(%(ids)s::uuid[])"
DEAD_BY_IDS = f"select {_DEAD_COLUMNS} from djqueue_dead_letter where id = any(%(ids)s::uuid[])"


def places_of(search: Search, allowed: Iterable[Place] = EVERYWHERE) -> frozenset[Place]:
    """Return the places in which jobs of this search may stand, of those that may be looked at."""
    wanted = frozenset(allowed)
    if search.tab in LIVE_TABS:
        wanted &= {Place.LIVE}
    elif search.tab in HISTORY_TABS:
        wanted &= {Place.HISTORY}
    elif search.tab is Tab.DEAD or search.cause is not None:
        wanted &= {Place.DEAD}
    return wanted


def page(
    alias: str,
    search: Search,
    places: frozenset[Place] = EVERYWHERE,
    *,
    before: UUID = TOP,
    until: datetime | None = None,
    limit: int = 50,
) -> Page:
    """Return up to `limit` jobs that fit and whose ids are below `before`, those enqueued until a moment only."""
    params = params_of(search, start_of(alias, search, before), until) | {"limit": limit + 1}
    found: dict[str, list[Hit]] = {}
    for name, statement in _statements(search, places_of(search, places)):
        found[name] = [Hit(*row) for row in db.rows(alias, statement, params)]
    ends = _ends(alias, search, found, params, limit)
    # Below the highest end some table has not been looked at yet, so nothing below it is shown either.
    end = max(ends, default=None)
    hits = sorted((hit for hits in found.values() for hit in hits if end is None or hit.id >= end), reverse=True)
    if len(hits) > limit:
        return Page(hits=hits[:limit], after=hits[limit - 1].id)
    if end is None:
        return Page(hits=hits)
    return Page(hits=hits, after=end, looked_to=end)


def by_ids(alias: str, ids: Sequence[UUID], places: frozenset[Place] = EVERYWHERE) -> list[Hit]:
    """Return the jobs with these ids that stand in these places."""
    statements = {Place.LIVE: LIVE_BY_IDS, Place.HISTORY: HISTORY_BY_IDS, Place.DEAD: DEAD_BY_IDS}
    found = (db.rows(alias, sql, {"ids": list(ids)}) for place, sql in statements.items() if place in places)
    return sorted((Hit(*row) for rows in found for row in rows), reverse=True)


def now(alias: str) -> datetime:
    """Return the database's clock."""
    moment: datetime = db.rows(alias, NOW)[0][0]
    return moment


def to_json(search: Search) -> str:
    """Return a search as it is kept with a bulk act."""
    kept = {name: getattr(search, name) for name in Search.__dataclass_fields__}
    return json.dumps({name: value for name, value in kept.items() if value not in (None, ())}, default=str)


def from_json(kept: dict[str, Any]) -> Search:
    """Return the search that was kept."""
    readers: dict[str, Any] = {"id": UUID, "parent": UUID, "tab": Tab, "tasks": tuple, "words": tuple}
    return Search(**{name: readers.get(name, lambda value: value)(value) for name, value in kept.items()})


def start_of(alias: str, search: Search, before: UUID) -> UUID:
    """Ids begin with the moment of their making, by the enqueuer's clock: for old jobs the walk begins an hour above
    their age, not at the newest ones."""
    if search.older_seconds is None or search.is_exact:
        return before
    newest = now(alias).timestamp() - search.older_seconds + CLOCKS_APART_SECONDS
    return min(before, UUID(int=max(0, int(newest * 1_000)) << 80))


def _statements(search: Search, places: frozenset[Place]) -> list[tuple[str, str]]:
    exact = search.is_exact
    chosen: list[tuple[str, str]] = []
    if Place.LIVE in places:
        is_running = search.tab is Tab.RUNNING and not exact
        chosen.append(("live", LIVE_RUNNING if is_running else LIVE_EXACT if exact else LIVE))
    if Place.HISTORY in places:
        chosen.append(("history", HISTORY_EXACT if exact else HISTORY))
        chosen.append(("overflow", OVERFLOW_EXACT if exact else OVERFLOW))
    if Place.DEAD in places:
        chosen.append(("dead", DEAD_EXACT if exact else DEAD))
    return chosen


def is_direct(search: Search) -> bool:
    """Tell whether an index leads straight to all that fit."""
    return search.is_exact or search.tab is Tab.RUNNING


def _ends(
    alias: str, search: Search, found: dict[str, list[Hit]], params: dict[str, Any], limit: int
) -> Sequence[UUID]:
    """Return for each table that has more to look at how far it has been looked at."""
    ends = [hits[-1].id for hits in found.values() if len(hits) > limit]
    short = {name for name, hits in found.items() if len(hits) <= limit}
    every_row_fits = search.is_all and search.tab is None and limit < params["window"]
    if not short or is_direct(search) or every_row_fits:
        return ends
    flags = {"live": "live" in short, "ended": bool(short & {"history", "overflow"}), "dead": "dead" in short}
    floors = dict(zip(("live", "history", "overflow", "dead"), db.rows(alias, FLOOR, params | flags)[0], strict=True))
    return ends + [floor for name, floor in floors.items() if name in short and floor is not None]


def params_of(search: Search, before: UUID, until: datetime | None) -> dict[str, Any]:
    """Return the parameters that all statements of a search share."""
    tab = search.tab
    return {
        "id": search.id,
        "queue": search.queue,
        "tasks": list(search.tasks) or None,
        "tenant": search.tenant,
        "key": search.key,
        "older": search.older_seconds,
        "until": until,
        "words": [f"%{_literal(word.lower())}%" for word in search.words] or None,
        "word": search.words[0] if len(search.words) == 1 else None,
        "subject": search.subject,
        "parent": None if search.parent is None else str(search.parent),
        "tag": search.tag,
        "args": search.args,
        "error": search.error,
        "cause": search.cause,
        "state": _STATES.get(tab) if tab else None,
        "retrying": {Tab.RETRYING: True, Tab.SCHEDULED: False}.get(tab) if tab else None,
        "outcome": str(tab) if tab in HISTORY_TABS else None,
        "before": before,
        "window": JSON_WINDOW if search.reads_json else WINDOW,
    }


def _literal(text: str) -> str:
    """A text as a pattern that means itself."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


_STATES = {
    Tab.READY: "ready",
    Tab.RUNNING: "leased",
    Tab.SCHEDULED: "scheduled",
    Tab.RETRYING: "scheduled",
    Tab.PARKED: "parked",
}
