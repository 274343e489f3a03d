"""The migrations say all that the models say, on every Django."""

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection

from djqueue import apps as djqueue_apps
from djqueue.store import history


def test_the_migrations_are_complete(db: None) -> None:
    call_command("makemigrations", "djqueue", "shop", check=True, dry_run=True, verbosity=0)


def test_a_migration_makes_the_days_of_history(db: None) -> None:
    partitions = "select count(*) from pg_inherits where inhparent = 'djqueue_history'::regclass"
    with connection.cursor() as cursor:
        cursor.execute(partitions)
        (made,) = cursor.fetchone()

    assert made >= 15
    assert history.ensure_partitions("default") == 0


def test_a_database_that_is_not_postgresql_is_left_alone(db: None, sqlite: str) -> None:
    djqueue_apps.make_days_of_history(sqlite)


def test_a_lock_that_can_not_be_had_stops_no_migration(
    db: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(alias: str) -> int:
        raise psycopg.errors.LockNotAvailable("canceling statement due to lock timeout")

    monkeypatch.setattr(history, "ensure_partitions", refuse)

    djqueue_apps.make_days_of_history("default")

    assert "partitions of history not made yet" in caplog.text
