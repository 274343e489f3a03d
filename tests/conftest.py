"""Fixtures that every test may use. The session's server is started by `tests.server_plugin`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_django.plugin import DjangoDbBlocker

from djqueue import pytest_plugin
from testproject.embedded import EmbeddedServer
from tests.live import LiveDatabase, Template, live_copy, started_server
from tests.processes import Supervisor

StartSupervisor = Callable[..., Supervisor]


def pytest_configure(config: pytest.Config) -> None:
    """Where djqueue is not installed, pytest does not find its plugin by itself."""
    if not config.pluginmanager.is_registered(pytest_plugin):
        config.pluginmanager.register(pytest_plugin)


@pytest.fixture(scope="session")
def live_template(django_db_blocker: DjangoDbBlocker, worker_id_or_main: str) -> Iterator[Template]:
    """A migrated, empty database, once per session and xdist worker; never connected to after that."""
    with django_db_blocker.unblock(), Template.made(f"live_{worker_id_or_main}") as template:
        yield template


@pytest.fixture(scope="session")
def worker_id_or_main(request: pytest.FixtureRequest) -> str:
    """The xdist worker's name, `main` without xdist."""
    return str(getattr(request.config, "workerinput", {}).get("workerid", "main"))


@pytest.fixture
def live_database(
    request: pytest.FixtureRequest, live_template: Template, django_db_blocker: DjangoDbBlocker
) -> Iterator[LiveDatabase]:
    """A migrated database of the test's own, with real commits, which other processes can work on.

    Django's default connection and DATABASE_URL point at it while the test runs. Not together with `django_db`.
    """
    refuse_django_db(request)
    with django_db_blocker.unblock(), live_copy(live_template) as database:
        yield database


@pytest.fixture
def own_server(request: pytest.FixtureRequest, django_db_blocker: DjangoDbBlocker) -> Iterator[EmbeddedServer]:
    """A server of the test's own, migrated, to be restarted or crashed; otherwise like `live_database`."""
    refuse_django_db(request)
    with django_db_blocker.unblock(), started_server() as server:
        yield server


@pytest.fixture
def start_supervisor(tmp_path: Path) -> Iterator[StartSupervisor]:
    """Start worker processes with `start_supervisor("--processes", "1", env=…)`; all are killed after the test."""
    started: list[Supervisor] = []

    def start(*args: str, **options: object) -> Supervisor:
        supervisor = Supervisor.start(*args, folder=tmp_path, **options)  # type: ignore[arg-type]
        started.append(supervisor)
        return supervisor

    yield start
    for supervisor in started:
        supervisor.kill_tree()


def refuse_django_db(request: pytest.FixtureRequest) -> None:
    """Fail where a test asks for two databases behind one alias."""
    if request.node.get_closest_marker("django_db") or {"db", "transactional_db"} & set(request.fixturenames):
        pytest.fail("live_database and own_server replace django_db: remove the mark or the db fixture.")
