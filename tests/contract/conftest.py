"""Where the contract's tests run."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from django.db import connections

from tests.live import LiveDatabase


@pytest.fixture
def committed(live_database: LiveDatabase) -> None:
    """A database of the test's own, in which everything commits and no transaction is open."""


@pytest.fixture
def sqlite() -> Iterator[str]:
    """A second alias, `other`, on SQLite, in memory."""
    connections.settings["other"] = {
        **connections.settings["default"],
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ":memory:",
        "OPTIONS": {},
    }
    yield "other"
    connections["other"].close()
    del connections["other"]
    del connections.settings["other"]


@pytest_asyncio.fixture
async def no_connection_left() -> AsyncIterator[None]:
    """An async test has its connections in a thread of its own, where nobody closes them."""
    yield
    await sync_to_async(connections.close_all, thread_sensitive=True)()
