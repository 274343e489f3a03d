"""R10: recording a failure can't fail because of its content."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from djqueue.policy.errors import (
    LIST_LIMIT,
    TEXT_LIMIT,
    FailureText,
    append_error,
    clean_text,
    describe,
    is_dropped_mark,
)


def raised(exc: BaseException) -> BaseException:
    try:
        raise exc
    except BaseException as caught:
        return caught


def check_storable(text: FailureText) -> None:
    assert len(text.exception.encode()) <= 500
    for each in (text.message, text.traceback):
        assert len(each.encode()) <= TEXT_LIMIT
        assert "\0" not in each


def test_an_ordinary_exception_is_shown_as_python_shows_it() -> None:
    text = describe(raised(ValueError("no such order")))
    assert text.exception == "builtins.ValueError"
    assert text.message == "no such order"
    assert text.traceback.startswith("Traceback (most recent call last):\n  File ")
    assert "in raised\n    raise exc\n" in text.traceback
    assert text.traceback.endswith("builtins.ValueError: no such order\n")


def test_causes_contexts_and_notes_are_shown_oldest_first() -> None:
    def handler() -> None:
        try:
            try:
                raise KeyError("first")
            except KeyError:
                raise ValueError("second")  # noqa: B904
        except ValueError as cause:
            error = RuntimeError("third")
            error.add_note("while sending the receipt")
            raise error from cause

    with pytest.raises(RuntimeError) as caught:
        handler()
    shown = describe(caught.value).traceback
    order = ["KeyError: 'first'", "During handling", "ValueError: second", "direct cause", "third\nwhile sending"]
    positions = [shown.index(each) for each in order]
    assert positions == sorted(positions)


def test_from_none_hides_the_context() -> None:
    def handler() -> None:
        try:
            raise KeyError("secret")
        except KeyError:
            raise ValueError("plain") from None

    with pytest.raises(ValueError, match="plain") as caught:
        handler()
    assert "secret" not in describe(caught.value).traceback


def test_r10_frame_locals_are_not_stored() -> None:
    def handler(password: str) -> None:
        raise ValueError("failed")

    with pytest.raises(ValueError, match="failed") as caught:
        handler("".join(["hun", "ter2"]))
    assert "hunter2" not in describe(caught.value).traceback


@given(st.text(st.characters()))
def test_r10_any_message_becomes_storable_text(message: str) -> None:
    text = describe(raised(Exception(message)))
    check_storable(text)
    unstorable = {"\0", *map(chr, range(0xD800, 0xE000))}
    assert text.message == "".join("\ufffd" if character in unstorable else character for character in message)


def test_r10_nul_and_lone_surrogates_are_replaced() -> None:
    text = describe(raised(ValueError("a\0b\ud800c\udfff")))
    assert text.message == "a\ufffdb\ufffdc\ufffd"
    check_storable(text)


def test_r10_a_message_of_fifty_megabytes_is_cut_quickly_to_head_and_tail() -> None:
    error = raised(ValueError("HEAD" + "é" * 50_000_000 + "TAIL"))
    begin = time.perf_counter()
    text = describe(error)
    assert time.perf_counter() - begin < 0.5
    check_storable(text)
    assert text.message.startswith("HEADé")
    assert text.message.endswith("éTAIL")
    kept = text.message.count("é")
    assert f"[… {50_000_000 - kept:,} characters cut …]" in text.message


class Nasty(Exception):
    def __init__(self, answer: Any) -> None:
        super().__init__("x")
        self.answer = answer

    def __str__(self) -> str:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]

    __repr__ = __str__


@pytest.mark.parametrize(
    "answer",
    [ValueError("no"), SystemExit(1), KeyboardInterrupt(), GeneratorExit(), RecursionError(), 5, None, b"bytes"],
    ids=repr,
)
def test_r10_a_message_that_can_not_be_had_gets_a_placeholder(answer: object) -> None:
    text = describe(raised(Nasty(answer)))
    check_storable(text)
    assert text.exception.endswith("Nasty")
    assert text.message.startswith("[no message: str() of the exception raised ")
    assert text.message in text.traceback


def test_r10_text_that_lies_about_itself_is_taken_as_plain_text() -> None:
    class Liar(str):
        def __len__(self) -> int:
            return 0

        def __getitem__(self, key: object) -> str:
            raise RuntimeError

        def encode(self, *args: object) -> bytes:  # type: ignore[override]
            raise RuntimeError

    text = describe(raised(Nasty(Liar("x\0" * 100_000))))
    check_storable(text)
    assert text.message.startswith("x\ufffdx")
    assert type(text.message) is str


def test_r10_an_exception_whose_attributes_raise_is_still_described() -> None:
    class Broken(ExceptionGroup):
        @property
        def exceptions(self) -> Any:
            raise SystemExit

        @property
        def __notes__(self) -> Any:
            raise KeyboardInterrupt

    text = describe(raised(Broken("group", [ValueError()])))
    check_storable(text)
    assert "Broken" in text.exception
    assert "group" in text.message


def test_r10_a_class_without_a_usable_name_is_still_described() -> None:
    class Meta(type):
        @property
        def __module__(cls) -> str:  # type: ignore[override]
            raise RuntimeError

    class Nameless(Exception, metaclass=Meta):
        pass

    long = type("N" * 10_000, (Exception,), {"__module__": "m\0"})
    check_storable(describe(Nameless("a")))
    check_storable(describe(long("a")))


def test_r10_groups_nested_500_deep_are_cut_and_counted() -> None:
    error: Exception = ValueError("innermost")
    for level in range(500):
        error = ExceptionGroup(f"level {level}", [error, KeyError(level)])
    text = describe(raised(error))
    check_storable(text)
    assert "level 499" in text.traceback
    assert "exceptions in a deeper group left out" in text.traceback


def test_r10_wide_groups_are_cut_and_counted() -> None:
    group = ExceptionGroup("all failed", [ExceptionGroup("inner", [ValueError("x" * 5000)] * 500)] * 500)
    text = describe(raised(group))
    check_storable(text)
    assert "490 further exceptions of the group left out" in text.traceback


def test_r10_chains_500_long_keep_both_ends() -> None:
    error: Exception = ValueError("root cause")
    for number in range(500):
        later = RuntimeError(f"later {number}")
        later.__cause__ = error
        error = later
    text = describe(raised(error))
    check_storable(text)
    assert "root cause" in text.traceback
    assert "later 499" in text.traceback
    assert "[… 491 exceptions of the chain left out …]" in text.traceback


def test_r10_a_chain_that_goes_in_circles_ends() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    check_storable(describe(first))


def test_r10_endless_recursion_keeps_both_ends_of_the_stack() -> None:
    def even(number: int) -> int:
        return odd(number + 1)

    def odd(number: int) -> int:
        return even(number + 1)

    with pytest.raises(RecursionError) as caught:
        even(0)
    text = describe(caught.value)
    check_storable(text)
    assert "frames left out" in text.traceback
    assert len(text.traceback) < 20_000


def test_r10_an_exception_that_was_never_raised_has_no_stack() -> None:
    assert describe(ValueError("made by hand")).traceback == "builtins.ValueError: made by hand\n"


@given(st.text(st.characters()), st.integers(min_value=0, max_value=300))
def test_cleaned_text_fits_its_limit_and_keeps_what_fits(text: str, limit: int) -> None:
    cleaned = clean_text(text, limit)
    assert len(cleaned.encode()) <= limit
    if len(cleaned) == len(text):
        assert all(old == new or new == "\ufffd" for old, new in zip(text, cleaned, strict=True))


def entry(attempt: int, size: int = 2000) -> dict[str, Any]:
    return {"attempt": attempt, "exception": "builtins.ValueError", "message": "m" * 100, "traceback": "t" * size}


def grown(count: int, size: int) -> list[dict[str, Any]]:
    errors: list[dict[str, Any]] = []
    for attempt in range(1, count + 1):
        errors = append_error(errors, entry(attempt, size))
        assert len(json.dumps(errors, ensure_ascii=False).encode()) <= LIST_LIMIT
    return errors


def test_the_first_and_last_three_errors_stay_in_full() -> None:
    errors = grown(10, 2000)
    assert [each["attempt"] for each in errors] == list(range(1, 11))
    assert [each["attempt"] for each in errors if each["traceback"]] == [1, 2, 3, 8, 9, 10]
    assert all(each["message"] for each in errors)


def test_a_thousand_errors_drop_the_oldest_between_and_count_them() -> None:
    errors = grown(1200, 20_000)
    marks = [each for each in errors if is_dropped_mark(each)]
    attempts = [each["attempt"] for each in errors if not is_dropped_mark(each)]
    assert len(marks) == 1
    assert errors[3] is marks[0]
    assert marks[0]["dropped"] + len(attempts) == 1200
    assert attempts[:3] == [1, 2, 3]
    assert attempts[3:] == list(range(attempts[3], 1201))


def test_errors_too_large_even_so_are_cut_shorter() -> None:
    errors = grown(8, 64_000)
    kept = [each for each in errors if not is_dropped_mark(each)]
    assert [each["attempt"] for each in kept][-1] == 8
    assert all("characters cut" in each["traceback"] for each in kept if each["traceback"])


def test_characters_that_json_writes_long_count_as_they_are_written() -> None:
    errors: list[dict[str, Any]] = []
    for _ in range(9):
        errors = append_error(errors, {"message": "\x01" * 64_000, "traceback": "\x01" * 64_000})
        assert len(json.dumps(errors).encode()) <= LIST_LIMIT


def test_the_given_list_is_not_changed() -> None:
    errors = [entry(number) for number in range(9)]
    before = json.dumps(errors)
    append_error(errors, entry(10))
    assert json.dumps(errors) == before
