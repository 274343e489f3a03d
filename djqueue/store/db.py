"""How a statement reaches the database: always through the calling thread's own Django connection.

Callers name an alias and nothing else. In a request or a handler a statement takes part in the open transaction and is
seen by Django's instrumentation. A bookkeeping thread of the runtime `adopt`s its connection first: then statements are
bound by the server and prepared, and a transaction can be sent as one pipeline.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import psycopg
from django.db import connections, transaction

from djqueue.store import faults

Row = tuple[Any, ...]
Params = Mapping[str, Any] | Sequence[Any]

_ADOPTED = "_djqueue_adopted"


def rows(alias: str, sql: str, params: Params = ()) -> list[Row]:
    """Run one statement and return its rows (an empty list where it has none)."""
    connection: Any = connections[alias]
    if getattr(connection, _ADOPTED, False):
        return fetch(execute(alias, sql, params))
    with connection.cursor() as cursor:
        cursor.execute(sql, params or None)
        return cursor.fetchall() if cursor.description else []


def rows_prepared(alias: str, sql: str, params: Params) -> list[Row]:
    """Run one statement that comes again and again, prepared on the server: half the time of sending it as text.

    Where somebody watches Django's queries (a debug log, execute wrappers), it goes through Django's own cursor.
    """
    connection: Any = connections[alias]
    if getattr(connection, _ADOPTED, False) or connection.queries_logged or connection.execute_wrappers:
        return rows(alias, sql, params)
    connection.ensure_connection()
    connection.validate_thread_sharing()
    connection.validate_no_broken_transaction()
    raw: psycopg.Connection[Any] = connection.connection
    threshold = raw.prepare_threshold
    with connection.wrap_database_errors:
        try:
            raw.prepare_threshold = 0
            return fetch(psycopg.Cursor(raw).execute(sql, params or None))
        finally:
            raw.prepare_threshold = threshold


def rows_or_overflow(alias: str, sql: str, overflow_sql: str, params: Params) -> list[Row]:
    """Run a statement that writes history; where the day has no partition, run the other one in its place, whatever
    transaction is open."""
    try:
        with one_transaction(alias) if _in_transaction(alias) else nullcontext():
            return rows(alias, sql, params)
    except faults.ERRORS as error:
        if not faults.is_missing_partition(error):
            raise
    return rows(alias, overflow_sql, params)


# Only for the transaction: behind a pooler the session is somebody else's a moment later. A plan for whatever values
# is estimated so high that the server would compile it, where it can: seconds each time, for milliseconds of work.
GENERIC_PLANS = "select set_config('plan_cache_mode', 'force_generic_plan', true), set_config('jit', 'off', true)"


def rows_by_generic_plan(alias: str, sql: str, params: Params) -> list[Row]:
    """Run one large statement by its prepared plan for whatever values: to plan it takes longer than to run it. In a
    transaction of its own where none is open; one round trip."""
    connection: Any = connections[alias]
    if not getattr(connection, _ADOPTED, False):
        return rows(alias, sql, params)
    raw = _raw(alias)
    with raw.pipeline(), nullcontext() if _in_transaction(alias) else raw.transaction():
        raw.execute(GENERIC_PLANS)
        cursor = execute(alias, sql, params)
    return fetch(cursor)


def rows_apart(alias: str, sql: str, params: Params) -> list[Row]:
    """Run one statement on a connection of its own, which is closed again: for what must not be rolled back with the
    transaction that is open here. It may be called in a running event loop."""
    given = connections[alias].get_connection_params()
    given.pop("pool", None)
    with psycopg.connect(**given, autocommit=True) as connection:
        return fetch(psycopg.Cursor(connection).execute(sql, params or None))


def adopt(alias: str, *, prepared: bool) -> psycopg.Connection[Any]:
    """Make the thread's connection to `alias` a bookkeeping connection and return it, connecting if need be."""
    connection: Any = connections[alias]
    unpool(connection)
    if connection.connection is not None and not connection.in_atomic_block and not connection.is_usable():
        connection.close()
    connection.ensure_connection()
    setattr(connection, _ADOPTED, True)
    raw: psycopg.Connection[Any] = connection.connection
    raw.prepare_threshold = 0 if prepared else None
    return raw


def unpool(connection: Any) -> None:
    """Let a bookkeeping connection be one of its own: it would never go back to the pool that handlers share."""
    options = connection.settings_dict["OPTIONS"]
    if options.get("pool"):
        connection.close()
        own = {name: value for name, value in options.items() if name != "pool"}
        connection.settings_dict = {**connection.settings_dict, "OPTIONS": own}


def drop(alias: str) -> None:
    """Close the thread's connection to `alias`, however broken it is; a bookkeeping thread adopts the next one."""
    connection: Any = connections[alias]
    setattr(connection, _ADOPTED, False)
    connection.needs_rollback = False
    connection.in_atomic_block = False
    connection.savepoint_ids = []
    connection.closed_in_transaction = False
    try:
        connection.close()
    except Exception:
        connection.connection = None


def execute(alias: str, sql: str, params: Params = ()) -> psycopg.Cursor[Row]:
    """Start one statement on an adopted connection; in a pipeline its result is read later with `fetch`."""
    cursor: psycopg.Cursor[Row] = psycopg.Cursor(_raw(alias))
    return cursor.execute(sql, params or None)


def fetch(cursor: psycopg.Cursor[Row]) -> list[Row]:
    """Return all rows of a statement (an empty list where it has none)."""
    return cursor.fetchall() if cursor.description else []


@contextmanager
def together(alias: str, once_sent: Callable[[], None] = lambda: None) -> Iterator[None]:
    """One transaction. On an adopted connection it is one pipeline as well: statements inside it are sent without
    waiting for each other, and their results may only be read after the block. `once_sent` is called when all is on its
    way and nothing has been waited for yet."""
    connection: Any = connections[alias]
    if not getattr(connection, _ADOPTED, False):
        with transaction.atomic(using=alias):
            yield
        return
    raw = _raw(alias)
    with raw.pipeline():
        with raw.transaction():
            yield
        once_sent()


@contextmanager
def one_transaction(alias: str) -> Iterator[None]:
    """One transaction whose statements may use each other's results."""
    connection: Any = connections[alias]
    if getattr(connection, _ADOPTED, False):
        with _raw(alias).transaction():
            yield
    else:
        with transaction.atomic(using=alias):
            yield


def _in_transaction(alias: str) -> bool:
    connection: Any = connections[alias]
    raw: psycopg.Connection[Any] | None = connection.connection
    if raw is None or connection.in_atomic_block or not raw.autocommit:
        return raw is not None
    return raw.info.transaction_status != psycopg.pq.TransactionStatus.IDLE


def _raw(alias: str) -> psycopg.Connection[Any]:
    raw: psycopg.Connection[Any] | None = connections[alias].connection
    if raw is None:
        raise psycopg.OperationalError(f"the connection to {alias!r} was closed: adopt it again")
    return raw
