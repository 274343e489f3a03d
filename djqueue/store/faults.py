"""What a database error means, decided by SQLSTATE and by the state of the connection, never by the exception's class
(a value that is too large raises OperationalError too)."""

from typing import Any

import psycopg
from django.db import Error, connections

ERRORS = (Error, psycopg.Error)
"""What a statement may raise: Django's errors, and psycopg's own on adopted connections."""

RETRY = {"40001", "40P01"}
"""Serialization failure and deadlock: run the transaction again."""

# 25006: the primary became a standby under an open connection; the next connection finds the new primary.
_LOST = {"57P01", "57P02", "57P03", "57P05", "25P03", "25P02", "25006"}


def sqlstate(error: BaseException) -> str:
    """Return the SQLSTATE of an error of psycopg or Django, or an empty string."""
    seen: BaseException | None = error
    while seen is not None:
        state = getattr(seen, "sqlstate", None)
        if state:
            return str(state)
        seen = seen.__cause__
    return ""


def should_repeat(error: BaseException) -> bool:
    """Tell whether the same transaction may simply be run again at once."""
    return sqlstate(error) in RETRY


def is_missing_partition(error: BaseException) -> bool:
    """Tell whether history has no partition for a row's day; the overflow table takes it."""
    return sqlstate(error) == "23514"


def is_missing_table(error: BaseException) -> bool:
    """Tell whether a table of djqueue's is not there: nobody has run `migrate`."""
    return sqlstate(error) == "42P01" and "djqueue_" in str(error)


def is_about_content(alias: str, error: BaseException) -> bool:
    """Tell whether the statement was refused for what it carried, so that repeating it is of no use: data exceptions,
    violated constraints, limits of the server, and values that psycopg itself can't send."""
    if connection_is_lost(alias, error) or is_missing_partition(error):
        return False
    state = sqlstate(error)
    return state[:2] in ("22", "23", "54") or (not state and not isinstance(error, OSError))


def connection_is_lost(alias: str, error: BaseException) -> bool:
    """Tell whether the thread's connection to `alias` is of no use any more."""
    raw: Any = connections[alias].connection
    if raw is None or raw.closed or raw.broken:
        return True
    state = sqlstate(error)
    return state in _LOST or state.startswith("08")


def words(error: BaseException) -> str:
    """Return the first line of an error with its SQLSTATE, for a log line."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    state = sqlstate(error)
    return f"{first} [{state}]" if state else first
