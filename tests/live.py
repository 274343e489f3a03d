"""Databases with real commits, for tests in which other processes take part.

A template is migrated once; each test gets a copy of it (CREATE DATABASE … TEMPLATE takes some tens of milliseconds),
at which Django's default alias and DATABASE_URL point until the test has ended.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Self

import environ
import psycopg
from django.core.management import call_command
from django.db import connections
from psycopg import sql

from testproject.embedded import EmbeddedServer

CONNECTION_KEYS = ("HOST", "PORT", "USER", "PASSWORD", "NAME")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveDatabase:
    """A database with committed data: `url` for other processes, `name` inside its server."""

    name: str
    url: str


class Template:
    """A migrated database that others are copied from, and the server's address for making them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.server_url = os.environ["DATABASE_URL"]
        self._numbers = count(1)

    @classmethod
    @contextmanager
    def made(cls, name: str) -> Iterator[Self]:
        """Create and migrate the template; drop it at the end."""
        template = cls(name)
        with template.database(name) as database:
            with pointed_at(database.url):
                call_command("migrate", verbosity=0, interactive=False, run_syncdb=True)
            yield template

    @contextmanager
    def copy(self) -> Iterator[LiveDatabase]:
        """Create a copy; drop it at the end, whoever is still connected."""
        with self.database(f"{self.name}_{next(self._numbers)}", template=self.name) as database:
            yield database

    @contextmanager
    def database(self, name: str, template: str = "template1") -> Iterator[LiveDatabase]:
        """Create a database; drop it at the end."""
        self._drop(name)
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        self._run(statement.format(sql.Identifier(name), sql.Identifier(template)))
        try:
            yield LiveDatabase(name=name, url=with_name(self.server_url, name))
        finally:
            self._drop(name)

    def _drop(self, name: str) -> None:
        self._run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _run(self, statement: sql.Composed) -> None:
        with psycopg.connect(with_name(self.server_url, "postgres"), autocommit=True) as connection:
            connection.execute(statement)


@contextmanager
def live_copy(template: Template) -> Iterator[LiveDatabase]:
    """Copy the template and point Django at the copy."""
    with template.copy() as database, pointed_at(database.url):
        yield database


@contextmanager
def started_server() -> Iterator[EmbeddedServer]:
    """Start a second server, migrate its database and point Django at it."""
    with EmbeddedServer() as server, pointed_at(server.url):
        call_command("migrate", verbosity=0, interactive=False, run_syncdb=True)
        yield server


@contextmanager
def pointed_at(url: str) -> Iterator[None]:
    """Let Django's default alias, in every thread, and DATABASE_URL mean another database; then put both back."""
    settings = connections["default"].settings_dict
    before = {key: settings[key] for key in CONNECTION_KEYS}
    url_before = os.environ["DATABASE_URL"]
    connections["default"].close()
    wanted = environ.Env.db_url_config(url)  # type: ignore[no-untyped-call]
    settings.update({key: wanted[key] for key in CONNECTION_KEYS})
    os.environ["DATABASE_URL"] = url
    try:
        yield
    finally:
        connections["default"].close()
        settings.update(before)
        os.environ["DATABASE_URL"] = url_before


def with_name(url: str, name: str) -> str:
    """Return the same address with another database name."""
    return f"{url.partition('?')[0].rpartition('/')[0]}/{name}"
