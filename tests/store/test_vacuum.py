"""Vacuum of the hot table: when needed, never waiting, and honest where it is not allowed."""

from collections.abc import Iterator

import pytest
from django.db import connection, transaction

from djqueue.policy.ids import uuid7
from djqueue.store import db, enqueue
from djqueue.store.vacuum import Vacuumed, vacuum_if_needed
from tests.helpers import eventually, raw_connection
from tests.live import LiveDatabase

pytestmark = pytest.mark.usefixtures("live_database")

DEAD = "select pg_stat_get_dead_tuples('djqueue_job'::regclass)"
VACUUMS = "select pg_stat_get_vacuum_count('djqueue_job'::regclass)"


@pytest.fixture
def dead_rows(live_database: LiveDatabase) -> None:
    """Fifty dead rows that the statistics know of."""
    jobs = [enqueue.NewJob(id=uuid7(), queue_name="default", task_name="noop", args="[]") for _ in range(50)]
    list(enqueue.enqueue_many("default", jobs))
    db.rows("default", "delete from djqueue_job")
    db.rows("default", "select pg_stat_force_next_flush()")
    eventually(lambda: db.rows("default", DEAD)[0][0] >= 50)


@pytest.fixture
def stranger(live_database: LiveDatabase) -> Iterator[str]:
    """A role that may read and write the table, and no more; the connection has taken it."""
    name = f"stranger_{live_database.name}"
    db.rows("default", f"create role {name}")
    db.rows("default", f"grant select, insert, update, delete on djqueue_job to {name}")
    db.rows("default", f"set role {name}")
    yield name
    db.rows("default", "reset role")
    db.rows("default", f"drop owned by {name}")
    db.rows("default", f"drop role {name}")


def vacuums() -> int:
    db.rows("default", "select pg_stat_force_next_flush()")
    found: int = db.rows("default", VACUUMS)[0][0]
    return found


@pytest.mark.usefixtures("dead_rows")
def test_it_vacuums_when_there_are_many_dead_rows() -> None:
    assert vacuum_if_needed("default", dead_rows=40) is Vacuumed.DONE

    eventually(lambda: vacuums() == 1)
    eventually(lambda: db.rows("default", DEAD)[0][0] == 0)


@pytest.mark.usefixtures("dead_rows")
def test_it_does_nothing_below_the_limit() -> None:
    assert vacuum_if_needed("default") is Vacuumed.NOT_NEEDED
    assert vacuums() == 0


@pytest.mark.usefixtures("dead_rows")
def test_it_works_on_an_adopted_connection() -> None:
    db.adopt("default", prepared=True)
    try:
        assert vacuum_if_needed("default", dead_rows=40) is Vacuumed.DONE
    finally:
        db.drop("default")


@pytest.mark.usefixtures("dead_rows", "stranger")
def test_without_the_right_it_says_so() -> None:
    assert vacuum_if_needed("default", dead_rows=40) is Vacuumed.REFUSED
    assert vacuums() == 0


@pytest.mark.usefixtures("dead_rows")
def test_from_postgresql_17_the_maintain_right_is_enough(stranger: str) -> None:
    if connection.pg_version < 170000:  # type: ignore[attr-defined]
        pytest.skip("MAINTAIN came with PostgreSQL 17")
    db.rows("default", "reset role")
    db.rows("default", f"grant maintain on djqueue_job to {stranger}")
    db.rows("default", f"set role {stranger}")

    assert vacuum_if_needed("default", dead_rows=40) is Vacuumed.DONE


@pytest.mark.usefixtures("dead_rows")
def test_it_waits_for_nobody_who_works_on_the_table() -> None:
    with raw_connection() as other, other.transaction():
        other.execute("lock table djqueue_job in share update exclusive mode")
        with connection.cursor() as cursor:
            cursor.execute("set lock_timeout = '2s'")

        assert vacuum_if_needed("default", dead_rows=40) is Vacuumed.DONE
        assert vacuums() == 0


def test_it_is_refused_inside_a_transaction() -> None:
    with transaction.atomic(), pytest.raises(transaction.TransactionManagementError):
        vacuum_if_needed("default")
