"""R17: fixed entries fire exactly once per local date, hourly ones once per real hour, in every zone of 2026 to 2036.

The everyday form looks at the days within three of each change of a zone's clock and at one plain week; with
DJQUEUE_NIGHTLY=1 it looks at all days, which takes some minutes.
"""

import os
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from djqueue.policy.cron import CronExpression, next_fire
from djqueue.policy.cronpreview import fires_between
from tests.policy import zones

NIGHTLY = bool(os.environ.get("DJQUEUE_NIGHTLY"))
TIMES = [time(0, 0), time(0, 30), time(1, 30), time(2, 0), time(2, 30), time(3, 0)]
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)

by_zone = pytest.mark.parametrize("zone", zones.one_of_each())

HALF_HOURS = {
    # The clock goes from 02:00 to 02:30: nothing at 02:00, and 03:00 comes half an hour after it would have.
    ("Australia/LHI", 1): [timedelta(hours=1), timedelta(hours=1.5), timedelta(hours=1)],
    # The clock goes from 02:00 back to 01:30: 02:00 comes half an hour later.
    ("Australia/LHI", -1): [timedelta(hours=1), timedelta(hours=1.5), timedelta(hours=1)],
}
"""Real time between the hourly fires around a change by half an hour, by the zone and the change's direction."""


def spans(zone: str) -> Iterator[tuple[date, date]]:
    return zones.all_days(zone) if NIGHTLY else zones.near_changes(zone)


def fires(text: str, zone: str, first: date, last: date) -> list[datetime]:
    """All fires on some local dates, by the clock of the zone."""
    tz = ZoneInfo(zone)
    start, end = (zones.midnight(day, tz) for day in (first - zones.DAY, last + 2 * zones.DAY))
    found = fires_between(CronExpression.parse(text), tz, start, end)
    return [at for at in found if first <= at.astimezone(tz).date() <= last]


def is_right(at: datetime, day: date, wall: time, tz: ZoneInfo) -> bool:
    """Tell whether this is the instant of the rule for a local date and time, reckoned without the code under test."""
    nominal = datetime.combine(day, wall)
    shown = zones.instants_showing(nominal, tz)
    if shown:
        return at == shown[0]
    before = (at - SECOND).astimezone(tz).replace(tzinfo=None)
    return before < nominal < at.astimezone(tz).replace(tzinfo=None)


def test_there_are_zones_of_all_kinds() -> None:
    """A machine without a zone database would make the other tests true."""
    directions = {(after - before) for zone in zones.one_of_each() for _, before, after in zones.changes(zone)}

    assert len(zones.one_of_each()) > 50
    assert {HOUR, -HOUR, HOUR / 2, -HOUR / 2} <= directions


@by_zone
def test_r17_a_fixed_entry_fires_exactly_once_per_local_date(zone: str) -> None:
    tz = ZoneInfo(zone)
    for wall in TIMES:
        for first, last in spans(zone):
            found = fires(f"{wall.minute} {wall.hour} * * *", zone, first, last)
            dates = [at.astimezone(tz).date() for at in found]

            assert dates == [first + number * zones.DAY for number in range((last - first).days + 1)]
            assert all(is_right(at, day, wall, tz) for at, day in zip(found, dates, strict=True))
            assert all(one < other for one, other in pairwise(found))


@by_zone
def test_r17_an_hourly_entry_fires_once_per_real_hour(zone: str) -> None:
    halves = [at for at, before, after in zones.changes(zone) if (after - before) % HOUR]
    for first, last in spans(zone):
        found = fires("0 * * * *", zone, first, last)
        for one, other in pairwise(found):
            if not any(one < at <= other for at in halves):
                assert other - one == HOUR


@pytest.mark.parametrize(("zone", "direction"), HALF_HOURS)
def test_r17_an_hourly_entry_where_the_clock_changes_by_half_an_hour(zone: str, direction: int) -> None:
    assert zone in zones.one_of_each(), "the table names zones by their first name"
    tz = ZoneInfo(zone)
    for at, before, after in zones.changes(zone):
        if (after > before) is (direction > 0):
            found = fires("0 * * * *", zone, at.astimezone(tz).date() - zones.DAY, at.astimezone(tz).date() + zones.DAY)
            place = max(number for number, fire in enumerate(found) if fire < at)
            around = found[place - 1 : place + 3]
            steps = [other - one for one, other in pairwise(around)]
            assert steps == HALF_HOURS[zone, direction]


def test_every_zone_with_half_hours_is_in_the_table() -> None:
    with_halves = {
        (zone, 1 if after > before else -1)
        for zone in zones.one_of_each()
        for _, before, after in zones.changes(zone)
        if (after - before) % HOUR
    }

    assert with_halves == set(HALF_HOURS)


@by_zone
def test_r17_half_past_every_hour_and_each_minute_are_fired_whenever_the_clock_shows_them(zone: str) -> None:
    tz = ZoneInfo(zone)
    for at, _, _ in zones.changes(zone)[:4]:
        for text, minutes in (("30 * * * *", {30}), ("*/20 * * * *", {0, 20, 40})):
            start = (at - 3 * HOUR).replace(second=0)
            clock = [start + timedelta(minutes=number) for number in range(6 * 60)]
            shown = [moment for moment in clock if moment.astimezone(tz).minute in minutes]
            assert list(fires_between(CronExpression.parse(text), tz, start, start + 6 * HOUR)) == shown


@by_zone
def test_r17_going_through_the_fires_one_by_one_never_goes_back(zone: str) -> None:
    """From any moment around a change, whatever the moment."""
    tz = ZoneInfo(zone)
    expressions = [CronExpression.parse(text) for text in ("30 2 * * *", "0 0 * * *", "*/30 * * * *", "0 1-3 * * *")]
    for at, _, _ in zones.changes(zone)[:2]:
        for minutes in range(-150, 151, 10):
            moment = at + timedelta(minutes=minutes)
            for expression in expressions:
                assert moment < next_fire(expression, tz, moment) <= moment + 49 * HOUR


def test_the_zones_are_those_of_the_years_that_are_said() -> None:
    assert zones.changes("Europe/Paris")[0] == (datetime(2026, 3, 29, 1, tzinfo=UTC), HOUR, 2 * HOUR)
    assert len(zones.changes("Europe/Paris")) == 22
