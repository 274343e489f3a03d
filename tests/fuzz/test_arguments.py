"""Arguments: what passes is stored by PostgreSQL and comes back; all else is refused by the name of its path (R9)."""

import datetime
import json
from enum import Enum, IntEnum
from typing import Any

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from djqueue.policy.arguments import ArgumentsInvalid, ResultInvalid, freeze, freeze_value
from tests.fuzz.profile import ANY_TEXT, NUMBERS, fuzzed, with_database


class Colour(Enum):
    RED = 1


class Number(IntEnum):
    ONE = 1


LEAVES = (
    st.none()
    | st.booleans()
    | NUMBERS
    | ANY_TEXT
    | st.binary()
    | st.decimals()
    | st.datetimes()
    | st.uuids()
    | st.complex_numbers()
    | st.sampled_from([Colour.RED, Number.ONE, object(), object, len, datetime.date.max, range(3)])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(ANY_TEXT | st.integers() | st.none(), inner, max_size=4)
        | st.frozensets(st.integers(), max_size=3)
    ),
    max_leaves=15,
)


@with_database
@given(st.lists(VALUES, max_size=3), st.dictionaries(ANY_TEXT, VALUES, max_size=3))
@pytest.mark.django_db
def test_any_arguments_are_stored_or_refused(args: list[Any], kwargs: dict[str, Any]) -> None:
    try:
        text = freeze(args, kwargs)
    except ArgumentsInvalid as refused:
        assert str(refused).startswith(("args", "kwargs", "arguments"))
        return
    with connection.cursor() as cursor:
        cursor.execute("select %s::jsonb::text", [text])
        assert numbers_alike(cursor.fetchone()[0]) == numbers_alike(text)


def numbers_alike(text: str) -> Any:
    """Whole floats from 1e16 on come back as whole numbers, as is documented."""
    return json.loads(text, parse_int=lambda digits: float(digits) if len(digits) < 300 else digits)


@fuzzed
@given(VALUES)
def test_any_result_is_kept_or_refused(value: Any) -> None:
    try:
        json.loads(freeze_value(value, what="result"))
    except ResultInvalid as refused:
        assert str(refused)


@fuzzed
@given(st.integers(0, 3000), st.sampled_from([list, dict]))
def test_any_depth_is_kept_or_refused(depth: int, kind: type) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind is list else {"a": value}
    try:
        freeze([value], {})
        assert depth <= 64
    except ArgumentsInvalid as refused:
        assert "levels" in str(refused)


def test_what_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)

    with pytest.raises(ArgumentsInvalid, match="contains itself"):
        freeze([value], {})
