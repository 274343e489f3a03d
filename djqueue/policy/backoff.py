"""How long a loop waits before it tries again, while the database is in trouble.

Unlike a job's retry, a loop must never come back at once: half of each delay is certain, the other half is random
("equal jitter" of AWS Architecture Blog, Exponential Backoff And Jitter).
"""

import random

MAX_EXPONENT = 62


class Backoff:
    """Count failures in a row and turn them into waits; call `reset` after a success."""

    __slots__ = ("_base", "_cap", "_failures")

    def __init__(self, base: float, cap: float) -> None:
        """Wait about `base` seconds first, twice as long each time, never more than `cap` seconds."""
        if not 0 < base <= cap < float("inf"):
            raise ValueError(f"Backoff: expected 0 < base <= cap in seconds, got base {base!r} and cap {cap!r}")
        self._base = base
        self._cap = cap
        self._failures = 0

    @property
    def failures(self) -> int:
        """How many waits were asked for since the last success."""
        return self._failures

    def next(self, rng: random.Random) -> float:
        """Return the seconds to wait now: between half of the ceiling and the ceiling, which doubles each time."""
        ceiling = min(self._cap, self._base * 2.0 ** min(self._failures, MAX_EXPONENT))
        self._failures += 1
        return rng.uniform(ceiling / 2, ceiling)

    def reset(self) -> None:
        """Start again from the base: what was tried has worked."""
        self._failures = 0
