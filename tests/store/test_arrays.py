"""Array literals: whatever stands in them, PostgreSQL reads back what was written."""

import json
from uuid import UUID

import pytest

from djqueue.policy.ids import uuid7
from djqueue.store import arrays, db
from tests.store.factories import ALIAS

pytestmark = pytest.mark.django_db

TEXTS = ["", "null", "NULL", "a,b", '{"a": "b\\"c"}', "{x}", "\\", '\\"', "\n\t", "ü€😀", " spaced ", "'quoted'", "{}"]


def test_texts_come_back_as_they_were() -> None:
    [(found,)] = db.rows(ALIAS, "select %(texts)s::text[]", {"texts": arrays.of_texts(TEXTS)})

    assert found == TEXTS


def test_json_texts_come_back_as_they_were_and_null_is_a_value() -> None:
    values = [None, "null", {"a": ['"', "\\", "ü"]}, 1.5, [], '{"x"}']
    literal = arrays.of_texts([json.dumps(value, ensure_ascii=False) for value in values])

    [(found, nulls)] = db.rows(
        ALIAS,
        "select to_jsonb(x)::text, (select count(*) from unnest(x) u where u is null) from (select %(j)s::jsonb[] x) y",
        {"j": literal},
    )

    assert json.loads(found) == values
    assert nulls == 0


def test_ids_and_numbers_come_back_as_they_were() -> None:
    ids = [uuid7(), UUID(int=0), UUID(int=2**128 - 1)]
    numbers = [0.1, 1e-9, 123456.789012345, 0]
    tokens = [0, 2**53 + 1, 2**62]

    [found] = db.rows(
        ALIAS,
        "select %(ids)s::uuid[], %(numbers)s::float8[], %(tokens)s::bigint[]",
        {"ids": arrays.of_ids(ids), "numbers": arrays.of_numbers(numbers), "tokens": arrays.of_numbers(tokens)},
    )

    assert found == (ids, numbers, tokens)


def test_nothing_is_an_empty_array() -> None:
    [found] = db.rows(
        ALIAS,
        "select %(ids)s::uuid[], %(numbers)s::float8[], %(texts)s::text[]",
        {"ids": arrays.of_ids([]), "numbers": arrays.of_numbers([]), "texts": arrays.of_texts([])},
    )

    assert found == ([], [], [])
