"""The days of history: partitions made ahead, old ones dropped whole, and the overflow moved in.

Invariant: nothing here makes an ack wait. What stops inserts into history is ACCESS EXCLUSIVE on the parent, had or
only asked for; CREATE … PARTITION OF, DROP of a partition and a plain DETACH ask for it. So a partition is made as a
plain table and attached, and leaves by DETACH CONCURRENTLY before it is dropped.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from typing import Any, NamedTuple, TypeVar

from django.db import connections

from djqueue.store import db, faults

T = TypeVar("T")

BATCH = 500
TRIES = 20
DETACH_WITHIN_SECONDS = 2.0
MOVE_FOR_SECONDS = 1.0

_LOCKED = "55P03"
_CANCELLED = "57014"
_OVERLAP = "42P17"

# A plain history (made without the migrations) and a role that may not make tables are nobody's fault: then rows are
# deleted, see `retention`.
CAN_PARTITION = """
select exists (select from pg_partitioned_table p join pg_class c on c.oid = p.partrelid
    where c.oid = to_regclass('djqueue_history') and pg_has_role(c.relowner, 'usage')
    and has_schema_privilege(c.relnamespace, 'create'))
"""

MISSING_DAYS = """
select d.day::date from generate_series((clock_timestamp() at time zone 'UTC')::date - 1,
    (clock_timestamp() at time zone 'UTC')::date + %(ahead)s::int, interval '1 day') d(day)
where not exists (select from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = to_regclass('djqueue_history')
    and c.relname = 'djqueue_history_p' || to_char(d.day, 'YYYYMMDD'))
order by 1
"""
IS_ATTACHED = """
select exists (select from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = to_regclass('djqueue_history')
    and c.relname = 'djqueue_history_p' || to_char(%(day)s::date, 'YYYYMMDD'))
"""

# Two makers meet here, on the very lock that ATTACH takes: it conflicts with itself, not with reading or writing.
LOCK_HISTORY = "lock table djqueue_history in share update exclusive mode"

# These take no parameters; nothing but a date is ever put in.
CREATE_DAY = """
create table if not exists djqueue_history_p{day:%Y%m%d}
    (like djqueue_history including constraints including storage including compression)
"""
ATTACH_DAY = """
alter table djqueue_history attach partition djqueue_history_p{day:%Y%m%d}
    for values from ('{day:%Y-%m-%d} 00:00:00+00') to ('{end:%Y-%m-%d} 00:00:00+00')
"""
DETACH_DAY = "alter table djqueue_history detach partition djqueue_history_p{day:%Y%m%d} concurrently"
FINALIZE_DAY = "alter table djqueue_history detach partition djqueue_history_p{day:%Y%m%d} finalize"
DROP_DAY = "drop table if exists djqueue_history_p{day:%Y%m%d}"

# Old partitions; tables that a run before this one detached and could not drop; and, of whatever age, a detach that
# was cut short, because it forbids every other.
OLD_DAYS = """
select d.day::date, i.inhrelid is not null, coalesce(i.inhdetachpending, false), o.is_old
from generate_series(date '2020-01-01', (clock_timestamp() at time zone 'UTC')::date + 400, interval '1 day') d(day)
join pg_class c on c.relname = 'djqueue_history_p' || to_char(d.day, 'YYYYMMDD')
left join pg_inherits i on i.inhrelid = c.oid
cross join lateral (
    select d.day < (clock_timestamp() at time zone 'UTC')::date - greatest(%(keep)s::int, 1) as is_old) o
where c.relkind = 'r' and pg_table_is_visible(c.oid)
    and (i.inhparent is null or i.inhparent = to_regclass('djqueue_history')) and (o.is_old or i.inhdetachpending)
order by i.inhdetachpending desc nulls last, 1
"""

OVERFLOW_DAYS = """
select distinct (o.finished_at at time zone 'UTC')::date
from (select finished_at from djqueue_history_overflow limit 10000) o order by 1
"""
# Delete and insert in one statement: a reader of both tables sees each job once. Rows of a day that could not be
# attached stay where they are.
_COLUMNS = """id, finished_at, created_at, started_at, lease_token, attempts, interruptions, runs, priority, outcome,
    queue_name, task_name, tenant_id, dedupe_key, ordering_key, worker_ids, args, result, errors, options"""
MOVE_OVERFLOW = f"""
with batch as materialized (
    select o.ctid as t from djqueue_history_overflow o
    where exists (select from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = to_regclass('djqueue_history') and not i.inhdetachpending
        and c.relname = 'djqueue_history_p' || to_char(o.finished_at at time zone 'UTC', 'YYYYMMDD'))
    limit {BATCH} for update of o skip locked),
gone as (
    delete from djqueue_history_overflow o where o.ctid = any(array(select t from batch)) returning {_COLUMNS}),
kept as (
    insert into djqueue_history ({_COLUMNS}) select {_COLUMNS} from gone)
select count(*) from gone
"""

LOCK_TIMEOUT = "select current_setting('lock_timeout'), set_config('lock_timeout', '100ms', true)"
LOCK_TIMEOUT_BACK = "select set_config('lock_timeout', %(before)s, true)"


class _Day(NamedTuple):
    """A day's table: where it stands on its way out."""

    day: date
    attached: bool
    pending: bool
    old: bool


def ensure_partitions(alias: str, days_ahead: int = 14) -> int:
    """Make the missing partitions from yesterday to so many days ahead (UTC); return how many were made.

    Does nothing on other vendors, on a history that is missing or plain, and for a role that may not make tables. Safe
    when several do it at once, in autocommit and inside a transaction. Raises the database's error where the lock
    could not be had within a few seconds.
    """
    if connections[alias].vendor != "postgresql":
        return 0
    days = [day for (day,) in db.rows(alias, MISSING_DAYS, {"ahead": days_ahead})]
    if not days or not can_partition(alias):
        return 0
    return sum(_ensure_day(alias, day) for day in days)


def can_partition(alias: str) -> bool:
    """Tell whether history is partitioned and this role may make and drop partitions."""
    return bool(db.rows(alias, CAN_PARTITION)[0][0])


def drop_partitions(alias: str, keep_days: int) -> int:
    """Drop the partitions that lie more than so many days back (never yesterday's); return how many tables went.

    Not for use inside a transaction. Where a reader holds history open, it gives up within seconds, and the next call
    goes on from there: a detach that was cut short is finished, a detached table is dropped.
    """
    connections[alias].validate_no_atomic_block()
    if not can_partition(alias):
        return 0
    dropped = 0
    for found in _old_days(alias, keep_days):
        try:
            dropped += _remove(alias, found)
        except faults.ERRORS as error:
            if faults.sqlstate(error) not in (_LOCKED, _CANCELLED):
                raise
            return dropped
    return dropped


def drain_overflow(alias: str) -> int:
    """Move overflow rows into partitions, made where they are missing, in batches for about a second; return how many.

    Does nothing where partitions can't be made.
    """
    days = [day for (day,) in db.rows(alias, OVERFLOW_DAYS)]
    if not days or not can_partition(alias):
        return 0
    for day in days:
        _ensure_day(alias, day)
    moved, until = 0, time.monotonic() + MOVE_FOR_SECONDS
    while count := int(db.rows(alias, MOVE_OVERFLOW)[0][0]):
        moved += count
        if count < BATCH or time.monotonic() > until:
            break
    return moved


def _ensure_day(alias: str, day: date) -> int:
    try:
        return _patiently(lambda: _make_day(alias, day))
    except faults.ERRORS as error:
        if faults.sqlstate(error) == _OVERLAP:  # somebody's own, larger partition covers this day
            return 0
        raise


def _make_day(alias: str, day: date) -> int:
    with _briefly(alias):
        db.rows(alias, LOCK_HISTORY)
        if db.rows(alias, IS_ATTACHED, {"day": day})[0][0]:
            return 0
        db.rows(alias, CREATE_DAY.format(day=day))
        db.rows(alias, ATTACH_DAY.format(day=day, end=day + timedelta(days=1)))
        return 1


def _old_days(alias: str, keep_days: int) -> list[_Day]:
    return [_Day(*row) for row in db.rows(alias, OLD_DAYS, {"keep": keep_days})]


def _remove(alias: str, found: _Day) -> int:
    if found.pending:
        with _briefly(alias):
            db.rows(alias, FINALIZE_DAY.format(day=found.day))
    elif found.attached:
        with _no_longer_than(alias, DETACH_WITHIN_SECONDS):
            db.rows(alias, DETACH_DAY.format(day=found.day))
    if not found.old:
        return 0
    with _briefly(alias):
        db.rows(alias, DROP_DAY.format(day=found.day))
    return 1


def _patiently(action: Callable[[], T]) -> T:
    for _ in range(TRIES - 1):
        try:
            return action()
        except faults.ERRORS as error:
            if faults.sqlstate(error) != _LOCKED and not faults.should_repeat(error):
                raise
        time.sleep(random.uniform(0.01, 0.1))
    return action()


@contextmanager
def _briefly(alias: str) -> Iterator[None]:
    """One transaction that waits for no lock longer than 100 ms, and leaves an outer one's lock_timeout as it was."""
    with db.one_transaction(alias):
        before = db.rows(alias, LOCK_TIMEOUT)[0][0]
        yield
        db.rows(alias, LOCK_TIMEOUT_BACK, {"before": before})


@contextmanager
def _no_longer_than(alias: str, seconds: float) -> Iterator[None]:
    """Cancel what the connection does after so many seconds. DETACH CONCURRENTLY runs outside a transaction, where a
    lock_timeout could only be set for the session, and behind a pooler that is somebody else's next."""
    connection: Any = connections[alias]
    connection.ensure_connection()
    timer = threading.Timer(seconds, connection.connection.cancel_safe)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
