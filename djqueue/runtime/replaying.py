"""The leader's duty that drives replays of dead letters: a step of each running one, several times a second."""

import logging

from djqueue.runtime.leader import LeaderDuty
from djqueue.store import replay

log = logging.getLogger("djqueue")

IDLE_SECONDS = 1.0
STEP_SECONDS = 0.2


class ReplayDuty:
    """Takes the next step of each running replay."""

    name = "replay"

    def __init__(self, alias: str, leader: LeaderDuty) -> None:
        self._alias = alias
        self._leader = leader

    def tick(self) -> float:
        """Take a step; soon again while a replay runs."""
        if not self._leader.leads:
            return IDLE_SECONDS
        steps = replay.step_all(self._alias)
        for step in steps:
            if step.state != "running":
                log.info("replay ended replay=%d state=%s reason=%s", step.id, step.state, step.reason)
        return STEP_SECONDS if steps else IDLE_SECONDS
