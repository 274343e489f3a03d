"""A pytest plugin that gives the session a PostgreSQL server before Django's settings are read.

pytest-django reads the settings before any conftest is imported, so a conftest would come too late: this plugin is
named with -p in pyproject.toml. A DATABASE_URL that is set already (by a developer, or by the xdist controller for its
workers) is used as it is.
"""

import os
from collections.abc import Generator

import pytest

from testproject.embedded import EmbeddedServer

_servers: list[EmbeddedServer] = []


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests() -> Generator[None, object, object]:
    """Start the server and export DATABASE_URL, unless there is one."""
    if not os.environ.get("DATABASE_URL"):
        server = EmbeddedServer().start()
        _servers.append(server)
        os.environ["DATABASE_URL"] = server.url
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Stop the server that this process started; pytest-django has dropped its databases by then."""
    while _servers:
        _servers.pop().stop()
        del os.environ["DATABASE_URL"]
