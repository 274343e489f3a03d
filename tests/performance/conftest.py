"""Databases of the tests' own with real commits, and workers on them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from tests.conftest import StartSupervisor
from tests.live import LiveDatabase
from tests.runtime.trial import Trial
from tests.store.factories import PARTITION_FOR_ALL


@pytest.fixture
def committed(live_database: LiveDatabase) -> Iterator[None]:
    """A database in which everything commits."""
    with connection.cursor() as cursor:
        cursor.execute(PARTITION_FOR_ALL)
    yield


@pytest.fixture
def trial(committed: None, start_supervisor: StartSupervisor, tmp_path: Path) -> Trial:
    """The same with supervisors and a ledger."""
    return Trial(folder=tmp_path, start_supervisor=start_supervisor)
