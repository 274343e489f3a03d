"""The leader's duty that works off what people do to many jobs at once: a batch of each running act per step.

Invariant: an act that the database refuses is stopped with the reason in its row; nothing is tried for ever.
"""

import logging

from djqueue.runtime.leader import LeaderDuty
from djqueue.store import bulk

log = logging.getLogger("djqueue")

IDLE_SECONDS = 1.0
STEP_SECONDS = 0.02
"""Between two batches the database belongs to others."""


class BulkDuty:
    """Takes the next step of each running act."""

    name = "bulk acts"

    def __init__(self, alias: str, leader: LeaderDuty) -> None:
        self._alias = alias
        self._leader = leader

    def tick(self) -> float:
        """Take a step; soon again while an act runs."""
        if not self._leader.leads:
            return IDLE_SECONDS
        steps = bulk.step_all(self._alias)
        for step in steps:
            if step.state != "running":
                log.info("bulk act ended act=%d state=%s done=%d of=%d", step.id, step.state, step.done, step.total)
        return STEP_SECONDS if steps else IDLE_SECONDS
