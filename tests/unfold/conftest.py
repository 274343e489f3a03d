"""Leave this folder out of runs with other settings."""

from pathlib import Path

import pytest
from django.apps import apps

from tests.admin.conftest import login, tables

__all__ = ["login", "tables"]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Only where django-unfold is installed in the project."""
    return None if apps.ready and apps.is_installed("unfold") else True


@pytest.fixture(autouse=True)
def unfold_is_there() -> None:
    """Fail loudly where the settings are not those of this folder."""
    assert apps.is_installed("unfold"), "run with --ds tests.unfold.settings"
