"""How many jobs a search finds, and how many there are in each state: exactly to a limit, then about.

Invariant: a count looks at the same windows as the pages of `store.search`, and never goes on when it knows enough.
"""

from dataclasses import dataclass
from datetime import datetime

from djqueue.policy.search import Search, Tab
from djqueue.store import db, search
from djqueue.store.search import BELOW, DEAD_FITS, ENDED_FITS, EVERYWHERE, LIVE_FITS, TOP, WALK, Place

MOST_COUNTED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many fit: exact up to a limit, else at least so many; `about` is then what the planner reckons."""

    number: int
    is_exact: bool = True
    about: int | None = None


# How many fit, within the same windows, and no further than somebody wants to know.
_MOST = "limit %(most)s + 1"
COUNT = f"""
select case when %(live)s::bool then (select count(*) from (
        select from (select * from djqueue_job {WALK}) j where {LIVE_FITS} {_MOST}) x) else 0 end
    + case when %(ended)s::bool then (select count(*) from (
        select from (select * from djqueue_history {WALK}) j where {ENDED_FITS} {_MOST}) x) else 0 end
    + case when %(ended)s::bool then (select count(*) from (
        select from (select * from djqueue_history_overflow {WALK}) j where {ENDED_FITS} {_MOST}) x) else 0 end
    + case when %(dead)s::bool then (select count(*) from (
        select from (select * from djqueue_dead_letter {WALK}) j where {DEAD_FITS} {_MOST}) x) else 0 end
"""
COUNT_EXACT = f"""
select case when %(live)s::bool then (select count(*) from (
        select from djqueue_job {BELOW} {LIVE_FITS} {_MOST}) x) else 0 end
    + case when %(ended)s::bool then (select count(*) from (
        select from djqueue_history {BELOW} {ENDED_FITS} {_MOST}) x) else 0 end
    + case when %(ended)s::bool then (select count(*) from (
        select from djqueue_history_overflow {BELOW} {ENDED_FITS} {_MOST}) x) else 0 end
    + case when %(dead)s::bool then (select count(*) from (
        select from djqueue_dead_letter {BELOW} {DEAD_FITS} {_MOST}) x) else 0 end
"""

# The figures on the tabs. Live states by their partial indexes, so far as they are counted; what has no index of its
# own among the newest rows. The estimates come from the queues' rows and from the last ANALYZE.
TABS = """
select (select count(*) from (select from djqueue_job where state = 'ready' and suspect = false limit %(most)s + 1) x)
        + (select count(*) from (select from djqueue_job where state = 'ready' and suspect limit %(most)s + 1) x),
    (select count(*) from (select from djqueue_job where state = 'leased' limit %(most)s + 1) x),
    (select count(*) from (select from (select attempts from djqueue_job where state = 'scheduled'
        limit %(window)s) s where attempts = 0 limit %(most)s + 1) x),
    (select count(*) from (select from (select attempts from djqueue_job where state = 'scheduled'
        limit %(window)s) s where attempts > 0 limit %(most)s + 1) x),
    (select count(*) from (select from djqueue_job where state = 'parked' and parked_for is null
            and ordering_key is not null limit %(most)s + 1) x)
        + (select count(*) from (select from djqueue_job where state = 'parked' and parked_for is not null
            limit %(most)s + 1) x),
    (select count(*) from (select from (select outcome from djqueue_history order by id desc limit %(window)s) h
        where outcome = 'succeeded' limit %(most)s + 1) x),
    (select count(*) from (select from (select outcome from djqueue_history order by id desc limit %(window)s) h
        where outcome = 'cancelled' limit %(most)s + 1) x),
    (select count(*) from (select from djqueue_dead_letter limit %(most)s + 1) x),
    (select coalesce(sum(ready), 0)::bigint from djqueue_queue),
    (select coalesce(sum(scheduled), 0)::bigint from djqueue_queue),
    (select coalesce(sum(parked), 0)::bigint from djqueue_queue),
    (select coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint from pg_class c
        where c.oid = to_regclass('djqueue_history') and c.relkind = 'r' or c.oid in (
            select i.inhrelid from pg_inherits i where i.inhparent = to_regclass('djqueue_history'))),
    (select greatest(c.reltuples, 0)::bigint from pg_class c where c.oid = to_regclass('djqueue_dead_letter'))
"""


def count(
    alias: str,
    wanted: Search,
    places: frozenset[Place] = EVERYWHERE,
    *,
    until: datetime | None = None,
    most: int | None = None,
    window: int | None = None,
) -> Count:
    """Return how many fit, exactly up to `most` (10,000), within the window of a page or a larger one."""
    most = MOST_COUNTED if most is None else most
    looked_at = search.places_of(wanted, places)
    begin = search.start_of(alias, wanted, TOP)
    params = search.params_of(wanted, begin, until) | {"most": most, **_flags(looked_at)}
    params["window"] = window or params["window"]
    number = int(db.rows(alias, COUNT_EXACT if search.is_direct(wanted) else COUNT, params)[0][0])
    return Count(number=number) if number <= most else Count(number=most, is_exact=False)


def tabs(alias: str, *, most: int | None = None) -> dict[Tab, Count]:
    """Return how many jobs there are in each state: exactly up to `most` (10,000), then about how many."""
    most = MOST_COUNTED if most is None else most
    row = db.rows(alias, TABS, {"most": most, "window": search.WINDOW})[0]
    numbers, (ready, scheduled, parked, ended, dead) = row[:8], row[8:]
    about = {Tab.READY: ready, Tab.SCHEDULED: scheduled, Tab.PARKED: parked, Tab.SUCCEEDED: ended, Tab.DEAD: dead}
    return {
        tab: Count(number=number)
        if number <= most
        else Count(number=most, is_exact=False, about=max(most, about.get(tab, most)))
        for tab, number in zip(Tab, numbers, strict=True)
    }


def _flags(places: frozenset[Place]) -> dict[str, bool]:
    return {"live": Place.LIVE in places, "ended": Place.HISTORY in places, "dead": Place.DEAD in places}
