"""One zone for each distinct rule set of 2026 to 2036, and the days on which something may go wrong."""

import functools
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

START = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2037, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
WEEK = timedelta(days=7)

Change = tuple[datetime, timedelta, timedelta]
"""When the clock jumps, and the offsets before and after."""


@functools.cache
def changes(zone: str) -> list[Change]:
    """Every change of a zone's clock in these years, to the second."""
    tz = ZoneInfo(zone)
    found: list[Change] = []
    at = START
    while at < END:
        before, after = offset(at, tz), offset(at + WEEK, tz)
        if before != after:
            low, high = at, at + WEEK
            while high - low > timedelta(seconds=1):
                middle = low + timedelta(seconds=int((high - low).total_seconds()) // 2)
                low, high = (middle, high) if offset(middle, tz) == before else (low, middle)
            found.append((high, before, after))
        at += WEEK
    return found


def offset(at: datetime, tz: ZoneInfo) -> timedelta:
    found = at.astimezone(tz).utcoffset()
    assert found is not None
    return found


@functools.cache
def one_of_each() -> list[str]:
    """The first zone, by name, of each rule set."""
    found: dict[object, str] = {}
    for zone in sorted(available_timezones()):
        found.setdefault((offset(START, ZoneInfo(zone)), tuple(changes(zone))), zone)
    return list(found.values())


def near_changes(zone: str) -> Iterator[tuple[date, date]]:
    """Yield spans of local dates, first and last: three days around each change, and one plain week."""
    tz = ZoneInfo(zone)
    for at, _, _ in changes(zone):
        day = at.astimezone(tz).date()
        yield day - 3 * DAY, day + 3 * DAY
    yield date(2026, 6, 8), date(2026, 6, 14)


def all_days(zone: str) -> Iterator[tuple[date, date]]:
    """Yield the whole time."""
    yield date(2026, 1, 2), date(2036, 12, 30)


def instants_showing(wall: datetime, tz: ZoneInfo) -> list[datetime]:
    """When the clock shows a wall time, reckoned without the code under test."""
    both = {wall.replace(tzinfo=tz, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(at for at in both if at.astimezone(tz).replace(tzinfo=None) == wall)


def midnight(day: date, tz: ZoneInfo) -> datetime:
    """A moment at or before the first of a local date, and after everything of the date before it that is fixed."""
    return datetime.combine(day, time.min, tzinfo=tz).astimezone(UTC)
