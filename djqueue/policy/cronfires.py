"""What becomes of due times: which of them fire after an outage, and what an unfinished job does to a fire.

    missed    skip       the latest time, if it is late by no more than the grace
              run_once   the latest time, however late (default)
              run_all    the latest `missed_max` times, oldest first
    overlap   allow      a job for each (default)
              skip       no job while the last one is unfinished
              queue_one  one fire waits for the end of the last job; a later one takes its place

Invariant: whatever the policies say, the latest due time is answered, so that the plan goes on from it.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from djqueue.policy.cron import CronExpression, missed

MISSED_MAX = 100
MOST_MISSED = 1_000
GRACE_SECONDS = 60
MOST_GRACE_SECONDS = 31_536_000
MOST_JITTER_SECONDS = 86_400

SOONEST = timedelta(minutes=1)
"""No two times of an entry are nearer to each other."""

_MICROSECOND = timedelta(microseconds=1)


class Missed(StrEnum):
    """What becomes of times that passed while nobody could fire them."""

    SKIP = "skip"
    RUN_ONCE = "run_once"
    RUN_ALL = "run_all"


class Overlap(StrEnum):
    """What happens when a fire finds the entry's last job unfinished."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE_ONE = "queue_one"


class Outcome(StrEnum):
    """What a fire came to."""

    ENQUEUED = "enqueued"
    """There is a job."""
    MISSED = "missed"
    """No job: it was too late, as `missed="skip"` wants it."""
    OVERLAPPED = "overlapped"
    """No job: the one before was unfinished, and `overlap="skip"`."""
    QUEUED = "queued"
    """It waits for the end of the job before."""
    REPLACED = "replaced"
    """No job: it waited, and a later one took its place."""
    DROPPED = "dropped"
    """No job: it waited, and the entry was switched off."""
    MANUAL = "manual"
    """There is a job because somebody asked for it; no time of the schedule."""


def latest_due(expression: CronExpression, tz: ZoneInfo, plan: datetime, now: datetime) -> datetime | None:
    """Return the latest fire time from `plan`, a fire time, until `now`; None if the plan is ahead."""
    if plan > now:
        return None
    # Nothing to compute for an entry that is fired on time.
    return plan if now - plan < SOONEST else missed(expression, tz, plan - _MICROSECOND, now)


def due_times(
    expression: CronExpression,
    tz: ZoneInfo,
    plan: datetime,
    now: datetime,
    *,
    policy: Missed,
    most: int = MISSED_MAX,
    grace_seconds: int = GRACE_SECONDS,
) -> list[tuple[datetime, Outcome]]:
    """Return which of the times from `plan`, a fire time, until `now` are answered and how, oldest first."""
    latest = latest_due(expression, tz, plan, now)
    if latest is None:
        return []
    if policy is Missed.SKIP and now - latest > timedelta(seconds=grace_seconds):
        return [(latest, Outcome.MISSED)]
    times = [latest]
    while policy is Missed.RUN_ALL and len(times) < most and times[-1] > plan:
        before = missed(expression, tz, plan - _MICROSECOND, times[-1] - _MICROSECOND)
        if before is None:
            break
        times.append(before)
    return [(time, Outcome.ENQUEUED) for time in reversed(times)]


def outcomes(overlap: Overlap, wanted: Sequence[Outcome], *, busy: bool) -> list[Outcome]:
    """Return what the fires of one entry come to, in order; `busy`: its last job is unfinished."""
    if overlap is Overlap.ALLOW:
        return list(wanted)
    last = max((place for place, each in enumerate(wanted) if each is Outcome.ENQUEUED), default=-1)
    found: list[Outcome] = []
    for place, each in enumerate(wanted):
        if each is not Outcome.ENQUEUED or not busy:
            busy = busy or each is Outcome.ENQUEUED
            found.append(each)
        elif overlap is Overlap.SKIP:
            found.append(Outcome.OVERLAPPED)
        else:
            found.append(Outcome.QUEUED if place == last else Outcome.REPLACED)
    return found
