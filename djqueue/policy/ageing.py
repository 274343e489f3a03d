"""Priority that grows with waiting, so that a steady stream of important jobs starves nobody.

A job's effective priority is its priority plus one for every `ageing_seconds` that it has waited. Within one priority
the oldest job has the highest, so that the heads of the priorities decide whose turn it is. Invariant: no clock is
needed, since "now" is the same for all who are compared.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Level(NamedTuple):
    """The jobs of one priority: the priority, and since when the oldest of them waits (seconds since the epoch)."""

    priority: int
    since: float


def in_turn(levels: Iterable[Level], ageing_seconds: float) -> list[Level]:
    """Return the levels in the order of the effective priorities of their heads, the highest first."""
    return sorted(levels, key=lambda level: (level.since / ageing_seconds - level.priority, -level.priority))
