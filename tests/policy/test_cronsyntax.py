"""R17: what is no cron expression, or never fires, is refused with what was expected and an example."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from djqueue.policy.cron import CronExpression
from djqueue.policy.cronsyntax import ALIASES


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected five fields or an alias, got blank text"),
        (" \t\n", "got blank text"),
        ("* * * *", "expected five fields .*, got 4"),
        ("0 * * * * *", "expected five fields .*, got 6"),
        ("* * * * * 2026 *", "expected five fields .*, got 7"),
        ("@reboot", "expected one of @hourly, .* got '@reboot'"),
        ("@daily 5", "expected one of @hourly"),
        ("*/0 * * * *", r"minute: expected a step from 1 to 59, got '\*/0'"),
        ("*/60 * * * *", "minute: expected a step from 1 to 59"),
        ("* 5/2 * * *", r'hour: expected a step after \* or a range.*"5-23/2"'),
        ("60 * * * *", "minute: expected 0 to 59, got '60'"),
        ("-1 * * * *", "minute: expected a number, a range"),
        ("* 24 * * *", "hour: expected 0 to 23, got '24'"),
        ("* * 0 * *", "day of month: expected 1 to 31, got '0'"),
        ("* * * 13 *", "month: expected 1 to 12 or jan to dec, got '13'"),
        ("* * * * 8", "day of week: expected 0 to 7 or sun to sat, got '8'"),
        ("* * * * friday", "got 'friday'"),
        ("* 22-2 * * *", 'hour: expected a range that ascends.*"22-23,0-2"'),
        ("* * L * *", "day of month: expected 1 to 31, got 'l'"),
        ("* * * * fri#2", "day of week: expected a number, a range"),
        ("* * 15W * *", "got '15w'"),
        ("H * * * *", "got 'h'"),
        ("R * * * *", "got 'r'"),
        ("? * * * *", "minute: expected a number"),
        ("1,,2 * * * *", "minute: expected a number"),
        ("\u0661 * * * *", "minute: expected a number"),
        ("every day at 5", "expected five fields"),
        ("every day at 5 o'clock", "minute: expected|expected five fields"),
        ("0 0 31 2 *", "expected an expression that fires some day, got '0 0 31 2"),
        ("0 0 31 4,6,9,11 *", "fires some day"),
    ],
)
def test_r17_a_bad_expression_is_refused_with_what_was_expected_and_an_example(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected) as caught:
        CronExpression.parse(text)
    assert str(caught.value).startswith("cron: ")
    assert any(words in str(caught.value) for words in ("for example", "write"))


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases_are_written_out(alias: str) -> None:
    assert CronExpression.parse(f" {alias.upper()} ").text == ALIASES[alias]


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("30 2 * * *", True),
        ("0,30 1-3 * * mon-fri", True),
        ("@daily", True),
        ("* 2 * * *", False),
        ("30 * * * *", False),
        ("0-30/10 2 * * *", False),
        ("0 */6 * * *", False),
        ("0 0-23 * * *", False),
        ("30 2 */2 * *", True),
    ],
)
def test_an_entry_is_fixed_when_its_minute_and_hour_are(text: str, fixed: bool) -> None:
    assert CronExpression.parse(text).fixed is fixed


def test_a_leap_day_fires_some_day() -> None:
    assert CronExpression.parse("0 0 29 2 *")


@given(
    st.text()
    | st.text("0123456789*/,-@ \tjanmolw#?", max_size=20)
    | st.from_regex(r"(\S{1,4} ){4}\S{1,4}", fullmatch=True)
)
def test_any_text_is_read_or_refused_with_a_value_error(text: str) -> None:
    try:
        expression = CronExpression.parse(text)
    except ValueError as fault:
        assert str(fault).startswith("cron: ")
    else:
        assert CronExpression.parse(expression.text) == expression
