"""Rows that nobody at djqueue has written: each harms itself only, and every page and command can show it (R21)."""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from djqueue.policy.search import SearchInvalid, parse
from djqueue.store import db, search
from djqueue.testing import run_jobs
from tests.contract.examples import add
from tests.fuzz.profile import JSON, of_words, with_database
from tests.store.factories import ALIAS, count, row

few = settings(with_database, max_examples=max(1, with_database.max_examples // 2))
# What jsonb refuses by itself never comes into a row.
STORED = JSON.map(lambda value: stored(value))
SHAPED = st.fixed_dictionaries({"args": JSON, "kwargs": JSON}).map(lambda value: stored(value))
SEARCHES = of_words(
    "task:", "queue:", "key:", "error:", "args.", "kwargs.", ".0", ":", '"', "\\", "*", "%", more=" '$@?()[]{}"
)
SET = """update djqueue_job
    set args = %(args)s::jsonb, options = %(options)s::jsonb, errors = %(errors)s::jsonb where id = %(id)s"""


def stored(value: Any) -> str:
    return json.dumps(value).replace("\\u0000", "")


@few
@given(STORED | SHAPED, STORED, STORED)
@pytest.mark.django_db
def test_a_row_with_any_payload_ends_and_its_neighbour_runs(args: str, options: str, errors: str) -> None:
    db.rows(ALIAS, "delete from djqueue_job; delete from djqueue_history; delete from djqueue_dead_letter")
    bad, good = add.enqueue(1), add.enqueue(2)
    db.rows(ALIAS, SET, {"id": bad.id, "args": args, "options": options, "errors": errors})

    ran = run_jobs(due_now=True)

    assert ran.succeeded + ran.states.get("dead", 0) == 2
    assert row(UUID(good.id), "outcome", "history") == "succeeded"
    assert count("job") == 0
    assert count("history") + count("history_overflow") + count("dead_letter") == 2


@with_database
@given(
    of_words(
        "task:", "queue:", "key:", "error:", "args.", "kwargs.", ".0", ":", '"', "\\", "*", "%", more=" '$@?()[]{}"
    )
)
@pytest.mark.django_db
def test_what_a_search_understands_the_database_understands(text: str) -> None:
    try:
        asked = parse(text)
    except SearchInvalid:
        return
    search.page(ALIAS, asked)
