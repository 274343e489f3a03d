"""Schedules of django-celery-beat as cron expressions, or the reason why one can't be.

Celery wants day of month and day of week both to match, and counts intervals from the last run; cron does neither. A
schedule for which that makes a difference that can't be written is refused, one where it is small is told.
"""

from dataclasses import dataclass

from djqueue.policy.cronsyntax import DAY_OF_MONTH, DAY_OF_WEEK, read_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """A cron expression, or why there is none; `note`: what will be different."""

    schedule: str = ""
    problem: str = ""
    note: str = ""


def crontab(minute: str, hour: str, day_of_month: str, month_of_year: str, day_of_week: str) -> Translated:
    """Translate a crontab schedule; the arguments are celery's fields."""
    words = ["".join(word.split()) for word in (minute, hour, day_of_month, month_of_year, day_of_week)]
    schedule = " ".join(words)
    try:
        values = read_fields(schedule).values
    except ValueError as fault:
        return Translated(problem=str(fault))
    if not values[DAY_OF_MONTH].whole and not values[DAY_OF_WEEK].whole:
        return Translated(problem="celery fires where day of month and day of week both match, cron where either does")
    for place in (DAY_OF_MONTH, DAY_OF_WEEK):
        words[place] = "*" if values[place].whole else words[place]
    return Translated(schedule=" ".join(words))


def interval(every: int, period: str) -> Translated:
    """Translate an interval that divides the clock evenly."""
    note = "celery counts from the last run, cron by the clock"
    match period:
        case "minutes" if every in _divisors(60):
            return Translated(schedule="* * * * *" if every == 1 else f"*/{every} * * * *", note=note)
        case "minutes" if every > 0 and every % 60 == 0:
            return interval(every // 60, "hours")
        case "hours" if every in _divisors(24):
            return Translated(schedule="0 * * * *" if every == 1 else f"0 */{every} * * *", note=note)
        case "hours" if every == 24:
            return Translated(schedule="0 0 * * *", note=note)
        case "days" if every == 1:
            return Translated(schedule="0 0 * * *", note=note)
        case "days" if every == 7:
            return Translated(schedule="0 0 * * 0", note=note)
    return Translated(problem=f"every {every} {period} is no part of an hour or a day that cron can count")


def _divisors(number: int) -> set[int]:
    return {each for each in range(1, number) if number % each == 0}
