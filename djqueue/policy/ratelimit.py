"""Rate limits: what a task can say of one, and the token bucket that keeps it.

A bucket holds at most `burst` tokens and gains `per_second` of them each second; a start takes one. So in any stretch
of t seconds there are at most burst + per_second · t starts. Source: Turner, New Directions in Communications (1986);
the same as the "leaky bucket as a meter" of ITU-T I.371.
"""

from collections.abc import Callable
from dataclasses import dataclass

from djqueue.rates import Rate

LimitKey = str | Callable[..., str | None] | None


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
