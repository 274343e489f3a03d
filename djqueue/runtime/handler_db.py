"""The database connections that handlers use: checked before each job, put back in order after it.

Invariant: whatever a handler did to its connections, the next job on the same thread finds them as if just opened, and
none is left idle in a transaction. A connection that differs in any way from what it was right after connecting is
closed; nothing is set back by guesswork (RESET ALL and DISCARD ALL would lose what Django itself has set). Where Django
pools connections, they go back to the pool after each job, and none that differs.
"""

import logging
import select
import threading
from typing import Any

from django.db import connections
from django.db.backends.signals import connection_created

log = logging.getLogger("djqueue")

_BASELINE = "_djqueue_baseline"
_IDLE = 0
"""libpq's transaction status of a connection outside a transaction."""

# What a handler can change for the session, and what it can leave behind.
STATE = """
select pg_advisory_unlock_all()::text, current_setting('role'), session_user::text, current_setting('search_path'),
    current_setting('TimeZone'), current_setting('statement_timeout'), current_setting('lock_timeout'),
    current_setting('idle_in_transaction_session_timeout'), current_setting('default_transaction_isolation'),
    current_setting('default_transaction_read_only'), current_setting('default_transaction_deferrable'),
    current_setting('synchronous_commit'), current_setting('client_encoding'), current_setting('DateStyle'),
    current_setting('IntervalStyle'), current_setting('bytea_output'), current_setting('row_security'),
    current_setting('session_replication_role'), current_setting('work_mem'), current_setting('client_min_messages'),
    (select count(*) from pg_cursors), (select count(*) from pg_listening_channels())
"""


class _Opened(threading.local):
    """The connections that this thread has opened; most jobs open none, and then there is nothing to look at."""

    def __init__(self) -> None:
        self.wrappers: dict[str, Any] = {}


_opened = _Opened()


def watch_new_connections() -> None:
    """Note every connection that is opened, and its state; call once per process that runs handlers."""
    connection_created.connect(_note, dispatch_uid="djqueue_baseline")


def check_before() -> None:
    """Close connections that are too old or that the server has closed meanwhile."""
    for connection in _opened.wrappers.values():
        raw = connection.connection
        if raw is not None:
            connection.close_if_unusable_or_obsolete()
            if connection.connection is not None and connection.vendor == "postgresql" and _has_news(raw):
                connection.close()


def reset_after() -> str:
    """Put all connections of this thread in order; return what the handler did wrong, or an empty string."""
    fault = ""
    for connection in _opened.wrappers.values():
        fault = _reset(connection) or fault
    return fault


def open_transaction(connection: Any) -> str:
    """Say that the handler has left a transaction open on this connection, or nothing."""
    if not (connection.in_atomic_block or connection.savepoint_ids or _is_in_transaction(connection)):
        return ""
    return f"the handler left a transaction open on {connection.alias!r}; it was rolled back: end it in the handler"


def close_all() -> None:
    """Close all connections of this thread."""
    for connection in connections.all(initialized_only=True):
        _discard(connection)


def _reset(connection: Any) -> str:
    if connection.connection is None and not connection.in_atomic_block:
        return ""
    connection.queries_log.clear()
    fault = open_transaction(connection)
    if fault or not connection.get_autocommit() or not _is_as_new(connection):
        _discard(connection)
    elif _is_pooled(connection):
        connection.close()
    return fault


def _is_in_transaction(connection: Any) -> bool:
    raw = connection.connection
    if raw is None:
        return False
    if connection.vendor == "postgresql":
        return not raw.closed and raw.pgconn.transaction_status != _IDLE
    return bool(getattr(raw, "in_transaction", False))


def _is_pooled(connection: Any) -> bool:
    return bool(connection.settings_dict["OPTIONS"].get("pool")) and connection.vendor == "postgresql"


def _is_as_new(connection: Any) -> bool:
    if connection.vendor != "postgresql":
        return True
    try:
        return _state(connection.connection) == getattr(connection.connection, _BASELINE, None)
    except Exception:
        return False


def _discard(connection: Any) -> None:
    """Close what is open, whatever state it is in; a pool gets it back closed, and opens another in its place."""
    connection.needs_rollback = False
    connection.in_atomic_block = False
    connection.savepoint_ids = []
    connection.atomic_blocks = []
    connection.run_on_commit = []
    connection.closed_in_transaction = False
    connection.autocommit = False
    try:
        if connection.connection is not None and _is_pooled(connection):
            connection.connection.close()
        connection.close()
    except Exception:
        log.debug("a handler's connection could not be closed alias=%s", connection.alias)
    connection.connection = None


def _note(sender: object, connection: Any, **kwargs: object) -> None:
    """A raw connection that comes from a pool again keeps the baseline of its first time."""
    raw = connection.connection
    if getattr(connection, "_djqueue_adopted", False):
        return
    if connection.vendor == "postgresql" and not hasattr(raw, _BASELINE):
        setattr(raw, _BASELINE, _state(raw))
    if connections[connection.alias] is connection:
        _opened.wrappers[connection.alias] = connection


def _state(raw: Any) -> tuple[Any, ...]:
    with raw.cursor() as cursor:
        found: tuple[Any, ...] = cursor.execute(STATE).fetchone()
    return found


def _has_news(raw: Any) -> bool:
    """Tell whether something has arrived on an idle connection: the server's farewell, or its end."""
    try:
        poll = select.poll()
        poll.register(raw.fileno(), select.POLLIN)
        return bool(poll.poll(0))
    except Exception:
        return True
