"""R9: arguments are validated and frozen at the enqueue call, before any SQL, with a message that names the path."""

from typing import Any

import pytest
from django.test import override_settings
from pytest_django.asserts import assertNumQueries

from djqueue.compat import InvalidTask, task_backends
from djqueue.exceptions import ArgumentsError
from tests.contract.examples import add, third_party, who_am_i

TASKS_PACKAGE = "django_tasks" if "django_tasks" in type(task_backends).__module__ else "django.tasks"


class Thing:
    """Something that is not JSON."""


BAD: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    ((), {}, "missing a required argument: 'left'"),
    ((1, 2, 3), {}, "too many positional arguments"),
    ((1,), {"rigth": 2}, "unexpected keyword argument 'rigth'"),
    ((Thing(),), {}, r"args\[0\]: expected a JSON value"),
    (({"a": [1, {2}]},), {}, r'args\[0\]\["a"\]\[1\]: expected a JSON value'),
    (({1: 2},), {}, r"args\[0\]: expected text as every key"),
    (("a\0b",), {}, r"args\[0\]: expected text without NUL"),
    (("\ud800",), {}, r"args\[0\]: expected valid Unicode"),
    ((float("nan"),), {}, r"args\[0\]: expected a finite number"),
    ((float("inf"),), {}, r"args\[0\]: expected a finite number"),
    ((b"bytes",), {}, r"pass value.decode\(\)"),
    (("x" * 1_000_001,), {}, "at most 1,000,000 bytes"),
    ((1,), {"right": "\0"}, r'kwargs\["right"\]: expected text without NUL'),
]


def nested(depth: int) -> list[Any]:
    """Lists inside lists."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(("args", "kwargs", "words"), BAD)
def test_r9_what_can_not_be_stored_or_called_is_refused_before_any_sql(
    db: None, args: tuple[Any, ...], kwargs: dict[str, Any], words: str
) -> None:
    with assertNumQueries(0), pytest.raises(ArgumentsError, match=words) as caught:
        add.enqueue(*args, **kwargs)
    assert "tests.contract.examples.add: " in str(caught.value)

    row: Any = args if args else kwargs
    if not (args and kwargs):
        with assertNumQueries(0), pytest.raises(ArgumentsError, match=words):
            add.enqueue_many([(1,), row])


def test_r9_what_is_nested_too_deep_is_refused(db: None) -> None:
    with pytest.raises(ArgumentsError, match="levels of lists and dicts"):
        add.enqueue(nested(100))


def test_r9_the_context_is_no_argument_of_the_caller(db: None) -> None:
    assert who_am_i.enqueue("x").args == ["x"]
    with pytest.raises(ArgumentsError, match=r"expected who_am_i\(label\)"):
        who_am_i.enqueue()  # type: ignore[call-arg]


def test_r9_arguments_are_frozen_and_tuples_become_lists(db: None) -> None:
    given: dict[str, Any] = {"pair": (1, 2)}

    result = add.enqueue(given)  # type: ignore[arg-type]
    given["pair"] = "changed"

    assert result.args == [{"pair": [1, 2]}]
    assert add.get_result(result.id).args == [{"pair": [1, 2]}]


@pytest.mark.parametrize("backend", ["dummy.DummyBackend", "immediate.ImmediateBackend"])
def test_r9_the_demands_are_the_same_on_other_backends(backend: str) -> None:
    with override_settings(TASKS={"default": {"BACKEND": f"{TASKS_PACKAGE}.backends.{backend}", "QUEUES": []}}):
        for args, kwargs, words in BAD:
            with pytest.raises(ArgumentsError, match=words):
                add.enqueue(*args, **kwargs)
        with pytest.raises(ArgumentsError, match="dedupe_key: expected at most 300"):
            add.using(dedupe_key=lambda left: "k" * 301).enqueue(1)
        assert add.enqueue(1, 2).args == [1, 2]
        assert len(add.enqueue_many([(1,), {"left": 2}])) == 2


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("k" * 301, "expected at most 300 characters, got 301"),
        ("", "got an empty one"),
        ("a\0", "without NUL"),
        ("\udfff", "lone surrogate"),
        (7, "expected text, got int"),
    ],
)
def test_r9_a_dedupe_key_has_limits_and_messages_of_its_own(db: None, key: Any, words: str) -> None:
    with assertNumQueries(0), pytest.raises(ArgumentsError, match=f"dedupe_key: .*{words}"):
        add.using(dedupe_key=lambda left: key).enqueue(1)
    if isinstance(key, str):
        with pytest.raises(InvalidTask, match=f"dedupe_key: .*{words}"):
            add.using(dedupe_key=key)


def test_r9_a_key_of_300_characters_is_stored_and_none_is_no_key(db: None) -> None:
    assert add.using(dedupe_key="ü" * 300).enqueue(1).created
    assert add.using(dedupe_key=lambda left: None).enqueue(1).created


@override_settings(TASKS={"default": {"BACKEND": "djqueue.backend.DjqueueBackend", "QUEUES": []}})
@pytest.mark.parametrize("name", ["q" * 101, "", "a\0", "\ud800"])
def test_r9_a_queue_name_has_limits_and_a_message_of_its_own(name: str) -> None:
    with pytest.raises(InvalidTask, match="queue_name: expected"):
        add.using(queue_name=name)


@override_settings(
    TASKS={
        "default": {
            "BACKEND": "djqueue.backend.DjqueueBackend",
            "QUEUES": ["emails"],
            "OPTIONS": {"max_args_bytes": 100},
        }
    }
)
def test_r9_the_size_limit_is_an_option_and_holds_for_third_party_tasks(db: None) -> None:
    with pytest.raises(ArgumentsError, match="at most 100 bytes"):
        third_party.enqueue("x" * 100)
