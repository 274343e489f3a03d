"""R9: arguments are JSON, checked and frozen at the enqueue call; the message names the path."""

import datetime
import decimal
import enum
import json
import math
import uuid
from collections import OrderedDict, namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from djqueue.policy.arguments import ArgumentsInvalid, freeze, freeze_value

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)
ANYTHING = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(st.characters()) | st.binary() | st.decimals() | st.datetimes(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner) | st.sets(st.integers())
    ),
)


@given(st.lists(VALUES), st.dictionaries(TEXT, VALUES))
def test_r9_json_values_come_back_as_they_were(args: list[object], kwargs: dict[str, object]) -> None:
    assert json.loads(freeze(tuple(args), kwargs)) == {"args": args, "kwargs": kwargs}


@given(st.lists(ANYTHING))
def test_r9_what_passes_can_be_stored_and_what_does_not_raises_one_error(args: list[Any]) -> None:
    try:
        text = freeze(tuple(args), {})
    except ArgumentsInvalid:
        return
    text.encode()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert not any("\0" in each for each in _texts(json.loads(text)))


def _texts(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case list():
            return [text for item in value for text in _texts(item)]
        case dict():
            return [text for key, item in value.items() for text in (key, *_texts(item))]
    return []


def test_the_text_is_compact_and_keeps_letters() -> None:
    assert freeze((1, "é"), {"a": None}) == '{"args":[1,"é"],"kwargs":{"a":null}}'


def test_tuples_become_lists_and_subclasses_their_plain_values() -> None:
    class Color(enum.StrEnum):
        RED = "red"

    class Level(enum.IntEnum):
        HIGH = 3

    class Safe(str):
        pass

    class Ratio(float):
        pass

    Point = namedtuple("Point", "x y")
    value = [Color.RED, Level.HIGH, Safe("s"), Ratio(0.5), Point(1, 2), OrderedDict(a=(True,)), {Color.RED: 1}]
    plain = ["red", 3, "s", 0.5, [1, 2], {"a": [True]}, {"red": 1}]
    assert json.loads(freeze_value(value)) == plain


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (decimal.Decimal("1.20"), r"got Decimal\('1.20'\); pass str\(value\)"),
        (datetime.datetime(2026, 1, 1), r"got datetime.datetime\(2026, 1, 1, 0, 0\); pass value.isoformat\(\)"),  # noqa: DTZ001
        (uuid.UUID(int=1), r"got UUID\('0+-.*pass str\(value\)"),
        (b"bytes", "got bytes; pass value.decode"),
        ({1, 2}, r"got set; pass list\(value\)"),
        (object(), "got object; pass its id"),
        (enum.Enum("Plain", "A")["A"], "pass value.value"),
        (math.nan, "expected a finite number, got nan"),
        (-math.inf, "expected a finite number, got -inf"),
        ("a\0b", "expected text without NUL, got one at character 1"),
        ("ab\ud800", "got a lone surrogate at character 2"),
        ({1: "a"}, "expected text as every key, got 1"),
        ({"a\0": 1}, "expected text without NUL"),
        ({"\udfff": 1}, "lone surrogate"),
        (10**4000, "expected a whole number of at most 4,000 digits"),
        (-(10**100_000), "expected a whole number of at most 4,000 digits"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_r9_what_is_no_json_is_refused_with_its_path_and_a_remedy(value: object, message: str) -> None:
    with pytest.raises(ArgumentsInvalid, match=message) as caught:
        freeze(({"lines": [0, 1, 2, value]},), {})
    assert str(caught.value).startswith('args[0]["lines"][3]')


def test_r9_a_path_may_begin_in_the_keywords_or_the_return_value() -> None:
    with pytest.raises(ArgumentsInvalid, match=r'^kwargs\["when"\]\[0\]: '):
        freeze((), {"when": [b""]})
    with pytest.raises(ArgumentsInvalid, match=r"^the return value: expected a JSON value"):
        freeze_value(object())
    with pytest.raises(ArgumentsInvalid, match=r'^the progress\["a"\]: '):
        freeze_value({"a": object()}, what="the progress")


def test_r9_lazy_text_is_refused_although_it_looks_like_text() -> None:
    class __proxy__:
        def __str__(self) -> str:
            return "Order"

    with pytest.raises(ArgumentsInvalid, match=r"a lazy translation has no value yet; pass str\(value\)"):
        freeze((__proxy__(),), {})


def test_r9_a_model_instance_is_refused_with_its_own_remedy_and_its_repr_is_not_asked_for() -> None:
    class Order:
        _meta = None

        def __repr__(self) -> str:
            raise AssertionError("repr may ask the database")

    with pytest.raises(ArgumentsInvalid, match="Order; pass its primary key"):
        freeze((Order(),), {})


def test_whole_numbers_of_any_usual_size_are_kept_exactly() -> None:
    numbers = [2**31, 2**53 + 1, 2**63, -(2**64), 10**3999]
    assert json.loads(freeze_value(numbers)) == numbers


def test_r9_the_size_limit_counts_bytes_not_characters() -> None:
    text = "é" * 500
    assert freeze_value(text, max_bytes=1002)
    with pytest.raises(ArgumentsInvalid, match="the return value: expected at most 1,001 bytes of JSON"):
        freeze_value(text, max_bytes=1001)
    with pytest.raises(ArgumentsInvalid, match="pass its key"):
        freeze(("x" * 1_000_000,), {})


def test_r9_a_small_object_that_unfolds_into_a_huge_one_is_refused_quickly() -> None:
    bomb: list[Any] = ["x"]
    for _ in range(60):
        bomb = [bomb] * 10
    with pytest.raises(ArgumentsInvalid, match="at most 1,000,000 bytes"):
        freeze((bomb,), {})
    with pytest.raises(ArgumentsInvalid, match="at most 1,000,000 bytes"):
        freeze((["x" * 900_000] * 100_000,), {})


def _nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_r9_the_depth_limit_counts_containers_inside_one_another() -> None:
    assert freeze((_nested(64),), {"a": _nested(64)})
    assert freeze_value(_nested(64))
    with pytest.raises(ArgumentsInvalid, match=r"^args\[0\]\[0\]\[0\]\[0\]…: expected at most 64 levels"):
        freeze((_nested(65),), {})
    with pytest.raises(ArgumentsInvalid, match="expected at most 64 levels"):
        freeze_value(_nested(100_000))


def test_r9_a_value_that_contains_itself_is_refused_as_such() -> None:
    circle: dict[str, Any] = {"a": [1]}
    circle["a"].append(circle)
    with pytest.raises(ArgumentsInvalid, match=r'^args\[0\]\["a"\]\[1\]: .*contains itself$'):
        freeze((circle,), {})


def test_the_same_object_twice_is_no_circle() -> None:
    shared = {"a": 1}
    assert json.loads(freeze_value([shared, [shared]])) == [{"a": 1}, [{"a": 1}]]


def test_what_the_caller_changes_later_does_not_reach_the_job() -> None:
    lines = [1]
    text = freeze((lines,), {})
    lines.append(2)
    assert json.loads(text)["args"] == [[1]]
