"""Tasks whose jobs one worker leaves to others, because it met one that only they know.

Invariant: nothing is left for ever. Those others may go (a deploy that is rolled back), and this worker may know all
but the newest jobs of the task: so it claims them again after a while, and looks anew who knows what it can't run.
"""

import time
from collections.abc import Iterable

LEAVE_SECONDS = 10.0
"""As often a worker claims a handful that it gives back."""


class Strangers:
    """What one worker leaves out of its claims now."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def leave(self, task_names: Iterable[str]) -> None:
        """Leave the jobs of these tasks to others for a while."""
        self._until.update(dict.fromkeys(task_names, time.monotonic() + LEAVE_SECONDS))

    def names(self) -> list[str]:
        """Return what is left out now, sorted."""
        if self._until:
            now = time.monotonic()
            self._until = {name: until for name, until in self._until.items() if until > now}
        return sorted(self._until)
