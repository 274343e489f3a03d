"""A worker's row in the database: who it is, what it knows, and whether it wants to hear of new jobs.

"Wants news" does not mean "asleep" but "may run dry": it is cleared only after a second of full claims. Invariant: who
begins to want news looks once more after that was written, because what was enqueued before told nobody.
"""

import os
import time

from djqueue import __version__
from djqueue.api import lanes, registry
from djqueue.runtime.plan import Plan
from djqueue.store import limits, workers
from djqueue.store.limits import Declared

FULL_SECONDS = 1.0


class Registration:
    """The row of one worker."""

    def __init__(self, plan: Plan, worker_id: str, slots: int) -> None:
        self._plan = plan
        self._alias = plan.alias
        self._id = worker_id
        self._slots = slots
        self._wants_news = True
        self._full_since: float | None = None

    def write(self) -> None:
        """Write the row; one that is there already is refreshed, and wants news. Also write what the tasks that this
        process knows say of their limits: the code that started last counts."""
        workers.register(self._alias, self._info())
        limits.declare(self._alias, _declared())
        self._wants_news = True

    def remove(self) -> None:
        """Delete the row."""
        workers.remove(self._alias, [self._id])

    def learn(self, was_full: bool) -> bool:
        """Say whether news is wanted after a claim; return whether to look once more at once."""
        now = time.monotonic()
        if not was_full:
            self._full_since = None
            return self._want_news()
        self._full_since = self._full_since or now
        if self._wants_news and now - self._full_since > FULL_SECONDS:
            workers.wants_news(self._alias, self._id, False)
            self._wants_news = False
        return False

    def _want_news(self) -> bool:
        if self._wants_news:
            return False
        workers.wants_news(self._alias, self._id, True)
        self._wants_news = True
        return True

    def _info(self) -> workers.WorkerInfo:
        names = registry.known()
        return workers.WorkerInfo(
            id=self._id,
            supervisor_id=self._plan.supervisor_id,
            host=self._plan.host,
            pid=os.getpid(),
            version=self._plan.options.code_version or __version__,
            slots=self._slots,
            queues=self._plan.selection.words(),
            task_names=names,
            tasks_hash=str(hash(tuple(names))),
        )


def _declared() -> list[Declared]:
    return [
        Declared(task_name=task.module_path, running=task.concurrency_limit, rate=lanes.rate_of(task))
        for task in registry.tasks()
        if task.concurrency_limit is not None or task.rate_limit is not None
    ]
