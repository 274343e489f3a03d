"""The database's clock, moved or frozen for a test: the only clock that djqueue knows.

    search_path = djqueue_test_clock, pg_catalog, …      so that clock_timestamp() of this session is the test's

Functions of that name in a schema of their own stand before PostgreSQL's while the block lasts; in a TestCase they are
part of its transaction. Invariant: this session alone is concerned; other connections, other processes and Python's
clock go on as before, and after the block everything is as it was.
"""

from datetime import datetime, timedelta
from typing import Any

import psycopg
from asgiref.sync import sync_to_async
from django.db import connections
from django.utils import timezone

from djqueue.compat import DEFAULT_TASK_BACKEND_ALIAS
from djqueue.store import db
from djqueue.testing.backends import djqueue_backend

_NOW = """as $$ select coalesce(nullif(current_setting('djqueue_test.frozen', true), '')::timestamptz,
    pg_catalog.clock_timestamp()) + make_interval(secs =>
    coalesce(nullif(current_setting('djqueue_test.ahead', true), ''), '0')::float8) $$"""
MAKE = f"""
create schema if not exists djqueue_test_clock;
create or replace function djqueue_test_clock.clock_timestamp() returns timestamptz language sql volatile {_NOW};
create or replace function djqueue_test_clock.statement_timestamp() returns timestamptz language sql stable {_NOW};
create or replace function djqueue_test_clock.transaction_timestamp() returns timestamptz language sql stable {_NOW};
create or replace function djqueue_test_clock.now() returns timestamptz language sql stable {_NOW}
"""
UNMAKE = "drop schema if exists djqueue_test_clock cascade"
READ = """
select current_setting('search_path'), coalesce(current_setting('djqueue_test.frozen', true), ''),
    coalesce(current_setting('djqueue_test.ahead', true), '')
"""
# In a transaction until its end, so that nothing outlives a TestCase whatever happens.
WRITE = """
select set_config('search_path', %(path)s, %(local)s), set_config('djqueue_test.frozen', %(frozen)s, %(local)s),
    set_config('djqueue_test.ahead', %(ahead)s, %(local)s)
"""
NOW = "select clock_timestamp()"
REAL = "select pg_catalog.clock_timestamp()"
MARK = "djqueue_test_clock, pg_catalog"


class Clock:
    """The clock of one session while a block of `travel` or `freeze` lasts."""

    def __init__(self, alias: str) -> None:
        self._alias = alias

    @property
    def now(self) -> datetime:
        """What the database takes for now."""
        moment: datetime = db.rows(self._alias, NOW)[0][0]
        return moment

    def move(self, by: timedelta) -> None:
        """Move it on, or back. A clock that stands still does so at the new moment."""
        path, frozen, ahead = db.rows(self._alias, READ)[0]
        _write(self._alias, path, frozen, str(float(ahead or 0) + by.total_seconds()))

    async def amove(self, by: timedelta) -> None:
        """Move it on, or back; see `move`."""
        await sync_to_async(self.move, thread_sensitive=True)(by)


class Moved:
    """A block, sync or async, in which the clock is another one; `to` None: it stands still as it is at the start."""

    def __init__(self, who: str, backend: str, to: timedelta | datetime | None, *, stands: bool) -> None:
        self._who = who
        self._backend = backend
        self._to = to
        self._stands = stands

    def __enter__(self) -> Clock:
        self._alias = djqueue_backend(self._backend, self._who).alias_of_database
        self._before = db.rows(self._alias, READ)[0]
        path, frozen, ahead = self._before
        if MARK not in path:
            db.rows(self._alias, MAKE)
            path = f"{MARK}, {path}" if path else MARK
        clock = Clock(self._alias)
        if self._stands:
            frozen, ahead = (clock.now if self._to is None else self._to).isoformat(), "0"  # type: ignore[union-attr]
        elif isinstance(self._to, datetime):
            frozen, ahead = "", str((self._to - db.rows(self._alias, REAL)[0][0]).total_seconds())
        elif self._to is not None:
            ahead = str(float(ahead or 0) + self._to.total_seconds())
        _write(self._alias, path, frozen, ahead)
        return clock

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if _is_broken(self._alias):
            return  # its rollback takes all of this back
        path, frozen, ahead = self._before
        is_lost = MARK not in db.rows(self._alias, READ)[0][0]
        _write(self._alias, path, frozen, ahead)
        if MARK not in path:
            db.rows(self._alias, UNMAKE)
        if is_lost and kind is None:
            raise RuntimeError(
                f"{self._who}: expected the connection to {self._alias!r} to stay open and keep its search_path within "
                "the block, but it did not: what came after that has run by the real clock"
            )

    async def __aenter__(self) -> Clock:
        return await sync_to_async(self.__enter__, thread_sensitive=True)()

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        await sync_to_async(self.__exit__, thread_sensitive=True)(kind, error, trace)


def travel(to: timedelta | datetime, *, backend: str = DEFAULT_TASK_BACKEND_ALIAS) -> Moved:
    """Let the database's clock be ahead by a timedelta, or go on from a moment, in a `with` or `async with` block.

    Blocks may stand within one another; a timedelta adds to what is in force.
    """
    if not isinstance(to, timedelta):
        _check(to, "travel")
    return Moved("travel", backend, to, stands=False)


def freeze(at: datetime | None = None, *, backend: str = DEFAULT_TASK_BACKEND_ALIAS) -> Moved:
    """Let the database's clock stand still in a `with` or `async with` block, at a moment or as it is now; the block's
    `clock.move(…)` moves it on."""
    if at is not None:
        _check(at, "freeze")
    return Moved("freeze", backend, at, stands=True)


def _write(alias: str, path: str, frozen: str, ahead: str) -> None:
    local = connections[alias].in_atomic_block
    db.rows(alias, WRITE, {"path": path, "frozen": frozen, "ahead": ahead, "local": local})


def _is_broken(alias: str) -> bool:
    """Tell whether the open transaction can do nothing any more but be rolled back."""
    connection: Any = connections[alias]
    if connection.needs_rollback:
        return True
    raw: psycopg.Connection[Any] | None = connection.connection
    return raw is not None and raw.info.transaction_status is psycopg.pq.TransactionStatus.INERROR


def _check(moment: object, who: str) -> None:
    expected = "a moment with a time zone" if who == "freeze" else "a timedelta or a moment with a time zone"
    if not isinstance(moment, datetime):
        raise TypeError(f"{who}: expected {expected}, got {moment!r}")
    if timezone.is_naive(moment):
        raise ValueError(f"{who}: expected {expected}, got one without: {moment!r}")
