"""What many tests need: waiting for a condition, and the address of the database in use."""

import time
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import quote

import psycopg
from django.db import connections

T = TypeVar("T")

LOOK_AGAIN_SECONDS = 0.01


def eventually(condition: Callable[[], T], within: float = 5.0, message: str | Callable[[], str] = "") -> T:
    """Return the first true value of `condition`; fail when there is none within so many seconds.

    This is the only place in the tests that sleeps.
    """
    deadline = time.monotonic() + within
    while not (value := condition()):
        if time.monotonic() > deadline:
            said = message() if callable(message) else message
            raise AssertionError(f"Not true within {within} s (last value: {value!r}). {said}".rstrip())
        time.sleep(LOOK_AGAIN_SECONDS)
    return value


def database_url(alias: str = "default") -> str:
    """Return the address of the database that a Django alias uses at this moment."""
    found = connections[alias].settings_dict
    password = f":{quote(str(found['PASSWORD']), safe='')}" if found["PASSWORD"] else ""
    port = f":{found['PORT']}" if found["PORT"] else ""
    return f"postgres://{quote(str(found['USER']))}{password}@{found['HOST']}{port}/{quote(str(found['NAME']))}"


BLOCKED = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
"""A row for each session of this database that waits for another one's lock."""


def raw_connection(alias: str = "default") -> psycopg.Connection:
    """Open a session of one's own in that database, in autocommit: the second party of a race."""
    return psycopg.connect(database_url(alias), autocommit=True)
