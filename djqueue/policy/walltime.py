"""What a wall clock shows, and when: the two questions where daylight saving time bites.

    wall clock        01:59 │ 03:00                       a gap: 02:00 to 02:59 are never shown
    ─────────────────────── T ─────────────► time
    wall clock  02:00 02:59 │ 02:00 02:59 03:00           a repeated hour: 02:00 to 02:59 are shown twice

Walls are naive datetimes, instants are aware ones in UTC. The invariant: nothing here adds seconds to a wall and takes
the sum for a time that has passed.
"""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

SECOND = timedelta(seconds=1)


def wall_at(instant: datetime, tz: ZoneInfo) -> datetime:
    """Return what the wall clock shows at an instant."""
    return instant.astimezone(tz).replace(tzinfo=None, fold=0)


def instants_of(wall: datetime, tz: ZoneInfo) -> list[datetime]:
    """Return when the clock shows this: none in a gap, two in a repeated hour, one otherwise; earliest first."""
    both = {wall.replace(tzinfo=tz, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(instant for instant in both if wall_at(instant, tz) == wall)


def first_instant_from(wall: datetime, tz: ZoneInfo) -> datetime:
    """Return when the clock first shows this or, where a gap swallows it, the instant right after the gap."""
    if instants := instants_of(wall, tz):
        return instants[0]
    # In a gap, fold 1 reckons with the offset after it and lands before it, and fold 0 the other way round.
    before, after = (wall.replace(tzinfo=tz, fold=fold).astimezone(UTC) for fold in (1, 0))
    return offset_change(before, after, tz) or after


def date_exists(day: date, tz: ZoneInfo) -> bool:
    """Tell whether the zone had this date at all (Samoa had no 30 December 2011)."""
    midnight = datetime.combine(day, time.min)
    return wall_at(first_instant_from(midnight, tz), tz).date() == day


def offset_change(start: datetime, end: datetime, tz: ZoneInfo) -> datetime | None:
    """Return the first instant after `start` with another offset than `start`'s, if `end` has another one.

    Meant for a day or two, within which no zone changes twice.
    """
    low, high = start.astimezone(UTC).replace(microsecond=0), end.astimezone(UTC)
    old = low.astimezone(tz).utcoffset()
    if high.astimezone(tz).utcoffset() == old:
        return None
    high = high.replace(microsecond=0)
    while high - low > SECOND:
        middle = low + (high - low) // 2
        middle = middle.replace(microsecond=0)
        if middle.astimezone(tz).utcoffset() == old:
            low = middle
        else:
            high = middle
    return high
