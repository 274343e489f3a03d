"""cronsim, which follows Debian's cron, as an oracle: where it differs, the difference is known and explained.

1. A step in a range (`0-30/10 2`, `0 1-5/2`). Debian's cron, and cronsim with it, calls a job a wildcard job only where
   a field begins with `*`; to djqueue a step is a wildcard as well, so that such an entry follows elapsed time.
2. Changes by half an hour (Lord Howe) or at no whole hour (the Chathams, at 02:45). cronsim goes forward by whole
   hours, and passes over the part of an hour that is shown after a gap or again; djqueue fires whenever the clock
   shows a matching time.
3. `*` beside a restricted day (`*/2 * mon`): Debian wants both to match. djqueue refuses it.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from djqueue.policy.cron import CronExpression
from djqueue.policy.cronpreview import fires_between
from tests.policy import zones

cronsim = pytest.importorskip("cronsim")

DAY = timedelta(days=1)
AGREED = [
    "0 0 * * *", "30 1 * * *", "0 2 * * *", "30 2 * * *", "0 3 * * *", "15,45 1-3 * * *", "0 2,14 * * *",
    "0-59 2 * * *", "0 0-23 * * *", "* * * * *", "*/15 * * * *", "30 */3 * * *", "* 2 * * *", "30 * * * *",
    "0 */2 * * *", "0 0 13 * fri", "0 0 L * *", "0 0 * * fri#2", "0 0 * * 5L", "0 12 1-31 * mon", "10 2-2 * * *",
]  # fmt: skip
STEPS = ["0-30/10 2 * * *", "0 1-5/2 * * *", "0-59/30 2,3 * * *"]


def of_cronsim(text: str, zone: str, start: datetime, end: datetime) -> Iterator[datetime]:
    """Yield cronsim's fire times after `start` and before `end`, in UTC."""
    for at in cronsim.CronSim(text, start.astimezone(ZoneInfo(zone))):
        if (fire := at.astimezone(UTC)) >= end:
            return
        yield fire


def both(text: str, zone: str, start: datetime, end: datetime) -> tuple[list[datetime], list[datetime]]:
    after = start + timedelta(microseconds=1)
    ours = list(fires_between(CronExpression.parse(text), ZoneInfo(zone), after, end))
    return ours, list(of_cronsim(text, zone, start, end))


def within_an_hour(zone: str) -> bool:
    """Tell whether a change of the clock begins or ends within an hour."""
    hour = timedelta(hours=1)
    return any(
        (at - zones.START + offset) % hour for at, before, after in zones.changes(zone) for offset in (before, after)
    )


@pytest.mark.parametrize("zone", zones.one_of_each())
def test_cronsim_agrees_around_every_kind_of_change(zone: str) -> None:
    for at, _, _ in zones.changes(zone)[:2]:
        for text in AGREED:
            around = DAY / 8 if text.startswith("*") else DAY
            ours, theirs = both(text, zone, at - around, at + around)
            if within_an_hour(zone):
                assert set(theirs) <= set(ours), text
            else:
                assert ours == theirs, text


@pytest.mark.parametrize("text", STEPS)
def test_a_step_follows_elapsed_time_where_cronsim_calls_the_entry_fixed(text: str) -> None:
    spring, autumn = (at for at, _, _ in zones.changes("Europe/Paris")[:2])
    spring_ours, spring_theirs = both(text, "Europe/Paris", spring - DAY, spring + DAY / 4)
    autumn_ours, autumn_theirs = both(text, "Europe/Paris", autumn - DAY, autumn + DAY / 4)

    assert set(spring_ours) <= set(spring_theirs)
    assert set(autumn_theirs) <= set(autumn_ours)
    assert (spring_ours, autumn_ours) != (spring_theirs, autumn_theirs) or text == "0 1-5/2 * * *"


def test_cronsim_passes_over_a_half_hour_that_the_clock_shows() -> None:
    at = next(at for at, before, after in zones.changes("Australia/Lord_Howe") if after > before)

    ours, theirs = both("30 * * * *", "Australia/Lord_Howe", at - DAY, at + DAY)

    assert set(ours) - set(theirs) == {at}
    assert at.astimezone(ZoneInfo("Australia/Lord_Howe")).strftime("%H:%M") == "02:30"


def test_a_star_with_a_step_beside_a_day_is_refused_because_debian_reads_it_as_both() -> None:
    mondays_only = list(islice(cronsim.CronSim("0 0 */2 * mon", datetime(2026, 1, 1, tzinfo=UTC)), 3))
    assert all(at.weekday() == 0 for at in mondays_only)

    with pytest.raises(ValueError, match="some crons want both"):
        CronExpression.parse("0 0 */2 * mon")


def field(low: int, high: int, *more: str) -> st.SearchStrategy[str]:
    """Fields that both read alike: numbers, ranges, steps, lists."""
    number = st.integers(low, high)
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.tuples(span, st.integers(1, high)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    items = st.lists(number.map(str) | span | step, min_size=1, max_size=3).map(",".join)
    # A range of one number with a step goes on to the end in cronsim.
    alike = items.filter(
        lambda text: not any(len({*i.split("/")[0].split("-")}) == 1 for i in text.split(",") if "/" in i)
    )
    return st.one_of(st.just("*"), alike, *(st.just(text) for text in more))


@given(
    field(0, 59), field(0, 23), field(1, 28, "L", "1,L", "29", "31"), field(1, 12), field(0, 6, "5L", "1#1", "0#5,3"),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_cronsim_agrees_about_any_expression_where_the_clock_does_not_change(
    minute: str, hour: str, day: str, month: str, weekday: str
) -> None:
    text = f"{minute} {hour} {day} {month} {weekday}"
    try:
        expression = CronExpression.parse(text)
    except ValueError:
        return
    start = datetime(2027, 2, 26, 3, 17, tzinfo=UTC)
    theirs = list(islice(of_cronsim(text, "UTC", start, start + 3650 * DAY), 5))

    assert (
        list(islice(fires_between(expression, ZoneInfo("UTC"), start + timedelta(seconds=1), start + 3650 * DAY), 5))
        == theirs
    )
