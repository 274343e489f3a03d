"""How the shop starts: settings that start nothing, and a manage.py that does."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import ROOT

SHOW_DATABASE = (
    "from django.db import connection; print(connection.settings_dict['NAME'], connection.settings_dict['PORT'])"
)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A temporary folder that every user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="shop-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a Python command without a DATABASE_URL."""
    env = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"} | environment
    return subprocess.run([sys.executable, *command], cwd=ROOT, env=env, capture_output=True, text=True)


def test_settings_without_a_database_name_the_command_that_starts_one() -> None:
    done = run("-c", "import testproject.settings")

    assert done.returncode == 1
    assert "ImproperlyConfigured: DATABASE_URL is not set" in done.stderr
    assert "python manage.py" in done.stderr


def test_manage_py_starts_a_server_in_the_folder_it_is_told_and_stops_it(open_folder: Path) -> None:
    done = run("manage.py", "shell", "-c", SHOW_DATABASE, DJQUEUE_POSTGRES_DATA=str(open_folder / "data"))

    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-2] == "shop"
    assert (open_folder / "data" / "PG_VERSION").exists()
    assert not (open_folder / "data" / "postmaster.pid").exists()


def test_manage_py_uses_the_database_that_the_environment_names(open_folder: Path) -> None:
    url = "postgres://somebody@127.0.0.1:9/elsewhere"

    done = run("manage.py", "shell", "-c", SHOW_DATABASE, DATABASE_URL=url, DJQUEUE_POSTGRES_DATA=str(open_folder))

    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-2:] == ["elsewhere", "9"]
    assert list(open_folder.iterdir()) == []


def test_manage_py_says_in_one_line_why_the_server_does_not_start(tmp_path: Path) -> None:
    done = run("manage.py", "check", DJQUEUE_POSTGRES_DATA="temporary", DJQUEUE_POSTGRES_BIN=str(tmp_path))

    assert done.returncode == 1
    assert done.stderr.startswith("BinariesNotFound: Expected a folder with initdb and postgres")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("0", False)])
def test_debug_is_switched_by_the_environment(value: str, expected: bool) -> None:
    script = "from testproject import settings; print(settings.DEBUG)"

    done = run("-c", script, DATABASE_URL="postgres://a@b/c", DJANGO_DEBUG=value)

    assert done.stdout.strip() == str(expected)
