"""A browser that looks at the admin as it is served, beside real workers.

These tests run only when they are named: `pytest tests/browser` or `-m browser`. They need Debian's chromium, the
Python package playwright, and npm, which fetches axe-core into a folder of the session's own. What is missing fails
loudly.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client

from tests.browser.looking import Looker
from tests.conftest import StartSupervisor
from tests.helpers import eventually
from tests.live import LiveDatabase
from tests.runtime.trial import Trial

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
AXE = "axe-core@4"
Look = Callable[..., Looker]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave this folder out of runs that do not name it."""
    named = any("browser" in str(arg) for arg in config.invocation_params.args)
    return None if named or config.option.markexpr == "browser" else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what stands here."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


def chromium() -> str:
    """The browser's program."""
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        pytest.fail("No chromium on PATH; install it: apt-get install --no-install-recommends chromium")
    return found


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core."""
    folder = tmp_path_factory.mktemp("axe")
    if shutil.which("npm") is None:
        pytest.fail("No npm on PATH; it fetches axe-core, which looks for faults of accessibility")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), AXE]
    subprocess.run(command, check=True, timeout=120)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def site(live_database: LiveDatabase, start_supervisor: StartSupervisor) -> str:
    """The address of the shop, served by a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    start_supervisor(address, "--noreload", "--insecure", "--skip-checks", command="runserver")
    eventually(lambda: is_open(address), within=30, message=f"nothing answers at {address}")
    return f"http://{address}"


def is_open(address: str) -> bool:
    """Tell whether somebody listens."""
    host, _, port = address.partition(":")
    with socket.socket() as one:
        return one.connect_ex((host, int(port))) == 0


@pytest.fixture
def trial(live_database: LiveDatabase, start_supervisor: StartSupervisor, tmp_path: Path) -> Trial:
    """The stage of the runtime's tests: real workers, and handlers that wait for files."""
    return Trial(folder=tmp_path, start_supervisor=start_supervisor)


@pytest.fixture
def look(site: str, axe: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Look]:
    """Open the admin as a superuser: `look()`, `look(scheme="dark")`, `look(width=390)`."""
    from playwright.sync_api import sync_playwright

    # Playwright has an event loop in this thread, in which nothing of Django's ever waits.
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    user, client = User.objects.create_superuser("ada", "ada@example.com", "ada"), Client()
    client.force_login(user)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium(), args=arguments)
        lookers: list[Looker] = []

        def open_(scheme: str = "light", width: int = 1360, zone: str = "UTC", scripts: bool = True) -> Looker:
            context = browser.new_context(
                color_scheme=scheme,
                viewport={"width": width, "height": 860},
                timezone_id=zone,
                java_script_enabled=scripts,
            )
            context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": site}])
            lookers.append(Looker(context.new_page(), site, axe))
            return lookers[-1]

        yield open_
        said = [line for looker in lookers for line in looker.said]
        browser.close()
        connections.close_all()  # beside an event loop they are others than before and after it
    assert said == []
