"""R17: what of the missed times fires, and what an unfinished job does to a fire."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from djqueue.policy import cronfires
from djqueue.policy.cron import CronExpression
from djqueue.policy.cronfires import Missed, Outcome, Overlap, due_times, outcomes
from djqueue.policy.cronhash import jitter

ENQUEUED, QUEUED, REPLACED = Outcome.ENQUEUED, Outcome.QUEUED, Outcome.REPLACED
NOW = datetime(2026, 5, 1, 12, 0, 30, tzinfo=UTC)
SIX_HOURS_AGO = NOW.replace(hour=6, minute=1, second=0)


def due(text: str, plan: datetime, policy: Missed, now: datetime = NOW, **limits: int) -> list[tuple[str, Outcome]]:
    found = due_times(CronExpression.parse(text), ZoneInfo("UTC"), plan, now, policy=policy, **limits)
    return [(f"{at:%H:%M}", outcome) for at, outcome in found]


@pytest.mark.parametrize("policy", Missed)
def test_a_plan_that_is_ahead_is_not_due(policy: Missed) -> None:
    assert due("* * * * *", NOW + timedelta(seconds=1), policy) == []


@pytest.mark.parametrize("policy", Missed)
def test_an_entry_on_time_fires_for_its_plan_and_nothing_is_computed(
    policy: Missed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cronfires, "missed", lambda *args: pytest.fail("computed"))

    assert due("0 12 * * *", NOW.replace(second=0), policy) == [("12:00", ENQUEUED)]


def test_run_once_fires_the_latest_time_however_late() -> None:
    assert due("* * * * *", SIX_HOURS_AGO, Missed.RUN_ONCE) == [("12:00", ENQUEUED)]
    assert due("0 9 * * *", NOW.replace(hour=9, minute=0, second=0), Missed.RUN_ONCE) == [("09:00", ENQUEUED)]


def test_run_all_fires_each_time_oldest_first_and_the_latest_where_there_are_more_than_allowed() -> None:
    hourly = due("0 * * * *", SIX_HOURS_AGO.replace(hour=7, minute=0), Missed.RUN_ALL)
    assert hourly == [(f"{hour:02}:00", ENQUEUED) for hour in range(7, 13)]

    minutely = due("* * * * *", SIX_HOURS_AGO, Missed.RUN_ALL, most=3)
    assert minutely == [("11:58", ENQUEUED), ("11:59", ENQUEUED), ("12:00", ENQUEUED)]


def test_skip_fires_within_the_grace_only_and_answers_the_latest_time_all_the_same() -> None:
    nine = NOW.replace(hour=9, minute=0, second=0)

    assert due("0 9 * * *", nine, Missed.SKIP) == [("09:00", Outcome.MISSED)]
    assert due("0 9 * * *", nine, Missed.SKIP, grace_seconds=10_830) == [("09:00", ENQUEUED)]
    assert due("0 9 * * *", nine, Missed.SKIP, grace_seconds=10_829) == [("09:00", Outcome.MISSED)]
    assert due("* * * * *", SIX_HOURS_AGO, Missed.SKIP) == [("12:00", ENQUEUED)]


@pytest.mark.parametrize(
    ("overlap", "busy", "wanted", "found"),
    [
        (Overlap.ALLOW, True, [ENQUEUED, ENQUEUED], [ENQUEUED, ENQUEUED]),
        (Overlap.SKIP, False, [ENQUEUED], [ENQUEUED]),
        (Overlap.SKIP, True, [ENQUEUED], [Outcome.OVERLAPPED]),
        (Overlap.SKIP, False, [ENQUEUED, ENQUEUED], [ENQUEUED, Outcome.OVERLAPPED]),
        (Overlap.QUEUE_ONE, False, [ENQUEUED], [ENQUEUED]),
        (Overlap.QUEUE_ONE, True, [ENQUEUED], [QUEUED]),
        (Overlap.QUEUE_ONE, False, [ENQUEUED] * 4, [ENQUEUED, REPLACED, REPLACED, QUEUED]),
        (Overlap.QUEUE_ONE, True, [ENQUEUED] * 3, [REPLACED, REPLACED, QUEUED]),
        (Overlap.SKIP, True, [Outcome.MISSED], [Outcome.MISSED]),
        (Overlap.QUEUE_ONE, True, [Outcome.MISSED], [Outcome.MISSED]),
    ],
)
def test_overlap_decides_in_the_order_of_the_fires(
    overlap: Overlap, busy: bool, wanted: list[Outcome], found: list[Outcome]
) -> None:
    assert outcomes(overlap, wanted, busy=busy) == found


def test_jitter_is_the_same_for_a_fire_and_spreads_entries() -> None:
    delays = {jitter(f"entry {number}", NOW, 60) for number in range(1_000)}

    assert delays == set(range(61))
    assert jitter("entry", NOW, 60) == jitter("entry", NOW, 60)
    assert jitter("entry", NOW, 0) == 0
