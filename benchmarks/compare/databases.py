"""The one server of a comparison, and a fresh database for every run: copies of templates, made once per contender.

Redis, where a contender wants it: a server for each run, which syncs every write to disk before it answers.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
from psycopg import sql

from testproject.embedded import EmbeddedServer

Prepare = Callable[[dict[str, str]], None]


class Databases:
    """Databases of one server, by template."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.server = server
        self._templates: set[str] = set()
        self._numbers = count(1)

    def template(self, name: str, prepare: Prepare, base: str = "template1") -> str:
        """Make a template by `prepare` unless there is one; return its name."""
        full = f"template_{name}".replace("-", "_")
        if full not in self._templates:
            self._create(full, base)
            prepare({"DATABASE_URL": self.server.url_of(full)})
            self._templates.add(full)
        return full

    @contextmanager
    def fresh(self, template: str) -> Iterator[dict[str, str]]:
        """Copy a template, flush everything to disk, and drop the copy at the end; yields the environment."""
        name = f"run_{next(self._numbers)}"
        self._create(name, template)
        try:
            self.execute("vacuum (analyze)", name)
            self.execute("checkpoint", name)
            yield {"DATABASE_URL": self.server.url_of(name), "COMPARE_DATABASE": name}
        finally:
            self._drop(name)

    def execute(self, statement: str, database: str) -> list[tuple[object, ...]]:
        """Run a statement in autocommit."""
        with psycopg.connect(self.server.url_of(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def _create(self, name: str, template: str) -> None:
        self._drop(name)
        with psycopg.connect(self.server.url_of("postgres"), autocommit=True) as connection:
            statement = sql.SQL("create database {} template {} strategy file_copy")
            connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))

    def _drop(self, name: str) -> None:
        with psycopg.connect(self.server.url_of("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


def redis_program() -> str | None:
    """Return the path of redis-server, if there is one."""
    return shutil.which("redis-server")


@contextmanager
def fresh_redis() -> Iterator[dict[str, str]]:
    """Start Redis with an append-only file that is synced before every answer; yields the environment."""
    program = redis_program()
    assert program is not None
    with tempfile.TemporaryDirectory() as folder:
        port = _free_port()
        options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
        process = subprocess.Popen(
            [program, *options, "--appendonly", "yes", "--appendfsync", "always"], stdout=subprocess.DEVNULL
        )
        try:
            _wait_for_port(port)
            yield {"COMPARE_REDIS_URL": f"redis://127.0.0.1:{port}/0"}
        finally:
            process.terminate()
            process.wait(30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for_port(port: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def new_ledger(folder: str) -> tuple[Path, dict[str, str]]:
    """Return the path of a ledger that is not there yet, and the environment that names it."""
    from benchmarks.compare.ledger import VARIABLE

    handle, path = tempfile.mkstemp(dir=folder, prefix="ledger-")
    os.close(handle)
    return Path(path), {VARIABLE: path}
