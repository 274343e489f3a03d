"""R17: what is no cron expression, or never fires, is refused with what was expected and an example."""

from datetime import datetime

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
        ("* L * * *", "hour: expected 0 to 23, got 'l'"),
        ("* * 5L * *", "day of month: expected 1 to 31, got '5l'"),
        ("* * * * L", "day of week: .*got 'l'; name the day before L"),
        ("* * * * L5", "got 'l5'; name the day before L"),
        ("* * * * fri#0", "expected # with 1 to 5"),
        ("* * * * fri#6", "expected # with 1 to 5"),
        ("* * fri#2 * *", "day of month: expected a number"),
        ("* * * * 9#1", "day of week: expected 0 to 7 or sun to sat, got '9'"),
        ("* * 15W * *", "got '15w'; W .* name the days of the week"),
        ("* * LW * *", "got 'lw'; W "),
        ("H * * * *", "minute: expected the name of an entry beside H"),
        ("R * * * *", "got 'r'; .*write H"),
        ("? * * * *", r"minute: expected a number.*write \*"),
        ("0 0 */2 * mon", 'some crons want both to match.*write "1-31/2"'),
        ("0 0 13 * */2", 'some crons want both to match.*write "0-6/2"'),
        ("0 0 */2 * */2", "some crons want both to match"),
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
        ("0 0-23 * * *", True),
        ("0-59 2 * * *", True),
        ("0 2-2 * * *", True),
        ("30 2 */2 * *", True),
    ],
)
def test_an_entry_is_fixed_when_its_minute_and_hour_are(text: str, fixed: bool) -> None:
    assert CronExpression.parse(text).fixed is fixed


def test_a_leap_day_fires_some_day() -> None:
    assert CronExpression.parse("0 0 29 2 *")


def days(text: str, count: int, name: str | None = None) -> list[str]:
    """The first dates of 2026 on which an expression fires."""
    expression = CronExpression.parse(text, name)
    wall = datetime(2025, 12, 31, 23, 59)  # noqa: DTZ001 - a wall time
    found = []
    for _ in range(count):
        wall = expression.wall_after(wall)
        found.append(f"{wall:%m-%d}")
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 0 L * *", ["01-31", "02-28", "03-31"]),
        ("0 0 1,L * *", ["01-01", "01-31", "02-01"]),
        ("0 0 L 2 *", ["02-28", "02-28", "02-29"]),
        ("0 0 * * fri#2", ["01-09", "02-13", "03-13"]),
        ("0 0 * * 5#2", ["01-09", "02-13", "03-13"]),
        ("0 0 * * 7#1", ["01-04", "02-01", "03-01"]),
        ("0 0 * * friL", ["01-30", "02-27", "03-27"]),
        ("0 0 * * 5L", ["01-30", "02-27", "03-27"]),
        ("0 0 * * mon#5", ["03-30", "06-29", "08-31"]),
        ("0 0 * * wed,fri#1", ["01-02", "01-07", "01-14"]),
    ],
)
def test_last_days_and_numbered_weekdays_are_found(text: str, expected: list[str]) -> None:
    assert days(text, 3) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 0 13 * fri", ["01-02", "01-09", "01-13", "01-16"]),
        ("0 0 13 * fri#2", ["01-09", "01-13", "02-13", "03-13"]),
        ("0 0 L * friL", ["01-30", "01-31", "02-27", "02-28"]),
        ("0 0 1-31/10 * mon", ["01-01", "01-05", "01-11", "01-12"]),
        ("0 0 1-31 * mon", ["01-01", "01-02", "01-03", "01-04"]),
        ("0 0 13 * 0-6", ["01-01", "01-02", "01-03", "01-04"]),
        ("0 0 */2 * *", ["01-01", "01-03", "01-05", "01-07"]),
        ("0 0 31 2 mon", ["02-02", "02-09", "02-16", "02-23"]),
    ],
)
def test_day_of_month_and_day_of_week_are_a_union(text: str, expected: list[str]) -> None:
    assert days(text, 4) == expected


@pytest.mark.parametrize(
    ("text", "same"),
    [("10 2-2 * * *", "10 2 * * *"), ("5-5 * * 3-3 mon-mon", "5 * * 3 1"), ("0 0 7-7 * *", "0 0 7 * *")],
)
def test_a_range_of_one_number_is_that_number(text: str, same: str) -> None:
    assert CronExpression.parse(text).branches == CronExpression.parse(same).branches
    assert days(text, 4) == days(same, 4)


def test_h_is_the_same_for_a_name_and_spreads_names() -> None:
    times = [CronExpression.parse("H H(0-5) * * *", f"entry {number}").text for number in range(600)]
    minutes = {text.split()[0] for text in times}
    hours = [text.split()[1] for text in times]

    assert times[7] == CronExpression.parse("h h(0-5) * * *", "entry 7").text
    assert len(minutes) == 60
    assert set(hours) == set("012345")
    assert max(hours.count(hour) for hour in "012345") < 200
    assert all(CronExpression.parse(text).fixed for text in times)


def test_h_of_a_name_never_changes() -> None:
    """Another number after an upgrade would fire an entry twice that day, or not at all."""
    assert CronExpression.parse("H H H H H", "nightly").text == "59 0 22 4 5"


def test_h_with_a_step_starts_somewhere_and_follows_elapsed_time() -> None:
    expression = CronExpression.parse("H/15 * * * *", "nightly")

    assert expression.text == "14-59/15 * * * *"
    assert not expression.fixed
    assert all(CronExpression.parse("0 0 H * *", f"entry {number}") for number in range(100))


@given(
    st.text()
    | st.text("0123456789*/,-@ \tjanmolhw#?()", max_size=20)
    | st.from_regex(r"(\S{1,4} ){4}\S{1,4}", fullmatch=True)
)
def test_any_text_is_read_or_refused_with_a_value_error(text: str) -> None:
    try:
        expression = CronExpression.parse(text, "entry")
    except ValueError as fault:
        assert str(fault).startswith("cron: ")
    else:
        assert CronExpression.parse(expression.text) == expression
