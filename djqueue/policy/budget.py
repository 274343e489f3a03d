"""How many retries a queue may make: a share of its throughput, and a floor; what is beyond is pushed later.

    level  retries that the budget has not allowed for yet; it falls by `per_second`, each retry raises it by one
    ───────────────────────────────────────────────────────────────────────────────────────────────
    up to one window's worth   retried when its policy says
    above it                   retried so much later that no more come in a window than the budget allows

Invariant: a retry is pushed later and never dropped, by at most `MOST_SECONDS`; of those pushed none overtakes another
by more than its own policy's delay.
"""

from dataclasses import dataclass

WINDOW_SECONDS = 60.0
"""Over which throughput is measured, and within which retries may come together."""

MOST_SECONDS = 3_600.0
"""The longest push: then a retry comes, whatever the budget says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetOptions:
    """What a queue may spend on retries."""

    ratio: float = 0.1
    """Retries per job that succeeded: 0 (the floor only) to 100."""

    floor_per_second: float = 10
    """Retries that are allowed however little succeeds: above 0, up to 100,000."""


def per_second(succeeded: float, options: BudgetOptions) -> float:
    """Return the retries per second that so many successes within a window allow."""
    return options.floor_per_second + options.ratio * max(0.0, succeeded) / WINDOW_SECONDS


def drained(level: float, rate: float, seconds: float) -> float:
    """Return the level after so many seconds."""
    return max(0.0, level - rate * max(0.0, seconds))


def pushes(level: float, retries: int, rate: float) -> list[float]:
    """Return by how many seconds each of so many retries is pushed later that come at this level; 0: not at all."""
    room = rate * WINDOW_SECONDS
    return [min(MOST_SECONDS, max(0.0, (level + number - room) / rate)) for number in range(1, retries + 1)]


def raised(level: float, retries: int, rate: float) -> float:
    """Return the level when they are counted: never so high that the longest push would not bring it down."""
    return min(level + retries, (WINDOW_SECONDS + MOST_SECONDS) * rate)
