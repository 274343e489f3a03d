"""When an entry will fire, for people to look at: fires between two moments, and what each change of the clock does.

Pure; every moment is an argument, and the answers are those of `policy.cron`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from djqueue.policy.cron import CronExpression, missed, next_fire
from djqueue.policy.walltime import offset_change

AROUND = 3
"""Fires shown before and after a change of the clock."""

_DAY = timedelta(days=1)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneChange:
    """The clock of a zone jumps, and the fires around that."""

    at: datetime
    before: str
    after: str
    """What the clock shows just before and just after."""

    fires: list[datetime]


def fires_between(expression: CronExpression, tz: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """Yield the fire times from `start` on and before `end`, in UTC."""
    at = start - _MICROSECOND
    while True:
        try:
            at = next_fire(expression, tz, at)
        except ValueError:
            return
        if at >= end:
            return
        yield at


def zone_changes(expression: CronExpression, tz: ZoneInfo, start: datetime, end: datetime) -> list[ZoneChange]:
    """Return every change of the zone's clock between two moments."""
    found: list[ZoneChange] = []
    day = start.astimezone(UTC)
    while day < end:
        at = offset_change(day, min(day + _DAY, end), tz)
        if at is not None:
            found.append(_change(expression, tz, at))
        day += _DAY
    return found


def _change(expression: CronExpression, tz: ZoneInfo, at: datetime) -> ZoneChange:
    before = list(islice(_backwards(expression, tz, at - _MICROSECOND), AROUND))
    after = list(islice(fires_between(expression, tz, at, datetime.max.replace(tzinfo=UTC)), AROUND))
    return ZoneChange(
        at=at, before=local(at - timedelta(seconds=1), tz), after=local(at, tz), fires=[*reversed(before), *after]
    )


def _backwards(expression: CronExpression, tz: ZoneInfo, until: datetime) -> Iterator[datetime]:
    """Yield fire times up to `until`, the latest first, ten years back at most."""
    first = until - 3650 * _DAY
    while (at := missed(expression, tz, first, until)) is not None:
        yield at
        until = at - _MICROSECOND


def local(at: datetime, tz: ZoneInfo) -> str:
    """Return a moment as the zone's clock shows it, with its name and offset."""
    shown = at.astimezone(tz)
    name = shown.tzname() or ""
    offset = shown.strftime("%z")
    return f"{shown:%Y-%m-%d %H:%M:%S} {offset if name[:1] in '+-' else f'{name} ({offset})'}"
