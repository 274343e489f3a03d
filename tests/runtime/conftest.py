"""The stage of the runtime's tests."""

from pathlib import Path

import pytest

from tests.conftest import StartSupervisor
from tests.live import LiveDatabase
from tests.runtime.trial import Trial


@pytest.fixture
def trial(live_database: LiveDatabase, start_supervisor: StartSupervisor, tmp_path: Path) -> Trial:
    """A live database, supervisors and a ledger."""
    return Trial(folder=tmp_path, start_supervisor=start_supervisor)
