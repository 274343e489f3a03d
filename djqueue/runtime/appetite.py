"""How many jobs a worker claims now, and when it looks again after it has found nothing.

found more to come  hungry: claim again at once, as much as the pace allows
found nothing more  look again after a pause that doubles up to `poll_seconds`; news or trouble makes hungry at once
"""

import random
import time

from djqueue.policy.pace import Pace
from djqueue.runtime.holdings import Holdings
from djqueue.runtime.plan import Plan
from djqueue.runtime.settling import Settling
from djqueue.runtime.slot_table import DONE, Page
from djqueue.runtime.slots import Slots

BATCH = 500
"""Jobs per claim at the most."""

FIRST_PAUSE_SECONDS = 0.01


class Appetite:
    """How much one worker claims, and when."""

    def __init__(self, plan: Plan, page: Page, holdings: Holdings, slots: Slots, settling: Settling) -> None:
        self._plan = plan
        self._page = page
        self._holdings = holdings
        self._slots = slots
        self._settling = settling
        self._pace = Pace()
        self._hungry = True
        self._next_look = 0.0
        self._looks = 0

    def limit(self) -> int:
        """Return how many jobs to claim now."""
        if not self._hungry and time.monotonic() < self._next_look:
            return 0
        waiting = self._slots.count_waiting()
        running = len(self._holdings) - waiting - len(self._settling.acks)
        return self._pace.want(
            slots=self._slots.count, running=max(0, running), waiting=waiting, capacity=self._capacity()
        )

    def limit_alone(self) -> int:
        """Return how many jobs to claim where none may wait."""
        if not self._hungry and time.monotonic() < self._next_look:
            return 0
        return min(self.free_slots(), self._capacity())

    def free_slots(self) -> int:
        """Return how many slots have nothing to do."""
        running = len(self._holdings) - len(self._settling.acks)
        return max(0, self._slots.count - running)

    def has_room(self) -> bool:
        """Tell whether it could take another job now: a slot is free, and its share of jobs is not all here yet."""
        return min(self.free_slots(), self._capacity()) > 0

    def observe(self, seconds: float, jobs: int) -> None:
        """Take in that so many jobs have kept their slots busy for so long in all."""
        self._pace.observe(seconds, jobs)

    def learn(self, found: int, nothing_more: bool) -> None:
        """Take in what a claim has found."""
        self._hungry = not nothing_more
        self._looks = 0 if found or self._hungry else self._looks + 1
        if nothing_more:
            pause = min(self._plan.options.poll_seconds, FIRST_PAUSE_SECONDS * 2 ** min(self._looks, 10))
            self.look_after(pause * random.uniform(0.8, 1.0))

    def look_after(self, seconds: float) -> None:
        """Be content for so long, unless there is news."""
        self._hungry = False
        self._next_look = time.monotonic() + seconds

    def look_now(self) -> None:
        """There may be something to claim."""
        self._hungry = True
        self._looks = 0

    def seconds_to_next_look(self) -> float:
        """Return when to look again; may be below 0."""
        return self._next_look - time.monotonic()

    def _capacity(self) -> int:
        return min(BATCH, self._holdings.room, self._jobs_left())

    def _jobs_left(self) -> int:
        """Return how many more jobs this process may take up before it is recycled."""
        if not self._plan.max_jobs:
            return BATCH
        return max(0, self._plan.max_jobs - self._page.get(DONE) - len(self._holdings))
