"""A stage with three parties in a database of its own, whose commits don't wait for the disk."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections
from psycopg import sql

from tests.helpers import raw_connection
from tests.interleavings.orders import Stage, gate_statements
from tests.live import Template, live_copy
from tests.store.factories import ALIAS, PARTITION_FOR_ALL, parties


@pytest.fixture(scope="module")
def parties_of_the_stage(live_template: Template, django_db_blocker: Any) -> Iterator[Stage]:
    """One database and three parties for all stories of a module: each story empties the tables."""
    with django_db_blocker.unblock(), live_copy(live_template) as database:
        with raw_connection() as session:
            name = sql.Identifier(database.name)
            session.execute(sql.SQL("alter database {} set synchronous_commit to off").format(name))
        with connections[ALIAS].cursor() as cursor:
            cursor.execute(PARTITION_FOR_ALL)
        connections[ALIAS].close()
        with parties(3) as found, Stage(found) as stage:
            yield stage


@pytest.fixture
def stage(parties_of_the_stage: Stage, monkeypatch: pytest.MonkeyPatch, django_db_blocker: Any) -> Iterator[Stage]:
    """Three parties whose every statement is a step."""
    with django_db_blocker.unblock():
        gate_statements(monkeypatch)
        yield parties_of_the_stage
