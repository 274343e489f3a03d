"""What a worker claims next: which queues in which order, from which marks, and when to look at everything again.

everyday  places (queue, priority) of lane '' seen lately, each from its mark on   index entries are not walked twice
full      lane '' from its head, once a second and after each short answer         finds what the marks pass over
ageing    lane '' by priorities, in the order that waiting puts them in             queues with `ageing_seconds`
walk      the other lanes, from a rotating cursor                                  queues that have any

A claim goes through the queues in the order and with the quotas of their shares (`policy.shares`); in a queue with
other lanes too, lane '' and those others come first in turn. Invariant: no claim but a walk takes a job out of a lane
that a gate can close.
"""

import random
import time
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from djqueue.policy.ageing import in_turn
from djqueue.policy.shares import Shares
from djqueue.runtime.plan import Plan
from djqueue.runtime.stops import Stops
from djqueue.runtime.strangers import Strangers
from djqueue.runtime.walker import Walker
from djqueue.runtime.ways import Ways
from djqueue.store import claim, db, lanes, tenants, workers
from djqueue.store.claim import Claimed, Place, Request
from djqueue.store.lanes import Walk

RESCAN_SECONDS = 1.0
"""Nothing that the marks pass over waits longer than this for a busy worker to see it."""

SLACK_SECONDS = 0.25
"""How far behind the last claimed job a mark lies, so that a job that committed a little late is seen at once."""

FORGET_SECONDS = 10.0

LANED_SECONDS = 60.0
"""So long after the last look that found other lanes in a queue, it is walked."""


class Claimer:
    """Chooses the next claim of one worker and learns from its answer."""

    def __init__(self, plan: Plan, worker_id: str) -> None:
        self._plan = plan
        self._alias = plan.alias
        self._worker_id = worker_id
        self._rng = random.Random()
        self._weights: dict[str, float] = {}
        self._ageing: dict[str, float] = {}
        self._shares = Shares(self._rng)
        self._laned_until: dict[str, float] = {}
        self._marks: dict[tuple[str, int], tuple[float, float]] = {}
        self._ways = Ways(plan)
        self._walkers: dict[str, Walker] = {}
        self._rest: list[_Source] = []
        self._asked = 0
        self._asked_names: list[str] = []
        self._empty_until: dict[str, float] = {}
        self._passed_all = True
        self._refreshed_at = float("-inf")
        self._full_at = float("-inf")
        self._was_full = False
        self._was_short = True
        self.strangers = Strangers()
        self.stops = Stops(plan.alias)

    @property
    def names(self) -> list[str]:
        """The queues that are served now and not paused."""
        return [name for name in self._weights if name not in self.stops.queues]

    @property
    def paused(self) -> frozenset[str]:
        """Queues that nobody may claim from, whoever serves them."""
        return self.stops.queues

    def is_stale(self) -> bool:
        """Tell whether settings and lanes are due to be read again."""
        return time.monotonic() - self._refreshed_at >= RESCAN_SECONDS

    def refresh(self) -> None:
        """Read which queues there are, which are paused, their weights, and which have lanes other than ''."""
        self.stops.look()
        settings = workers.queue_settings(self._alias)
        known = [*self._plan.known_queues, *settings]
        if self._plan.selection.everything:
            known += claim.queues_with_jobs(self._alias)
        names = self._plan.selection.names(known)
        self._weights = {name: self._weight(name, settings.get(name)) for name in names}
        self._ageing = {name: seconds for name in names if (seconds := self._ageing_of(name, settings.get(name)))}
        self._refreshed_at = time.monotonic()
        for name in lanes.laned(self._alias, self.names):
            self._laned_until[name] = self._refreshed_at + LANED_SECONDS
        capped = set(tenants.capped_queues(self._alias))
        for name, way in self._ways.read(self._weights, settings, capped).items():
            self._walkers.setdefault(name, Walker(self._alias, way, self._rng)).way = way

    def way(self, queue_name: str) -> Walk:
        """Return how the lanes of a queue are walked."""
        walker = self._walkers.get(queue_name)
        return Walk(queue_name=queue_name) if walker is None else walker.way

    def request(self, limit: int, free: int) -> Request:
        """Return the request of this worker for so many jobs."""
        return Request(
            worker_id=self._worker_id,
            limit=limit,
            free=free,
            lease_seconds=self._plan.options.lease_seconds,
            strangers=self.strangers.names(),
        )

    def start(self, limit: int, free: int) -> claim.Cursor | None:
        """Start the next claim, of lane '' in the first queues of the order; None where a queue to walk comes first."""
        sources = self._order(limit)
        plain = list(takewhile(lambda source: not source.walked and source.queue_name not in self._ageing, sources))
        self._rest, self._asked, self._passed_all = sources[len(plain) :], limit, True
        request = self.request(limit, free)
        now = time.monotonic()
        names = [source.queue_name for source in plain]
        self._was_full = self._was_short or now - self._full_at >= RESCAN_SECONDS or not self._is_known(names)
        if not self._was_full:
            places = self._places(plain)
            if places:
                return claim.start_claim(self._alias, request, places)
        self._was_full = True
        self._full_at = now
        self._asked_names = names
        if not plain:
            return None
        return claim.start_full_claim(
            self._alias, request, [(s.queue_name, "") for s in plain], [s.quota for s in plain]
        )

    def learn(self, jobs: Sequence[Claimed], limit: int) -> bool:
        """Take in the answer; return whether it says that nothing more is claimable."""
        self._was_short = len(jobs) < limit
        was_bound = self._shares.took(Counter(job.queue_name for job in jobs))
        now = time.monotonic()
        if self._was_full:
            self._note_empty({job.queue_name for job in jobs if not job.lane}, now)
        for job in jobs:
            if not job.lane:
                key = (job.queue_name, job.priority)
                mark = self._marks.get(key, (float("-inf"), now))[0]
                self._marks[key] = (max(mark, job.run_at - SLACK_SECONDS), now)
        return self._was_short and self._was_full and self._passed_all and not was_bound

    def steps(self, limit: int, free: int) -> list[Claimed]:
        """Claim what is left of the batch from the queues that the start did not come to."""
        jobs: list[Claimed] = []
        free = max(0, free - (self._asked - limit))  # what the start has taken will run in those
        for source in self._rest:
            if len(jobs) >= limit:
                break
            request = self.request(min(source.quota, limit - len(jobs)), max(0, free - len(jobs)))
            jobs += self._walk(source.queue_name, request) if source.walked else self._plain(source.queue_name, request)
        return jobs

    @property
    def has_many_lanes(self) -> bool:
        """Tell whether the claim that was started has to go on by `steps`."""
        return bool(self._rest)

    def settings_changed(self) -> None:
        """Somebody has paused, resumed or set something: read it before the next claim."""
        self.stops.look_again()
        self._refreshed_at = float("-inf")

    def look_again(self) -> None:
        """Something may have been given back below a mark: look at everything next time."""
        self._was_short = True
        self._empty_until.clear()

    def _is_known(self, names: Sequence[str]) -> bool:
        """Tell whether the first of these queues that is not known to be empty has marks: a queue that has none yet
        would lose its share to those that have."""
        now = time.monotonic()
        first = next((name for name in names if self._empty_until.get(name, 0) < now), None)
        marked = {name for (name, _), (_, at) in self._marks.items() if now - at < FORGET_SECONDS}
        return first is None or first in marked

    def _note_empty(self, found: set[str], now: float) -> None:
        """After a full claim: what was asked before the last queue that gave something, and gave nothing, is empty."""
        last = max((place for place, name in enumerate(self._asked_names) if name in found), default=-1)
        asked = self._asked_names if self._was_short else self._asked_names[: last + 1]
        for name in asked:
            if name not in found:
                self._empty_until[name] = now + RESCAN_SECONDS

    def _order(self, limit: int) -> list["_Source"]:
        now = time.monotonic()
        sources: list[_Source] = []
        for name, quota in self._shares.order({name: self._weights[name] for name in self.names}, limit):
            plain, walked = _Source(name, False, quota), _Source(name, True, quota)
            if self.way(name).queue_gate is not None:
                sources.append(walked)  # lane '' too
            elif self._laned_until.get(name, 0) > now:
                sources += self._rng.sample([plain, walked], 2)
            else:
                sources.append(plain)
        return sources

    def _places(self, sources: Sequence["_Source"]) -> list[Place]:
        now = time.monotonic()
        places: list[Place] = []
        for name, _, quota in sources:
            mine = [(key[1], mark) for key, (mark, seen) in self._marks.items() if key[0] == name]
            mine = [
                (priority, mark) for priority, mark in mine if now - self._marks[name, priority][1] < FORGET_SECONDS
            ]
            mine.sort(key=lambda item: -item[0])
            places += [Place(name, "", priority, mark, quota) for priority, mark in mine]
        return places

    def _plain(self, name: str, request: Request) -> list[Claimed]:
        if name in self._ageing:
            return self._aged(name, request)
        with db.one_transaction(self._alias):
            return claim.claimed(claim.start_full_claim(self._alias, request, [(name, "")]))

    def _aged(self, name: str, request: Request) -> list[Claimed]:
        """Claim from the priorities in the order in which waiting has put them, each from its oldest job on."""
        with db.one_transaction(self._alias):
            turns = in_turn(claim.levels(self._alias, name), self._ageing[name])
            if not turns:
                return []
            places = [Place(name, "", level.priority, level.since - SLACK_SECONDS) for level in turns]
            return claim.claimed(claim.start_claim(self._alias, request, places))

    def _walk(self, name: str, request: Request) -> list[Claimed]:
        walker = self._walkers[name]
        jobs = walker.claim(request)
        self._passed_all = self._passed_all and walker.has_passed_all
        return jobs

    def _ageing_of(self, name: str, settings: workers.QueueSettings | None) -> float | None:
        if settings is not None and settings.ageing_seconds:
            return settings.ageing_seconds
        known = self._plan.options.queues.get(name)
        return known.ageing_seconds if known else None

    def _weight(self, name: str, settings: workers.QueueSettings | None) -> float:
        if settings is not None and settings.weight:
            return settings.weight
        if name in self._plan.selection.weights:
            return self._plan.selection.weights[name]
        known = self._plan.options.queues.get(name)
        return known.weight if known else 1


class _Source(NamedTuple):
    """Lane '' of a queue, or (walked) its other lanes."""

    queue_name: str
    walked: bool
    quota: int
    """The most jobs from here within the claim."""
