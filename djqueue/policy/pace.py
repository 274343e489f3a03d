"""How many jobs a worker takes in its next claim.

It takes what its slots will start within a few hundredths of a second at the pace just measured: hundreds of short
jobs, exactly the free slots when jobs are long. The invariant: a worker never holds more waiting jobs than it has
reason to believe it will start at once, so that no job waits in one worker while another is idle.
"""

SMOOTHING = 0.2
GROWTH = 4
FASTEST = 1e-6


class Pace:
    """Measure seconds per job (exponentially weighted mean) and size the next claim by it."""

    __slots__ = ("_horizon", "_mean", "_streak")

    def __init__(self, horizon_seconds: float = 0.05) -> None:
        if not 0 <= horizon_seconds <= 60:
            raise ValueError(f"horizon_seconds: expected 0 to 60, got {horizon_seconds!r}; 0 means free slots only")
        self._horizon = horizon_seconds
        self._mean: float | None = None
        self._streak = 0

    @property
    def seconds_per_job(self) -> float | None:
        """The measured mean; None before the first job has ended."""
        return self._mean

    def observe(self, seconds: float, jobs: int = 1) -> None:
        """Take in that `jobs` jobs have kept their slots busy for `seconds` in all."""
        if jobs < 1:
            return
        each = max(seconds / jobs, FASTEST)
        if self._mean is None:
            self._mean = each
        else:
            self._mean += (1 - (1 - SMOOTHING) ** jobs) * (each - self._mean)
        # A few quick jobs prove little: the look ahead grows with the quick streak, and a slow job ends it.
        self._streak = self._streak + jobs if each < self._horizon else 0

    def want(self, *, slots: int, running: int, waiting: int, capacity: int) -> int:
        """Return how many jobs to claim now, from 0 to `capacity`.

        `slots` jobs can run at once, `running` do, `waiting` are claimed and not started.
        """
        return max(0, min(slots - running + self._ahead(slots) - waiting, capacity))

    def _ahead(self, slots: int) -> int:
        """What all slots will start within the horizon, as far as the evidence goes."""
        if self._mean is None:
            return 0
        return min(int(slots * self._horizon / self._mean), GROWTH * self._streak)
