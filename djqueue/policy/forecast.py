"""When a queue will be empty, and how long a new job waits: from what is there and what left lately.

Source: Little's law, L = λW (J. D. C. Little, 1961): what waits, divided by what leaves per second, is the time that a
job spends waiting. Invariant: only sums go in; nobody ever looks at single jobs for it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What is in a queue and what left it within a window."""

    ready: int
    leased: int
    left: int
    """Jobs that ended for good within the window."""
    busy_seconds: float
    """The sum of the durations of all attempts that ended within the window."""
    window_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What follows from a flow, as long as it goes on so and nothing more arrives."""

    per_second: float
    """Jobs that leave per second."""
    wait_seconds: float | None
    """How long a job waits that is enqueued now, at the usual priority. None: nothing leaves, so for ever."""
    drain_seconds: float | None
    """When the queue is empty. None: never."""
    busy_slots: float
    """How many slots the queue has kept busy, on average."""


def forecast(flow: Flow) -> Forecast:
    """Return what follows from a flow."""
    window = max(flow.window_seconds, 1.0)
    rate = flow.left / window
    return Forecast(
        per_second=rate,
        wait_seconds=_over(flow.ready, rate),
        drain_seconds=_over(flow.ready + flow.leased, rate),
        busy_slots=flow.busy_seconds / window,
    )


def _over(jobs: int, rate: float) -> float | None:
    if not jobs:
        return 0.0
    return jobs / rate if rate > 0 else None
