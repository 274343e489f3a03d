"""What is said of the queue's health."""

from dataclasses import replace

import pytest

from djqueue.policy import health
from djqueue.policy.health import About, Cause, Facts, Level, QueueFacts

WELL = Facts(figures_seconds=4, workers=2, has_leader=True, ended=5_000, queues=[QueueFacts(name="email", ready=3)])
EMAIL = QueueFacts(name="email", ready=5, oldest_seconds=252, target_seconds=30)


def said(facts: Facts) -> list[tuple[Level, str, About]]:
    return [(alarm.level, alarm.text, alarm.about) for alarm in health.judge(facts).alarms]


def test_all_is_well() -> None:
    verdict = health.judge(WELL)

    assert (verdict.level, verdict.text, verdict.alarms) == (Level.OK, "Healthy", [])


def test_a_late_queue_is_named_with_its_age_and_target() -> None:
    verdict = health.judge(replace(WELL, queues=[EMAIL]))

    assert (verdict.level, verdict.text) == (
        Level.BAD,
        "Queue email is late: oldest ready job 4 m 12 s, target 30 s",
    )
    assert verdict.alarms[0].subject == "email"


@pytest.mark.parametrize(
    ("queue", "late"),
    [
        (replace(EMAIL, oldest_seconds=30), False),
        (replace(EMAIL, oldest_seconds=30.1), True),
        (replace(EMAIL, oldest_seconds=None), False),
        (replace(EMAIL, target_seconds=None), False),
        (replace(EMAIL, target_seconds=None, oldest_seconds=301), True),
        (replace(EMAIL, paused_seconds=60), False),
    ],
)
def test_a_queue_is_late_when_its_oldest_job_waits_for_longer_than_its_target(queue: QueueFacts, late: bool) -> None:
    assert health.is_late(queue) is late


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (
            replace(WELL, workers=0, queues=[QueueFacts(name="a", ready=1_200)]),
            (Level.BAD, "No worker is running: 1,200 ready jobs can't start", About.WORKERS),
        ),
        (replace(WELL, workers=0, queues=[]), (Level.WARN, "No worker is running", About.WORKERS)),
        (
            replace(WELL, has_leader=False),
            (
                Level.WARN,
                "No worker leads: nobody counts, fires cron entries or removes what is old",
                About.WORKERS,
            ),
        ),
        (
            replace(WELL, silent_workers=1),
            (Level.WARN, "1 worker fell silent without saying goodbye", About.WORKERS),
        ),
        (replace(WELL, figures_seconds=200), (Level.WARN, "The figures are 3 m 20 s old", About.WORKERS)),
        (
            replace(WELL, queues=[replace(EMAIL, is_served=False)]),
            (Level.BAD, "No worker serves queue email: 5 ready jobs can't start", About.QUEUE),
        ),
        (
            replace(WELL, queues=[replace(EMAIL, paused_seconds=120, paused_by="ada", paused_reason="a move")]),
            (Level.NOTE, "Queue email is paused for another 2 m by ada: a move", About.QUEUE),
        ),
        (
            replace(WELL, died=600),
            (Level.BAD, "600 jobs died in the last hour, 12 % of what ended", About.DEATHS),
        ),
        (
            replace(WELL, died=1),
            (Level.NOTE, "1 job died in the last hour, below 1 % of what ended", About.DEATHS),
        ),
        (
            replace(WELL, causes=[Cause(fingerprint="f", name="shop.Down", deaths=3, seconds_ago=61)]),
            (Level.WARN, "New cause of death 1 m 1 s ago: shop.Down, 3 deaths", About.CAUSE),
        ),
        (
            replace(WELL, orphans=[("a.b", 7)]),
            (Level.WARN, "No worker knows the task a.b: 7 jobs set aside", About.ORPHANS),
        ),
        (replace(WELL, open_circuits=["stripe"]), (Level.WARN, "Circuit stripe is open: its jobs wait", About.CIRCUIT)),
        (replace(WELL, broken_entries=["nightly"]), (Level.WARN, "Cron entry nightly can't fire", About.CRON)),
        (
            replace(WELL, stopped_replays=[4]),
            (Level.WARN, "Replay 4 stopped by itself: too many of its jobs failed", About.REPLAY),
        ),
    ],
)
def test_each_trouble_has_its_sentence(facts: Facts, expected: tuple[Level, str, About]) -> None:
    assert said(facts) == [expected]


def test_old_figures_are_never_called_healthy() -> None:
    assert health.judge(replace(WELL, figures_seconds=61)).text != "Healthy"


def test_the_worst_stands_first_and_notes_alarm_nobody() -> None:
    paused = QueueFacts(name="b", paused_seconds=5)
    mixed = replace(WELL, queues=[paused, EMAIL], open_circuits=["stripe"])

    assert [level for level, _, _ in said(mixed)] == [Level.BAD, Level.WARN, Level.NOTE]
    assert health.judge(replace(WELL, queues=[paused])).text == "Healthy"
