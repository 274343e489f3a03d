"""A schedule in words: "at 02:30 every day, Paris time".

For people who decide whether an entry says what they meant; the fire times themselves come from `policy.cron`.
"""

from collections.abc import Callable, Iterable, Sequence

from djqueue.policy.cron import CronExpression
from djqueue.policy.cronsyntax import Values

DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
WHICH = ("last", "first", "second", "third", "fourth", "fifth")
MOST_TIMES = 6
"""So many times of day are told one by one."""


def in_words(expression: CronExpression, timezone: str) -> str:
    """Say when an expression fires, in one phrase."""
    minute, hour, days, month, weekdays = expression.fields.values
    parts = [_time(minute, hour), _day(days, weekdays), _month(month)]
    return f"{' '.join(part for part in parts if part)}, {_zone(timezone)}"


def _time(minute: Values, hour: Values) -> str:
    minutes, hours = sorted(minute.numbers), sorted(hour.numbers)
    if len(minutes) * len(hours) <= MOST_TIMES:
        return f"at {_and(f'{h:02}:{m:02}' for h in hours for m in minutes)}"
    if hour.whole and minutes == [0]:
        return "every hour"
    return f"{_minutes(minute)}{_hours(hour)}".replace(" of every hour, ", ", ")


def _minutes(minute: Values) -> str:
    if minute.whole:
        return "every minute"
    numbers = sorted(minute.numbers)
    if (step := _step(numbers, 60)) and numbers[0] == 0:
        return f"every {step} minutes"
    return f"at minute{'s' * (len(numbers) > 1)} {_runs(numbers)} of every hour"


def _hours(hour: Values) -> str:
    if hour.whole:
        return ""
    numbers = sorted(hour.numbers)
    if (step := _step(numbers, 24)) and numbers[0] == 0:
        return f", every {step} hours from 00:00"
    return f", hour{'s' * (len(numbers) > 1)} {_runs(numbers)}"


def _step(numbers: Sequence[int], around: int) -> int:
    """Return the equal distance between numbers that goes on from the last to the first, or 0."""
    step = around // len(numbers)
    equal = len(numbers) > 1 and step > 1 and list(numbers) == list(range(numbers[0], around, step))
    return step if equal and around % step == 0 else 0


def _day(days: Values, weekdays: Values) -> str:
    by_month, by_week = _of_month(days), _of_week(weekdays)
    if by_month and by_week:
        return f"on {by_month}, and also on {by_week}"
    if any(each.whole and not each.starred for each in (days, weekdays)):
        return "every day"
    return f"on {by_month or by_week}" if by_month or by_week else "every day"


def _of_month(days: Values) -> str:
    if days.whole:
        return ""
    numbers = sorted(days.numbers)
    found = [f"day{'s' * (len(numbers) > 1)} {_runs(numbers)}"] if numbers else []
    return f"{_and([*found, *(['the last day'] if days.last else [])])} of the month"


def _of_week(weekdays: Values) -> str:
    if weekdays.whole:
        return ""
    # Monday first, as people count.
    order = sorted(weekdays.numbers, key=lambda day: day or 7)
    plain = [_span(run) for run in _consecutive(order, lambda day: day or 7)]
    nth = [f"the {WHICH[which]} {DAYS[day]} of the month" for day, which in sorted(weekdays.nth)]
    return _and([*plain, *nth])


def _span(run: Sequence[int]) -> str:
    if len(run) < 3:
        return _and(DAYS[day] for day in run)
    return f"{DAYS[run[0]]} to {DAYS[run[-1]]}"


def _month(month: Values) -> str:
    if month.whole:
        return ""
    return f"in {_and(MONTHS[number - 1] for number in sorted(month.numbers))}"


def _zone(name: str) -> str:
    city = name.rpartition("/")[2].replace("_", " ")
    return f"{city} time" if "/" in name and not name.startswith("Etc/") else name


def _runs(numbers: Sequence[int]) -> str:
    return _and(
        f"{run[0]} to {run[-1]}" if len(run) > 2 else _and(map(str, run)) for run in _consecutive(numbers, lambda n: n)
    )


def _consecutive(numbers: Iterable[int], place: Callable[[int], int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and place(number) == place(runs[-1][-1]) + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def _and(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
