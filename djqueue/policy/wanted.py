"""How many workers there should be now: the figure that an autoscaler goes by.

Source: Little's law, L = λW (J. D. C. Little, 1961), with λ and W from the minute statistics. Invariant: pure; the same
defaults for slots and headroom as in `policy.sizing`, which asks the same of a load that is only planned.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from djqueue.policy.sizing import Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What came through in a window, and what waits."""

    attempts: float
    """Attempts that ended in the window, however they ended."""
    attempt_seconds: float
    """The sum of their run times."""
    window_seconds: float
    waiting: Sequence[tuple[float, float]]
    """Of each queue that is not paused: ready jobs, and the seconds within which they should have started."""
    slots_per_worker: float | None
    """Slots of a worker process on average; None where there is none."""


def workers_wanted(demand: Demand) -> int:
    """Return how many worker processes would carry the present flow and start what waits in time.

    - W = run time of all attempts ÷ attempts; 2 s, as in `plan`, where none has ended.
    - λ = attempts ÷ window + Σ (ready ÷ target seconds) over the queues.
    - slots = λ · W (Little's law).
    - workers = slots · (1 + 0.3 headroom) ÷ slots of a worker (10 where there is no worker), rounded up; at least 1,
      since without a worker nothing that is scheduled becomes ready.

    While a backlog is worked off it counts in both parts of λ, so that the figure is too high rather than too low.
    """
    planned = Load(jobs_per_day=0)
    seconds = demand.attempt_seconds / demand.attempts if demand.attempts else planned.seconds
    per_second = demand.attempts / demand.window_seconds + sum(ready / target for ready, target in demand.waiting)
    slots = per_second * seconds * (1 + planned.headroom)
    return max(1, math.ceil(round(slots / (demand.slots_per_worker or planned.slots), 6)))
