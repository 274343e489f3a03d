"""The store speaks SQL and the models describe the tables: nothing may stand in one and not in the other."""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest
from django.apps import apps
from django.db import connection, models

from djqueue import store
from djqueue.models import DeadLetter, History, HistoryOverflow, Job
from djqueue.store import expire, finish, lease, letters, operate

MODELS: list[type[models.Model]] = list(apps.get_app_config("djqueue").get_models())
by_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)

COLUMNS = """
select a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, coalesce(c.collname, ''), a.attidentity,
    coalesce(pg_get_expr(d.adbin, d.adrelid), '')
from pg_attribute a left join pg_collation c on c.oid = a.attcollation
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = to_regclass(%s) and a.attnum > 0 and not a.attisdropped
"""
INDEXES = """
select replace(pg_get_indexdef(indexrelid), quote_ident(%s) || '.', '') from pg_index
where indrelid = to_regclass(%s) order by 1
"""
CHECKS = """
select conname, pg_get_constraintdef(oid) from pg_constraint
where conrelid = to_regclass(%s) and contype = 'c' order by 1
"""


@pytest.fixture
def plain_schema(db: None) -> None:
    """The tables as they come without migrations (`--nomigrations`), beside the migrated ones."""
    with connection.cursor() as cursor:
        cursor.execute("create schema plain; set local search_path to plain, public")
    with connection.schema_editor() as editor:
        for model in MODELS:
            editor.create_model(model)


def query(sql: str, *params: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())


def columns_of(model: type[models.Model]) -> set[str]:
    return {str(field.column) for field in model._meta.local_concrete_fields}


@by_model
def test_the_migrated_table_has_the_columns_of_its_model(db: None, model: type[models.Model]) -> None:
    found = {name for name, *_ in query(COLUMNS, f"public.{model._meta.db_table}")}

    assert found == columns_of(model)


@by_model
def test_the_table_is_the_same_with_and_without_migrations(plain_schema: None, model: type[models.Model]) -> None:
    """Types, nullability, collations, defaults."""
    table = model._meta.db_table
    migrated, plain = query(COLUMNS, f"public.{table}"), query(COLUMNS, f"plain.{table}")

    assert {row[0]: row for row in migrated} == {row[0]: row for row in plain}


@pytest.mark.parametrize("model", [m for m in MODELS if m is not History], ids=lambda model: model.__name__)
def test_indexes_and_checks_are_the_same_with_and_without_migrations(
    plain_schema: None, model: type[models.Model]
) -> None:
    """History alone differs: partitioned, it can have no unique index."""
    table = model._meta.db_table

    assert query(INDEXES, "public", f"public.{table}") == query(INDEXES, "plain", f"plain.{table}")
    assert query(CHECKS, f"public.{table}") == query(CHECKS, f"plain.{table}")


def statements() -> Iterator[tuple[str, str]]:
    """Every complete statement of the store, by its name; not those on other queues' tables, which the tests of imports
    run on the real ones."""
    for found in pkgutil.iter_modules(store.__path__):
        if found.name == "foreign":
            continue
        module = importlib.import_module(f"djqueue.store.{found.name}")
        for name, value in vars(module).items():
            is_statement = isinstance(value, str) and re.match(r"\s*(with|select|insert|update|delete)\b", value)
            if name.isupper() and not name.startswith("_") and is_statement:
                yield f"{found.name}.{name}", value


STATEMENTS = dict(statements())
by_statement = pytest.mark.parametrize("name", STATEMENTS)


def prepare(sql: str) -> None:
    """Let the server look up every table, column and type that a statement names."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", sql)))
    numbered = re.sub(r"%\((\w+)\)s", lambda match: f"${names.index(match[1]) + 1}", sql)
    with connection.cursor() as cursor:
        cursor.execute(f"prepare looked_at as {numbered}")
        cursor.execute("deallocate looked_at")


def test_all_files_of_the_store_are_looked_at() -> None:
    assert len(STATEMENTS) > 50
    assert {"enqueue.ENQUEUE", "step.CLAIM_STEP", "finish.FAIL", "recover.PROMOTE"} <= set(STATEMENTS)


@by_statement
def test_what_a_statement_names_exists_in_the_migrated_tables(db: None, name: str) -> None:
    prepare(STATEMENTS[name])


@by_statement
def test_what_a_statement_names_exists_in_the_tables_of_the_models(plain_schema: None, name: str) -> None:
    prepare(STATEMENTS[name])


def inserted(sql: str, table: str) -> set[str]:
    """The columns that a statement writes into a table."""
    found = re.search(rf"insert into {table} \(([^)]+)\)", sql)
    assert found
    return {name.strip() for name in found[1].split(",")}


@pytest.mark.parametrize(
    ("sql", "missing"),
    [
        (finish.ACK, set()),
        (finish.FAIL, set()),
        (operate.CANCEL, {"result"}),
        (lease.CANCEL_ASKED, {"result"}),
        (expire.REFUSED, set()),
        (expire.OVERDUE, set()),
        (letters.DISCARD, {"result"}),
    ],
    ids=["ack", "fail", "cancel", "cancel asked", "expired", "overdue", "discard"],
)
def test_history_and_its_overflow_are_written_whole(sql: str, missing: set[str]) -> None:
    """A column that one of the ends forgets would be empty for some jobs only."""
    assert inserted(sql, "djqueue_history") == columns_of(History) - missing
    assert columns_of(HistoryOverflow) == columns_of(History)


def test_dead_letters_are_written_whole() -> None:
    assert inserted(finish.FAIL, "djqueue_dead_letter") == columns_of(DeadLetter)


def test_a_dead_letter_has_all_that_a_requeue_writes() -> None:
    """What it does not write starts afresh."""
    afresh = {
        "attempts", "interruptions", "worker_ids", "suspect", "started_at", "lease_until", "leased_by", "parked_for",
        "cancel_requested_at", "progress", "expires_at",
    }  # fmt: skip

    assert inserted(operate.REQUEUE, "djqueue_job") == columns_of(Job) - afresh
    assert inserted(operate.REQUEUE, "djqueue_job") - {"state", "run_at"} <= columns_of(DeadLetter)
