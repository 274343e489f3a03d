"""Going round the lanes of one queue, claim after claim: a worker's own cursor, which begins where chance puts it.

Invariant: it says that all lanes were passed only after a whole turn in which none of them had a job to give, so that a
worker never rests while some lane has something for it.
"""

import time
from dataclasses import replace
from random import Random

from djqueue.store import step
from djqueue.store.claim import Claimed, Request
from djqueue.store.lanes import BEYOND_THE_EMPTY_LANE, Walk
from djqueue.store.step import Walked

WALKS = 4
"""Walks within one claim at the most."""

WEIGHTED_STEPS = 64
"""Lanes among which a weighted queue looks for the tenant whose turn it is."""

LIMITED_SECONDS = 60.0
"""So long after it last met a limiter a walk takes locks."""

FIRST_LETTERS = "ckrt"
"""What lanes begin with."""


class Walker:
    """Claims from the lanes of one queue."""

    def __init__(self, alias: str, way: Walk, rng: Random) -> None:
        self._alias = alias
        self._way = way
        self._floor = _floor(way)
        self._cursor = self._floor if way.weighted else f"{rng.choice(FIRST_LETTERS)}{rng.getrandbits(64):016x}"
        self._began = self._cursor
        self._wrapped = False
        self._width = 0
        self._limited_until = 0.0
        self.has_passed_all = False

    @property
    def way(self) -> Walk:
        """How the lanes are walked."""
        return self._way

    @way.setter
    def way(self, way: Walk) -> None:
        self._way, self._floor = way, _floor(way)

    def claim(self, request: Request) -> list[Claimed]:
        """Walk on until the batch is full, or every lane was passed, or it is enough for one claim."""
        jobs: list[Claimed] = []
        if self.has_passed_all:
            self._begin_turn()
        for _ in range(WALKS):
            left = replace(request, limit=request.limit - len(jobs), free=max(0, request.free - len(jobs)))
            if not left.limit or self.has_passed_all:
                break
            jobs += self._go(left)
        return jobs

    def _go(self, request: Request) -> list[Claimed]:
        limited = self._way.queue_gate is not None or time.monotonic() < self._limited_until
        walked = step.step(self._alias, request, self._next(request.limit), limited=limited)
        if walked.met_limits:
            self._limited_until = time.monotonic() + LIMITED_SECONDS
        if walked.met_limits and not limited:
            self._begin_turn()  # from here again, with locks
        else:
            self._learn(walked)
        return walked.jobs

    def _next(self, limit: int) -> Walk:
        """A share for each lane, greater where few lanes are known to be open; in a weighted queue the tenant whose
        turn it is may have it all: what it has got counts when the next turn is decided."""
        if self._way.weighted:
            return replace(self._way, from_lane=self._cursor, per_lane=limit, max_steps=WEIGHTED_STEPS)
        share = -(-limit // self._width) if self._width else 1
        return replace(self._way, from_lane=self._cursor, per_lane=share)

    def _learn(self, walked: Walked) -> None:
        from_the_start = self._cursor == self._floor
        reached_the_end = walked.cursor is None
        self._cursor = walked.cursor or self._floor
        self._width = walked.open_lanes if from_the_start and reached_the_end else 0
        if walked.jobs:
            self._begin_turn()
        elif reached_the_end:
            self.has_passed_all = self._wrapped or from_the_start
            self._wrapped = True
        else:
            self.has_passed_all = self._wrapped and self._cursor > self._began

    def _begin_turn(self) -> None:
        self._began, self._wrapped, self.has_passed_all = self._cursor, False, False


def _floor(way: Walk) -> str:
    """Lane '' is left to the everyday claims, unless the queue itself is limited."""
    return BEYOND_THE_EMPTY_LANE if way.queue_gate is None else ""
