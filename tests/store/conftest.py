"""Where the store's tests run: inside a transaction that is rolled back, or in a database of their own for races."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.db import connections

from djqueue.store import db as road
from tests.helpers import raw_connection
from tests.live import LiveDatabase
from tests.store.factories import ALIAS, PARTITION_FOR_ALL, Party, parties


@pytest.fixture(params=["django", "adopted"])
def store(request: pytest.FixtureRequest, db: None) -> Iterator[str]:
    """The test's transaction, through Django's cursor and through an adopted connection."""
    with way_of(request.param):
        yield request.param


@pytest.fixture
def committed(live_database: LiveDatabase) -> Iterator[None]:
    """A database of the test's own, in which everything commits."""
    with way_of("django"):
        yield


@pytest.fixture
def adopted(live_database: LiveDatabase) -> Iterator[None]:
    """The same on an adopted connection: prepared statements, pipelines."""
    with way_of("adopted"):
        yield
    road.drop(ALIAS)


@pytest.fixture
def other(live_database: LiveDatabase) -> Iterator[Party]:
    """A second party in the test's own database."""
    with parties(1) as [party]:
        yield party


@pytest.fixture
def listener(committed: None) -> Iterator[psycopg.Connection]:
    """A session that listens as workers do; see `told`."""
    with raw_connection() as session:
        session.execute("listen djqueue")
        yield session


@contextmanager
def way_of(kind: str) -> Iterator[None]:
    """Make history ready and reach the database in this way until the end."""
    connection = connections[ALIAS]
    with connection.cursor() as cursor:
        cursor.execute(PARTITION_FOR_ALL)
    if kind == "adopted":
        road.adopt(ALIAS, prepared=True)
    yield
    setattr(connection, road._ADOPTED, False)
