"""Rate limits: what a text such as "100/m" means, and the token bucket that keeps it.

A bucket holds at most `burst` tokens and gains `per_second` of them each second; a start takes one. So in any stretch
of t seconds there are at most burst + per_second · t starts. Source: Turner, New Directions in Communications (1986);
the same as the "leaky bucket as a meter" of ITU-T I.371.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
FORM = re.compile(r"\s*([0-9]{1,9})\s*/\s*([0-9]{0,6})\s*([smhd])[a-z]*\s*", re.ASCII)
EXAMPLE = 'for example "100/m", "5/s", "1000/h" or "3/10s"'
MOST_BURST = 1_000_000

LimitKey = str | Callable[..., str | None] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """So many starts a second, on average, and so many at once at the most."""

    per_second: float
    burst: float

    @classmethod
    def parse(cls, text: object, burst: float | None = None) -> "Rate":
        """Read `number/unit` (s, m, h, d) or `number/number unit`. Raises `ValueError` with what was expected.

        Without `burst` it is what one second allows, at least 1: starts are spread evenly.
        """
        found = FORM.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ValueError(f"rate_limit: expected a number of starts per unit of time, {EXAMPLE}, got {text!r}")
        count, seconds = int(found[1]), int(found[2] or 1) * SECONDS[found[3]]
        if not count or not seconds:
            raise ValueError(f"rate_limit: expected more than 0 starts in more than 0 seconds, {EXAMPLE}, got {text!r}")
        if burst is not None and not _is_burst(burst):
            raise ValueError(f"burst: expected a whole number from 1 to {MOST_BURST:,}, got {burst!r}")
        return cls(per_second=count / seconds, burst=float(burst or max(1.0, count / seconds)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """A rate limit with more to say than its text: `rate_limit=RateLimit(rate="100/m", burst=20, key="stripe")`."""

    rate: str
    """As in `rate_limit="100/m"`."""

    burst: int | None = None
    """Starts at once at the most, 1 to 1,000,000. None: what one second allows, at least 1."""

    key: LimitKey = None
    """What shares the limit: text, or a function of the handler's arguments that returns text (None: no limit for this
    job). Without one it is the task."""

    @property
    def parsed(self) -> Rate:
        """The numbers; raises `ValueError` where they are none."""
        return Rate.parse(self.rate, self.burst)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A token bucket at a moment (seconds on any clock). `store.limits` keeps the same in a row."""

    rate: Rate
    tokens: float
    filled_at: float

    def available(self, now: float) -> float:
        """Return the tokens there are at a moment; a clock that was set back takes none away."""
        return min(self.rate.burst, self.tokens + self.rate.per_second * max(0.0, now - self.filled_at))

    def take(self, count: int, now: float) -> "Bucket":
        """Return the bucket without so many tokens."""
        return Bucket(rate=self.rate, tokens=self.available(now) - count, filled_at=now)

    def next_at(self, now: float) -> float:
        """Return the moment from which one start is allowed."""
        return now + max(0.0, 1 - self.available(now)) / self.rate.per_second


def _is_burst(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_BURST
