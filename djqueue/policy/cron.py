"""When a cron entry fires: croniter finds the next time on the wall clock, the rule here says which instant that is.

    fixed    "30 2 * * *"     once for each matching wall time: one that a gap swallows fires right after the gap,
                              one that the clock shows twice fires the first time
    elapsed  "*/30 * * * *"   whenever the clock shows a matching time: nothing in a gap, twice in a repeated hour

An entry is fixed when its minute and its hour are plain numbers, lists or ranges; a `*` or a step makes it elapsed.
(cron(8) of Debian, which calls the latter wildcard jobs, looks for a `*` at the beginning of either field only.)
A date that the zone left out altogether does not count as a matching date. Day of month and day of week, where both
are given, match if either does: each is asked of croniter by itself, and the nearer answer counts.

The invariant: `next_fire` goes strictly forward, and `missed` names only times that `next_fire` names as well.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from croniter import croniter

from djqueue.policy.cronsyntax import DAY_OF_MONTH, DAY_OF_WEEK, LAST, Fields, Values, read_fields
from djqueue.policy.walltime import date_exists, first_instant_from, instants_of, offset_change, wall_at

EVER = datetime(2000, 1, 1)  # noqa: DTZ001 - a wall time
WINDOW = timedelta(hours=26)
"""No zone ever repeated more than a day."""

MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CronExpression:
    """A valid expression; make it with `parse`."""

    text: str
    """Five fields, parted by single spaces; an alias is written out, `H` is replaced by its number."""

    fixed: bool
    """Minute and hour are fixed; False: the entry follows elapsed time."""

    fields: Fields
    branches: tuple[str, ...]
    """What croniter is asked; a wall time matches if it matches one of them."""

    @classmethod
    def parse(cls, text: str, name: str | None = None) -> "CronExpression":
        """Read five fields or an alias; `name` is the entry's, for `H`.

        Raises `ValueError` with what was expected and an example.
        """
        fields = read_fields(text, name)
        fixed = not any("*" in word or "/" in word for word in fields.words[:2])
        expression = cls(text=" ".join(fields.words), fixed=fixed, fields=fields, branches=_branches(fields))
        try:
            expression.wall_after(EVER)
        except ValueError:
            raise ValueError(
                f"cron: expected an expression that fires some day, got {text!r}, whose date is in no calendar; "
                'for example "0 0 28 2 *" (28 February)'
            ) from None
        return expression

    def wall_after(self, wall: datetime) -> datetime:
        """Return the next matching wall time after `wall`. Raises `ValueError` where the calendar ends."""
        return self._step(wall.replace(second=0, microsecond=0), forward=True)

    def wall_until(self, wall: datetime) -> datetime:
        """Return the last matching wall time up to and with `wall`. Raises `ValueError` where the calendar begins."""
        return self._step(wall.replace(second=1, microsecond=0), forward=False)

    def _step(self, wall: datetime, *, forward: bool) -> datetime:
        found = [each for branch in self.branches if (each := _nearest(branch, wall, forward=forward))]
        if not found:
            raise ValueError(f"cron: {self.text!r} has no further time {'after' if forward else 'until'} {wall}")
        return min(found) if forward else max(found)


def _branches(fields: Fields) -> tuple[str, ...]:
    """Return one expression without a union for each way to match a day.

    All are lists of numbers: a range that means one number (`2-2`) would mean all to croniter.
    """
    minute, hour, _, month, _ = (_listed(each) for each in fields.values)
    days, weekdays = fields.values[DAY_OF_MONTH], fields.values[DAY_OF_WEEK]
    # A star leaves the matter to the other field; "1-31" or "0-6" spelt out is every day, whatever the other says.
    if any(each.whole and not each.starred for each in (days, weekdays)):
        days = weekdays = Values(numbers=frozenset(), whole=True)
    pairs = [] if days.whole else [(_listed(days), "*")]
    if not weekdays.whole:
        pairs += [("*", _listed(weekdays))] if weekdays.numbers else []
        pairs += [("*", f"l{day}" if which == 0 else f"{day}#{which}") for day, which in sorted(weekdays.nth)]
    return tuple(f"{minute} {hour} {day} {month} {weekday}" for day, weekday in pairs or [("*", "*")])


def _listed(values: Values) -> str:
    if values.whole:
        return "*"
    return ",".join([*map(str, sorted(values.numbers)), *([LAST] if values.last else [])])


def _nearest(branch: str, wall: datetime, *, forward: bool) -> datetime | None:
    """Return croniter's answer, None where the calendar has no such date or ends."""
    try:
        steps: Any = croniter(branch, wall, ret_type=datetime)
        found: datetime = steps.get_next() if forward else steps.get_prev()
    except (OverflowError, ValueError):
        return None
    return found


def next_fire(expression: CronExpression, tz: ZoneInfo, after: datetime) -> datetime:
    """Return the first fire time after `after` (aware), in UTC. Raises `ValueError` where the calendar ends."""
    _check_aware("after", after)
    try:
        return _next_fixed(expression, tz, after) if expression.fixed else _next_elapsed(expression, tz, after)
    except OverflowError as fault:
        raise ValueError(f"cron: {expression.text!r} has no further time after {after}") from fault


def missed(expression: CronExpression, tz: ZoneInfo, last: datetime, now: datetime) -> datetime | None:
    """Return the latest fire time after `last` and not after `now`, in UTC; None if there was none.

    It steps back from now, so it costs the same after a minute and after ten years.
    """
    _check_aware("last", last)
    _check_aware("now", now)
    if now <= last:
        return None
    found = _latest_fixed(expression, tz, now) if expression.fixed else _latest_elapsed(expression, tz, now)
    return found if found > last else None


def _next_fixed(expression: CronExpression, tz: ZoneInfo, after: datetime) -> datetime:
    wall = wall_at(after, tz)
    while True:
        wall = expression.wall_after(wall)
        instant = _fixed_instant(wall, tz)
        if instant is not None and instant > after:
            return instant


def _latest_fixed(expression: CronExpression, tz: ZoneInfo, now: datetime) -> datetime:
    wall = wall_at(now, tz)
    first, *again = instants_of(wall, tz)
    if again:
        # The second pass: later walls of the repeated hour have had their (first) turn already.
        wall += again[0] - first
    while True:
        wall = expression.wall_until(wall)
        instant = _fixed_instant(wall, tz)
        if instant is not None and instant <= now:
            return instant
        wall -= timedelta(minutes=1)


def _fixed_instant(wall: datetime, tz: ZoneInfo) -> datetime | None:
    instant = first_instant_from(wall, tz)
    return instant if wall_at(instant, tz) == wall or date_exists(wall.date(), tz) else None


def _next_elapsed(expression: CronExpression, tz: ZoneInfo, after: datetime) -> datetime:
    wall = expression.wall_after(wall_at(after, tz))
    change = offset_change(after, after + WINDOW, tz)
    if change is not None and not _shown_between(wall, after + MICROSECOND, change, tz):
        after = change - MICROSECOND
        wall = expression.wall_after(wall_at(change, tz) - MICROSECOND)
    while True:
        for instant in instants_of(wall, tz):
            if instant > after:
                return instant
        wall = expression.wall_after(wall)


def _latest_elapsed(expression: CronExpression, tz: ZoneInfo, now: datetime) -> datetime:
    wall = expression.wall_until(wall_at(now, tz))
    change = offset_change(now - WINDOW, now, tz)
    if change is not None and not _shown_between(wall, change, now + MICROSECOND, tz):
        now = change - MICROSECOND
        wall = expression.wall_until(wall_at(now, tz))
    while True:
        for instant in reversed(instants_of(wall, tz)):
            if instant <= now:
                return instant
        wall = expression.wall_until(wall - timedelta(minutes=1))


def _shown_between(wall: datetime, start: datetime, end: datetime, tz: ZoneInfo) -> bool:
    """Tell whether the clock shows this wall time from `start` on and before `end`."""
    return any(start <= instant < end for instant in instants_of(wall, tz))


def _check_aware(name: str, value: datetime) -> None:
    if value.tzinfo is None:
        raise ValueError(f"{name}: expected a datetime with a time zone, got {value!r}")
