"""Who comes next among queues that have more than they can get: each gets its share by weight, exactly and soon.

    busy    took all it was asked for, so there is more: a quota of the next claim, where it is furthest behind
    idle    took less: it comes first, and whatever it has is taken

Every job taken moves its queue's virtual time on by 1 ÷ weight; the claim goes to whoever is furthest behind, as in
weighted fair queuing (A. Demers, S. Keshav, S. Shenker, 1989). Invariants: over any time in which queues are busy their
shares differ from their weights by no more than a claim; who was idle has saved nothing up; nobody is left out.
"""

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from djqueue.policy.weights import shuffle


class Turn(NamedTuple):
    """A queue's turn within one claim, and the most jobs that it may give."""

    name: str
    quota: int


class Shares:
    """The turns of one worker's queues, claim after claim."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._times: dict[str, float] = {}
        self._busy: set[str] = set()
        self._weights: Mapping[str, float] = {}
        self._turns: list[Turn] = []
        self._limit = 0

    def order(self, weights: Mapping[str, float], limit: int) -> list[Turn]:
        """Return the turns of a claim of so many jobs. What a queue does not need of its quota others may take."""
        self._weights, self._limit = weights, limit
        self._catch_up()
        idle = shuffle({name: weight for name, weight in weights.items() if name not in self._busy}, self._rng)
        busy = sorted((name for name in weights if name in self._busy), key=self._behind)
        self._turns = [*(Turn(name, limit) for name in idle), *self._quotas(busy)]
        return self._turns

    def took(self, counts: Mapping[str, int]) -> bool:
        """Take in what the claim has brought; return whether a quota has kept a queue from giving more."""
        taken, was_bound = 0, False
        for name, quota in self._turns:
            left = self._limit - taken
            if left <= 0:
                break
            got = counts.get(name, 0)
            if got >= min(quota, left):
                self._busy.add(name)
                was_bound = was_bound or quota < left
            else:
                self._busy.discard(name)
            taken += got
        for name, count in counts.items():
            if name in self._times:
                self._times[name] += count / self._weights[name]
        return was_bound

    def _catch_up(self) -> None:
        """Who had nothing to do is where the furthest of the busy ones is, if it was behind; nobody saves turns up. Who
        is new counts as busy until it was asked."""
        known = {name: time for name, time in self._times.items() if name in self._weights}
        self._busy = {name for name in self._weights if name in self._busy or name not in known}
        since = min((known[name] for name in self._busy if name in known), default=max(known.values(), default=0.0))
        self._times = {
            name: known[name] if name in self._busy and name in known else max(known.get(name, since), since)
            for name in self._weights
        }

    def _behind(self, name: str) -> tuple[float, float]:
        return self._times[name], self._rng.random()

    def _quotas(self, busy: Sequence[str]) -> list[Turn]:
        """Raise all to one level of virtual time by this claim; those who are above it get what others leave."""
        if not busy:
            return []
        level = self._level(busy)
        exact = {name: max(0.0, level - self._times[name]) * self._weights[name] for name in busy}
        quotas = {name: int(part) for name, part in exact.items()}
        rest = sorted(busy, key=lambda name: quotas[name] - exact[name])
        for name in rest[: self._limit - sum(quotas.values())]:
            quotas[name] += 1
        turns = [Turn(name, quotas[name]) for name in busy if quotas[name]]
        turns += [Turn(name, self._limit) for name in busy if not quotas[name]]
        return [*turns[:-1], Turn(turns[-1].name, self._limit)]

    def _level(self, busy: Sequence[str]) -> float:
        """Return the time at which the claim is used up, when it lifts the furthest behind first."""
        weight, used, level = 0.0, 0.0, self._times[busy[0]]
        for place, name in enumerate(busy):
            lift = (self._times[name] - level) * weight
            if place and used + lift >= self._limit:
                break
            used, level, weight = used + lift, self._times[name], weight + self._weights[name]
        return level + (self._limit - used) / weight
