"""Rows of history that must go while their day stays: of queues with fewer days, of a history without partitions or of
a role that may not drop them, of the overflow, and all rows where nothing is to be kept.

Invariant: only finished jobs, in batches that hold few locks and end long before any statement timeout, each a
transaction of its own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from djqueue.store import db

BATCH = 1_000
KEEP_AT_LEAST_SECONDS = 60
"""With a history of no days a finished job stays a minute, so that an ack whose answer was lost can be asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """How many days of history are kept: of each queue, and of those that say nothing."""

    default: int
    queues: Mapping[str, int] = field(default_factory=dict)

    @property
    def longest(self) -> int:
        """The days after which no queue wants its history any more."""
        return max([self.default, *self.queues.values()])

    def days(self, queue_name: str) -> int:
        """The days of one queue."""
        return self.queues.get(queue_name, self.default)


QUEUE_DAYS = "select name, history_days from djqueue_queue where history_days is not null"

# The names of the queues that have rows, one index descent each.
_NAMES = """
with recursive q(name) as (
    (select queue_name from {table} order by queue_name limit 1)
    union all
    select (select h.queue_name from {table} h where h.queue_name > q.name order by h.queue_name limit 1)
    from q where q.name is not null)
select name from q where name is not null
"""
# Whether it looks rows up by ctid or walks the index up to the last of them, a batch costs what it takes. In another
# partition the same ctid is another row, so the condition is said again: what it hits there is as old.
_DELETE = """
with old as materialized (
    select ctid as t, finished_at from {table}
    where queue_name = %(queue)s and finished_at < statement_timestamp() - make_interval(secs => %(seconds)s::float8)
    order by finished_at limit {batch}),
gone as (
    delete from {table} h where h.ctid = any(array(select t from old)) and h.queue_name = %(queue)s
        and h.finished_at <= (select max(finished_at) from old)
    returning 1)
select count(*) from gone
"""
GONE_WORKERS = """
delete from djqueue_worker where seen_at < statement_timestamp() - interval '1 day' returning 1
"""
NAMES_IN_HISTORY = _NAMES.format(table="djqueue_history")
NAMES_IN_OVERFLOW = _NAMES.format(table="djqueue_history_overflow")
DELETE_FROM_HISTORY = _DELETE.format(table="djqueue_history", batch=BATCH)
DELETE_FROM_OVERFLOW = _DELETE.format(table="djqueue_history_overflow", batch=BATCH)


def keep(alias: str, default: int) -> Keep:
    """Return what is to be kept, by the queue rows and the settings' default."""
    return Keep(default=default, queues=dict(db.rows(alias, QUEUE_DAYS)))


def delete_old(alias: str, keep: Keep, *, whole_days_are_dropped: bool) -> Iterator[int]:
    """Delete old rows, one batch per step, and yield how many each took; stop whenever there was enough.

    Where whole days are dropped, the queues that are kept longest lose their rows with their day.
    """
    for name in _names(alias, NAMES_IN_HISTORY):
        if not whole_days_are_dropped or keep.days(name) < keep.longest or keep.days(name) == 0:
            yield from _batches(alias, DELETE_FROM_HISTORY, name, keep)
    for name in _names(alias, NAMES_IN_OVERFLOW):
        yield from _batches(alias, DELETE_FROM_OVERFLOW, name, keep)


def delete_gone_workers(alias: str) -> int:
    """Delete the rows of workers that nobody has seen for a day; return how many."""
    return len(db.rows(alias, GONE_WORKERS))


def _names(alias: str, statement: str) -> list[str]:
    return [name for (name,) in db.rows(alias, statement)]


def _batches(alias: str, statement: str, queue_name: str, keep: Keep) -> Iterator[int]:
    seconds = max(KEEP_AT_LEAST_SECONDS, keep.days(queue_name) * 86_400)
    while count := int(db.rows(alias, statement, {"queue": queue_name, "seconds": seconds})[0][0]):
        yield count
        if count < BATCH:
            return
