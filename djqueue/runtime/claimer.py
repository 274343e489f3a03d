"""What a worker claims next: which queues in which order, from which marks, and when to look at everything again.

everyday  places (queue, lane, priority) seen lately, each from its mark on      index entries are not walked twice
full      every lane from its head, once a second and after each short answer    finds what the marks pass over
"""

import random
import time
from collections.abc import Sequence

from djqueue.policy.weights import shuffle
from djqueue.runtime.plan import Plan
from djqueue.store import claim, workers
from djqueue.store.claim import Claimed, Place, Request

RESCAN_SECONDS = 1.0
"""Nothing that the marks pass over waits longer than this for a busy worker to see it."""

SLACK_SECONDS = 0.25
"""How far behind the last claimed job a mark lies, so that a job that committed a little late is seen at once."""

FORGET_SECONDS = 10.0


class Claimer:
    """Chooses the next claim of one worker and learns from its answer."""

    def __init__(self, plan: Plan, worker_id: str) -> None:
        self._plan = plan
        self._alias = plan.alias
        self._worker_id = worker_id
        self._rng = random.Random()
        self._weights: dict[str, float] = {}
        self._lanes: dict[str, list[str]] = {}
        self._marks: dict[tuple[str, str, int], tuple[float, float]] = {}
        self._cursors: dict[str, str] = {}
        self._refreshed_at = float("-inf")
        self._full_at = float("-inf")
        self._was_full = False
        self._was_short = True
        self.strangers: set[str] = set()
        self.paused: list[str] = []
        """Queues that nobody may claim from, whoever serves them."""

    @property
    def names(self) -> list[str]:
        """The queues that are served now."""
        return list(self._weights)

    def is_stale(self) -> bool:
        """Tell whether settings and lanes are due to be read again."""
        return time.monotonic() - self._refreshed_at >= RESCAN_SECONDS

    def refresh(self) -> None:
        """Read which queues there are, which are paused, their weights and their lanes."""
        settings = workers.queue_settings(self._alias)
        self.paused = [name for name, found in settings.items() if found.paused]
        known = [*self._plan.known_queues, *settings]
        if self._plan.selection.everything:
            known += claim.queues_with_jobs(self._alias)
        names = self._plan.selection.names(known)
        self._weights = {name: self._weight(name, settings.get(name)) for name in names}
        self._weights = {n: w for n, w in self._weights.items() if not (n in settings and settings[n].paused)}
        self._lanes = {name: self._open_lanes(name) for name in self._weights}
        self._refreshed_at = time.monotonic()

    def request(self, limit: int, free: int) -> Request:
        """Return the request of this worker for so many jobs."""
        return Request(
            worker_id=self._worker_id,
            limit=limit,
            free=free,
            lease_seconds=self._plan.options.lease_seconds,
            strangers=sorted(self.strangers),
        )

    def start(self, limit: int, free: int) -> claim.Cursor | None:
        """Start the next claim; None where there is nothing to claim from."""
        order = shuffle(self._weights, self._rng)
        request = self.request(limit, free)
        now = time.monotonic()
        self._was_full = self._was_short or now - self._full_at >= RESCAN_SECONDS
        if not self._was_full:
            places = self._places(order)
            if places:
                return claim.start_claim(self._alias, request, places)
        self._was_full = True
        self._full_at = now
        lanes = [(name, lane) for name in order for lane in self._lanes.get(name, [])]
        return claim.start_full_claim(self._alias, request, lanes) if lanes else None

    def learn(self, jobs: Sequence[Claimed], limit: int) -> bool:
        """Take in the answer; return whether it says that nothing more is claimable."""
        self._was_short = len(jobs) < limit
        now = time.monotonic()
        for job in jobs:
            key = (job.queue_name, job.lane, job.priority)
            mark = self._marks.get(key, (float("-inf"), now))[0]
            self._marks[key] = (max(mark, job.run_at - SLACK_SECONDS), now)
        return self._was_short and self._was_full

    def steps(self, limit: int, free: int) -> list[Claimed]:
        """Claim from queues with many lanes, round robin."""
        jobs: list[Claimed] = []
        for name in shuffle(self._weights, self._rng):
            if len(self._lanes.get(name, [])) > 1 and limit > len(jobs):
                request = self.request(limit - len(jobs), max(0, free - len(jobs)))
                per_lane = max(1, request.limit // 10)
                found, cursor = claim.step(self._alias, request, name, self._cursors.get(name, ""), per_lane=per_lane)
                self._cursors[name] = cursor or ""
                jobs += found
        return jobs

    @property
    def has_many_lanes(self) -> bool:
        """Tell whether some queue has more than one lane."""
        return any(len(lanes) > 1 for lanes in self._lanes.values())

    def look_again(self) -> None:
        """Something may have been given back below a mark: look at everything next time."""
        self._was_short = True

    def _places(self, order: Sequence[str]) -> list[Place]:
        now = time.monotonic()
        places: list[Place] = []
        for name in order:
            mine = [(key, mark) for key, (mark, seen) in self._marks.items() if key[0] == name]
            mine = [(key, mark) for key, mark in mine if now - self._marks[key][1] < FORGET_SECONDS]
            mine.sort(key=lambda item: -item[0][2])
            places += [Place(key[0], key[1], key[2], mark) for key, mark in mine]
        return places

    def _open_lanes(self, name: str) -> list[str]:
        """Return the lanes to begin with; the empty lane is always one, so that a claim needs no earlier look."""
        found = claim.lanes(self._alias, name)
        return [lane for lane, is_open in found if is_open] or ([""] if not found else [])

    def _weight(self, name: str, settings: workers.QueueSettings | None) -> float:
        if settings is not None and settings.weight:
            return settings.weight
        if name in self._plan.selection.weights:
            return self._plan.selection.weights[name]
        known = self._plan.options.queues.get(name)
        return known.weight if known else 1
