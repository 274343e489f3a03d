"""R17: fire times around changes of the clock, against a reckoning by brute force, minute by minute."""

import functools
from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from djqueue.policy.cron import CronExpression, missed, next_fire

MINUTE = timedelta(minutes=1)
CHANGES = [
    ("Europe/Paris", date(2026, 3, 29)),
    ("Europe/Paris", date(2026, 10, 25)),
    ("America/New_York", date(2026, 3, 8)),
    ("America/New_York", date(2026, 11, 1)),
    ("Australia/Lord_Howe", date(2026, 4, 5)),
    ("Australia/Lord_Howe", date(2026, 10, 4)),
    ("Asia/Kolkata", date(2026, 3, 29)),
    ("America/Sao_Paulo", date(2018, 2, 18)),
    ("America/Sao_Paulo", date(2018, 11, 4)),
    ("Africa/Casablanca", date(2025, 2, 23)),
    ("Africa/Casablanca", date(2025, 4, 6)),
    ("America/Toronto", date(1919, 3, 31)),
    ("Pacific/Kwajalein", date(1969, 10, 1)),
    ("Pacific/Apia", date(2011, 12, 30)),
]
MINUTES = ["*", "*/7", "0-50/10", "0", "30", "0,15,45", "10-20", "0-59", "59"]
HOURS = ["*", "*/2", "1-5/3", "0", "1", "2", "3", "0-4", "2,12", "23", "0-23", "12"]
DAYS = [("*", "*"), ("*", "sun"), ("*", "1-5"), ("*", "7"), ("*", "fri"), ("even", "*"), ("even", "mon")]


@functools.cache
def clock(zone: str, day: date) -> list[tuple[datetime, datetime]]:
    """Each minute of six days around a date, as (instant, wall)."""
    start = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(days=3)
    instants = [start + MINUTE * number for number in range(6 * 24 * 60)]
    return [(instant, instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None)) for instant in instants]


def numbers(text: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for item in text.split(","):
        span, _, step = item.partition("/")
        first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
        found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def matcher(text: str) -> Callable[[datetime], bool]:
    minute, hour, day, _, weekday = text.replace("sun", "0").replace("mon", "1").replace("fri", "5").split()
    minutes, hours, days = numbers(minute, 0, 59), numbers(hour, 0, 23), numbers(day, 1, 31)
    weekdays = {number % 7 for number in numbers(weekday, 0, 7)}
    either = any if day != "*" and weekday != "*" else all

    def matches(wall: datetime) -> bool:
        on_day = either((wall.day in days, wall.isoweekday() % 7 in weekdays))
        return wall.minute in minutes and wall.hour in hours and on_day

    return matches


def by_brute_force(text: str, minutes: list[tuple[datetime, datetime]], *, fixed: bool) -> list[datetime]:
    """All fire times within these minutes, by the definition of the rule."""
    matches = matcher(text)
    if not fixed:
        return [instant for instant, wall in minutes if matches(wall)]
    dates = {wall.date() for _, wall in minutes}
    first_shown: dict[datetime, datetime] = {}
    for instant, wall in minutes:
        first_shown.setdefault(wall, instant)
    fires = set()
    wall, last = min(first_shown), max(first_shown)
    while wall <= last:
        if matches(wall) and wall.date() in dates:
            fires.add(first_shown.get(wall) or next(instant for instant, shown in minutes if shown > wall))
        wall += MINUTE
    return sorted(fires)


def near_the_change(minutes: list[tuple[datetime, datetime]]) -> st.SearchStrategy[datetime]:
    """Moments up to 75 minutes before and after the clock jumps, if it does."""
    offsets = [wall - instant.replace(tzinfo=None) for instant, wall in minutes]
    jump = next((number for number in range(1, len(minutes)) if offsets[number] != offsets[number - 1]), 4320)
    return st.integers(min_value=jump - 75, max_value=jump + 75).map(lambda number: minutes[number][0])


@pytest.mark.parametrize(("zone", "day"), CHANGES, ids=lambda value: str(value))
@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_r17_fire_times_around_a_change_are_those_of_the_rule(zone: str, day: date, data: st.DataObject) -> None:
    month_day, weekday = data.draw(st.sampled_from(DAYS))
    month_day = month_day.replace("even", "2-30/2")
    text = f"{data.draw(st.sampled_from(MINUTES))} {data.draw(st.sampled_from(HOURS))} {month_day} * {weekday}"
    expression = CronExpression.parse(text)
    minutes = clock(zone, day)
    fires = by_brute_force(text, minutes, fixed=expression.fixed)
    inner = [instant for instant in fires if minutes[1440][0] <= instant <= minutes[-1440][0]]
    moments = near_the_change(minutes) | st.sampled_from([instant for instant, _ in minutes[1440:-1440]])
    for _ in range(5):
        now = data.draw(moments | st.sampled_from(inner) if inner else moments)
        now += data.draw(st.sampled_from([timedelta(0), timedelta(microseconds=1), timedelta(seconds=59)]))
        position = bisect_right(fires, now)
        if position < len(fires):
            assert next_fire(expression, ZoneInfo(zone), now) == fires[position]
        latest = fires[position - 1] if position else None
        assert missed(expression, ZoneInfo(zone), minutes[0][0] - MINUTE, now) == latest


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


def upcoming(text: str, zone: str, after: datetime, count: int) -> list[datetime]:
    fires = []
    for _ in range(count):
        after = next_fire(CronExpression.parse(text), ZoneInfo(zone), after)
        fires.append(after)
    return fires


def test_r17_a_fixed_time_in_a_gap_fires_right_after_the_gap_and_once() -> None:
    fires = upcoming("30 2 * * *", "Europe/Paris", utc(2026, 3, 28, 12), 2)
    assert fires == [utc(2026, 3, 29, 1, 0), utc(2026, 3, 30, 0, 30)]


def test_r17_a_fixed_time_in_a_repeated_hour_fires_the_first_time_only() -> None:
    fires = upcoming("30 2 * * *", "Europe/Paris", utc(2026, 10, 24, 12), 2)
    assert fires == [utc(2026, 10, 25, 0, 30), utc(2026, 10, 26, 1, 30)]


def test_r17_every_half_hour_stays_every_half_hour_through_both_changes() -> None:
    for start in (utc(2026, 3, 28, 22), utc(2026, 10, 24, 22)):
        fires = upcoming("*/30 * * * *", "Europe/Paris", start, 16)
        assert fires == [start + timedelta(minutes=30) * number for number in range(1, 17)]


def test_r17_the_second_pass_of_an_hour_is_reached_from_its_first_and_looks_back_to_it() -> None:
    paris = ZoneInfo("Europe/Paris")
    before = utc(2026, 10, 24)
    assert next_fire(CronExpression.parse("10 * * * *"), paris, utc(2026, 10, 25, 0, 30)) == utc(2026, 10, 25, 1, 10)
    for text in ("50 2 * * *", "50 * * * *"):
        assert missed(CronExpression.parse(text), paris, before, utc(2026, 10, 25, 1, 20)) == utc(2026, 10, 25, 0, 50)


def test_r17_several_fixed_times_in_one_gap_fire_once_together() -> None:
    fires = upcoming("0,30 2 * * *", "Europe/Paris", utc(2026, 3, 28, 12), 2)
    assert fires == [utc(2026, 3, 29, 1, 0), utc(2026, 3, 30, 0, 0)]


def test_r17_a_gap_of_half_an_hour_ends_at_its_own_end() -> None:
    assert upcoming("15 2 * * *", "Australia/Lord_Howe", utc(2026, 10, 3, 0), 1) == [utc(2026, 10, 3, 15, 30)]


def test_r17_midnight_in_a_gap_fires_at_the_start_of_that_date() -> None:
    assert upcoming("@daily", "America/Sao_Paulo", utc(2018, 11, 3, 12), 1) == [utc(2018, 11, 4, 3, 0)]


def test_r17_a_date_that_the_zone_left_out_does_not_fire() -> None:
    fires = upcoming("0 12 * * *", "Pacific/Apia", utc(2011, 12, 29, 12), 2)
    assert [fire.astimezone(ZoneInfo("Pacific/Apia")).day for fire in fires] == [29, 31]


def test_r17_six_hours_down_with_a_job_each_minute_is_one_missed_run() -> None:
    expression = CronExpression.parse("* * * * *")
    now = utc(2026, 5, 1, 12, 0, 30)
    assert missed(expression, ZoneInfo("UTC"), now - timedelta(hours=6), now) == utc(2026, 5, 1, 12, 0)


@pytest.mark.parametrize("text", ["* * * * *", "30 2 * * *", "0 0 29 2 *", "*/5 9-17 * * mon-fri"])
def test_r17_the_missed_run_after_a_thousand_years_is_found_in_a_few_steps(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    step = CronExpression._step

    def counted(self: CronExpression, wall: datetime, *, forward: bool) -> datetime:
        nonlocal steps
        steps += 1
        return step(self, wall, forward=forward)

    expression = CronExpression.parse(text)
    monkeypatch.setattr(CronExpression, "_step", counted)
    assert missed(expression, ZoneInfo("Europe/Paris"), utc(1026, 1, 1), utc(2026, 10, 25, 12)) is not None
    assert steps < 5


def test_nothing_was_missed_up_to_the_last_fire_or_when_the_clock_went_back() -> None:
    expression = CronExpression.parse("0 * * * *")
    fire = utc(2026, 5, 1, 12)
    assert missed(expression, ZoneInfo("UTC"), fire - MINUTE, fire) == fire
    assert missed(expression, ZoneInfo("UTC"), fire, fire + MINUTE) is None
    assert missed(expression, ZoneInfo("UTC"), fire, fire - timedelta(days=1)) is None


def test_moments_may_come_in_any_zone_and_fires_are_in_utc() -> None:
    after = datetime(2026, 7, 1, 5, 0, tzinfo=ZoneInfo("Asia/Kolkata"))
    fire = next_fire(CronExpression.parse("0 2 * * *"), ZoneInfo("Europe/Paris"), after)
    assert fire == utc(2026, 7, 1, 0, 0)
    assert fire.tzinfo is UTC


def test_naive_moments_and_the_end_of_the_calendar_are_value_errors() -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001
    expression = CronExpression.parse("@yearly")
    with pytest.raises(ValueError, match="after: expected a datetime with a time zone"):
        next_fire(expression, ZoneInfo("UTC"), naive)
    with pytest.raises(ValueError, match="last: expected a datetime with a time zone"):
        missed(expression, ZoneInfo("UTC"), naive, utc(2026, 1, 1))
    for text in ("@yearly", "* * * * *"):
        with pytest.raises(ValueError, match="has no further time after"):
            next_fire(CronExpression.parse(text), ZoneInfo("Europe/Paris"), datetime.max.replace(tzinfo=UTC))
