"""When a failed attempt is tried again.

    seconds
     cap ┤                  ┌──────────────    the ceiling doubles with each attempt, up to the cap;
         │            ┌─────┘░░░░░░░░░░░░░░    full jitter draws the delay evenly from everything below it (░),
         │       ┌────┘░░░░░░░░░░░░░░░░░░░░    so that jobs which failed together come back apart
         │  ┌────┘░░░░░░░░░░░░░░░░░░░░░░░░░
       0 ┼──┴────┬────┬─────┬─────┬─────────
            1    2    3     4     5  attempt   ceiling = min(cap, base · 2^attempt)

    full           random(0, ceiling)                                  the default
    equal          ceiling / 2 + random(0, ceiling / 2)                never at once
    decorrelated   min(cap, random(base, 3 · the delay before))        forgets the attempt's number
    none           ceiling                                             for comparison: jobs come back together

Source of the formulas: AWS Architecture Blog, Exponential Backoff And Jitter (Marc Brooker, 2015).
The invariant: a delay is never negative and never above the cap, whatever the attempt.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

TEN_YEARS = 315_360_000
MAX_EXPONENT = 62
"""2^62 times the smallest sensible base is beyond any cap; the clamp keeps the power from overflowing a float."""

Jitter = Literal["full", "equal", "decorrelated", "none"]
OwnPolicy = Callable[[int], float]
"""An own policy: from the number of the failed attempt (from 1) to the seconds to wait."""


class Wait(NamedTuple):
    """One row of a timetable: a failed attempt's number, and the shortest, mean and longest wait after it (seconds)."""

    attempt: int
    shortest: float
    mean: float
    longest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Say how long a failed job waits before its next attempt: exponential backoff."""

    base_seconds: float = 15
    """The ceiling of the first delay is twice this. Seconds, from 0 (no backoff: again at once) to ten years."""

    cap_seconds: float = 3600
    """No delay is longer than this. Seconds, from 0 (no backoff) to ten years."""

    jitter: Jitter = "full"
    """How the delay is drawn below the ceiling; see the module."""

    def __post_init__(self) -> None:
        _check_seconds("base_seconds", self.base_seconds)
        _check_seconds("cap_seconds", self.cap_seconds)
        if self.jitter not in get_args(Jitter):
            known = ", ".join(f'"{name}"' for name in get_args(Jitter))
            raise ValueError(f"jitter: expected one of {known}, got {self.jitter!r}")

    def delay_seconds(self, attempt: int, rng: random.Random, previous: float | None = None) -> float:
        """Return the wait after failed attempt number `attempt` (from 1; less counts as 1), in seconds.

        `previous` is the wait before this attempt, which only decorrelated jitter looks at; None: there was none.
        """
        ceiling = self.ceiling_seconds(attempt)
        match self.jitter:
            case "full":
                return rng.uniform(0, ceiling)
            case "equal":
                return ceiling / 2 + rng.uniform(0, ceiling / 2)
            case "decorrelated":
                base = min(self.base_seconds, self.cap_seconds)
                return min(self.cap_seconds, rng.uniform(base, max(base, 3 * (base if previous is None else previous))))
            case "none":
                return ceiling

    def ceiling_seconds(self, attempt: int) -> float:
        """Return the longest wait that may follow this attempt, in seconds."""
        exponent = min(max(attempt, 1), MAX_EXPONENT)
        if self.jitter == "decorrelated":
            return float(min(self.cap_seconds, self.base_seconds * 3.0 ** min(exponent, 300)))
        return float(min(self.cap_seconds, self.base_seconds * 2.0**exponent))

    def wait(self, attempt: int) -> Wait:
        """Return the shortest, mean and longest wait after this attempt. (The mean of decorrelated jitter is taken as
        the middle.)"""
        longest = self.ceiling_seconds(attempt)
        shortest = {"full": 0.0, "equal": longest / 2, "none": longest}.get(self.jitter)
        if shortest is None:
            shortest = min(self.base_seconds, self.cap_seconds)
        return Wait(attempt, shortest, (shortest + longest) / 2, longest)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedRetry:
    """Say that a failed job always waits the same time."""

    seconds: float
    """Seconds, from 0 (again at once) to ten years."""

    def __post_init__(self) -> None:
        _check_seconds("seconds", self.seconds)

    def delay_seconds(self, attempt: int, rng: random.Random, previous: float | None = None) -> float:
        """Return the wait, in seconds."""
        return float(self.seconds)

    def wait(self, attempt: int) -> Wait:
        """Return the wait three times."""
        return Wait(attempt, self.seconds, self.seconds, self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallableRetry:
    """Ask an own function; what it answers is put between 0 and ten years."""

    function: OwnPolicy

    def delay_seconds(self, attempt: int, rng: random.Random, previous: float | None = None) -> float:
        """Return the wait after this attempt, in seconds; raise `ValueError` where the function answers no number."""
        answer = self.function(attempt)
        if isinstance(answer, bool) or not isinstance(answer, int | float) or math.isnan(answer):
            raise ValueError(f"retry: expected seconds as int or float from {self.function!r}, got {answer!r}")
        return float(min(max(answer, 0), TEN_YEARS))

    def wait(self, attempt: int) -> Wait:
        """Return what the function answers, three times."""
        seconds = self.delay_seconds(attempt, random.Random(0))
        return Wait(attempt, seconds, seconds, seconds)


AnyRetry = RetryPolicy | FixedRetry | CallableRetry


def delay_seconds(
    policy: AnyRetry | None, default: RetryPolicy, attempt: int, rng: random.Random, previous: float | None = None
) -> float:
    """Return the wait after a failed attempt by the task's policy; by the default one where it has none, or where its
    own function fails."""
    try:
        return (policy or default).delay_seconds(attempt, rng, previous)
    except Exception:
        return default.delay_seconds(attempt, rng, previous)


def timetable(policy: AnyRetry, max_attempts: int) -> list[Wait]:
    """Return the waits between the attempts of a job that fails each time: `max_attempts` - 1 rows."""
    return [policy.wait(attempt) for attempt in range(1, max_attempts)]


def _check_seconds(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name}: expected seconds as int or float, got {value!r}")
    if not math.isfinite(value) or not 0 <= value <= TEN_YEARS:
        raise ValueError(f"{name}: expected 0 to {TEN_YEARS:,} seconds (ten years), got {value!r}; 0 means no backoff")
