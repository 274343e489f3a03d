"""When a failed attempt is tried again: exponential backoff with full jitter.

    seconds
     cap ┤                  ┌──────────────    the ceiling doubles with each attempt, up to the cap;
         │            ┌─────┘░░░░░░░░░░░░░░    the delay is drawn evenly from everything below it (░),
         │       ┌────┘░░░░░░░░░░░░░░░░░░░░    so that jobs which failed together come back apart
         │  ┌────┘░░░░░░░░░░░░░░░░░░░░░░░░░
       0 ┼──┴────┬────┬─────┬─────┬─────────
            1    2    3     4     5  attempt   delay = random(0, min(cap, base · 2^attempt))

Source of the formula ("full jitter"): AWS Architecture Blog, Exponential Backoff And Jitter (Marc Brooker, 2015).
The invariant: a delay is never negative and never above the cap, whatever the attempt.
"""

import math
import random
from dataclasses import dataclass
from typing import Literal

TEN_YEARS = 315_360_000
MAX_EXPONENT = 62
"""2^62 times the smallest sensible base is beyond any cap; the clamp keeps the power from overflowing a float."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Say how long a failed job waits before its next attempt."""

    base_seconds: float = 15
    """The ceiling of the first delay is twice this. Seconds, from 0 (no backoff: again at once) to ten years."""

    cap_seconds: float = 3600
    """No delay is longer than this. Seconds, from 0 (no backoff) to ten years."""

    jitter: Literal["full", "none"] = "full"
    """`"full"` draws the delay evenly between 0 and the ceiling; `"none"` takes the ceiling itself."""

    def __post_init__(self) -> None:
        _check_seconds("base_seconds", self.base_seconds)
        _check_seconds("cap_seconds", self.cap_seconds)
        if self.jitter not in ("full", "none"):
            raise ValueError(f'jitter: expected "full" or "none", got {self.jitter!r}')

    def delay_seconds(self, attempt: int, rng: random.Random) -> float:
        """Return the wait after failed attempt number `attempt` (from 1; less counts as 1), in seconds."""
        ceiling = self.ceiling_seconds(attempt)
        return ceiling if self.jitter == "none" else rng.uniform(0, ceiling)

    def ceiling_seconds(self, attempt: int) -> float:
        """Return the longest wait that may follow this attempt, in seconds."""
        exponent = min(max(attempt, 1), MAX_EXPONENT)
        return float(min(self.cap_seconds, self.base_seconds * 2.0**exponent))


def _check_seconds(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name}: expected seconds as int or float, got {value!r}")
    if not math.isfinite(value) or not 0 <= value <= TEN_YEARS:
        raise ValueError(f"{name}: expected 0 to {TEN_YEARS:,} seconds (ten years), got {value!r}; 0 means no backoff")
