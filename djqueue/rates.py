"""What a rate limit's text means: "100/m" is so many starts a second on average.

Invariant: a text that is not understood is refused with what was expected; none is guessed.
"""

import re
from dataclasses import dataclass
from typing import Any

SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
FORM = re.compile(r"\s*([0-9]{1,9})\s*/\s*([0-9]{0,6})\s*([smhd])\s*", re.ASCII)
EXAMPLE = 'for example "100/m", "5/s", "1000/h" or "3/10s"'
MOST_BURST = 1_000_000


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


def _is_burst(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_BURST
