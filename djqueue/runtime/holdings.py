"""The jobs in one worker's hands, each with its record in the slot table.

Invariant: a job is in the slot table before it can start and until the database has answered about its end.
"""

from collections import deque
from typing import Any
from uuid import UUID

from djqueue.runtime.held import Held
from djqueue.runtime.slot_table import RECORDS, Page
from djqueue.store.claim import Claimed
from djqueue.store.lease import Lease


class Holdings:
    """What one worker holds: jobs that wait, run, or have ended without an answer from the database yet."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._held: dict[UUID, Held] = {}
        self._free = deque(range(RECORDS))

    def __len__(self) -> int:
        return len(self._held)

    @property
    def room(self) -> int:
        """How many more jobs the table can take."""
        return len(self._free)

    def leases(self) -> set[Lease]:
        """Return the leases of all that is held."""
        return {held.lease for held in self._held.values()}

    def take(self, job: Claimed, task: Any) -> Held:
        """Write a claimed job into the table; from here on it may be started."""
        held = Held(job, task, self._page, self._free.popleft())
        self._page.hold(held.index, job.id, job.lease_token)
        self._held[job.id] = held
        return held

    def let_go(self, held: Held) -> None:
        """Forget a job about whose end the database has answered."""
        self._held.pop(held.job.id, None)
        self._page.let_go(held.index)
        self._free.append(held.index)
