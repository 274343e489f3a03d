"""R26: djqueue in users' tests: every kind of test case, without migrations, with a kept database, in parallel, and
beside a database that is not PostgreSQL."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from tests.live import with_name
from tests.processes import ROOT

SAMPLES = "tests/contract/samples/users_tests.py"
PYTEST = 18
"""How many tests the samples are; Django's own runner does not see those that are plain functions."""
UNITTEST = 13


@pytest.fixture
def database() -> Iterator[str]:
    """The address of a database that is not there; what the tests make of its name is dropped at the end."""
    name = f"users_{uuid4().hex[:8]}"
    yield with_name(os.environ["DATABASE_URL"], name)
    with psycopg.connect(with_name(os.environ["DATABASE_URL"], "postgres"), autocommit=True) as session:
        for made in [f"test_{name}", f"test_{name}_1", f"test_{name}_2"]:
            session.execute(f'drop database if exists "{made}" with (force)')  # type: ignore[arg-type]


def run(database: str, *command: str) -> str:
    """Run a test command as a user; return what it said."""
    env = {**os.environ, "DATABASE_URL": database, "OTHER_DATABASE_URL": "sqlite://:memory:"}
    done = subprocess.run([sys.executable, *command], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def passed(output: str) -> int:
    """How many tests pytest says have passed; nothing else may stand beside them."""
    found = re.search(r"^(\d+) passed in", output, re.MULTILINE)
    assert found, output
    return int(found[1])


def test_r26_users_tests_pass_beside_a_sqlite_database(database: str) -> None:
    assert passed(run(database, "-m", "pytest", SAMPLES)) == PYTEST


def test_r26_users_tests_pass_without_migrations(database: str) -> None:
    assert passed(run(database, "-m", "pytest", SAMPLES, "--nomigrations")) == PYTEST


def test_r26_users_tests_pass_again_in_a_kept_database(database: str) -> None:
    for _ in range(2):
        assert passed(run(database, "-m", "pytest", SAMPLES, "--reuse-db")) == PYTEST


def test_r26_users_tests_pass_in_parallel_under_djangos_runner(database: str) -> None:
    command = ["-m", "django", "test", "--parallel", "2", "--pattern", "users_tests.py", "tests.contract.samples"]

    said = run(database, *command, "--settings", "testproject.settings")

    assert f"Ran {UNITTEST} tests" in said
    assert re.search(r"^OK$", said, re.MULTILINE)
