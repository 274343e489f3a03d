"""What was claimed is put down before the slots; what this worker does not know, or may not start, goes back or aside.
A job whose arguments are of a newer version than the code is as little known as one of an unknown task.

Invariant: whatever was claimed is in the slot table before anything else can fail.
"""

import logging
from collections.abc import Iterable

from djqueue.api import registry
from djqueue.policy import aside
from djqueue.policy.payloads import known_as, version_of
from djqueue.runtime.circuits import Circuits
from djqueue.runtime.claimer import Claimer
from djqueue.runtime.held import Held
from djqueue.runtime.holdings import Holdings
from djqueue.runtime.slots import Slots
from djqueue.store import lease, recover, workers
from djqueue.store.claim import Claimed

log = logging.getLogger("djqueue")


class Intake:
    """Takes up what one worker has claimed."""

    def __init__(self, alias: str, holdings: Holdings, slots: Slots, claimer: Claimer, circuits: Circuits) -> None:
        self._alias = alias
        self._holdings = holdings
        self._slots = slots
        self._claimer = claimer
        self._circuits = circuits

    def take_up(self, jobs: Iterable[Claimed]) -> None:
        """Put claimed jobs into the table and then before the slots; those on their last attempt first."""
        known: list[Held] = []
        strangers: list[Claimed] = []
        stopped: list[Claimed] = []
        for job in jobs:
            task = registry.get(job.task_name)
            if self._claimer.stops.sets_aside(job):
                stopped.append(job)
            elif task is None or version_of(job.options) > task.version:
                strangers.append(job)
            else:
                known.append(self._holdings.take(job, task))
        known.sort(key=lambda held: held.job.attempts < held.job.max_attempts)
        asking = [held for held in known if self._circuits.concern(held)]
        plain = [held for held in known if not self._circuits.concern(held)] if asking else known
        for held in plain:
            self._slots.put_down(held)
        if asking:
            for held in self._circuits.admitted(asking):
                self._slots.put_down(held)
        if stopped:
            self._claimer.stops.set_aside(stopped)
        if strangers:
            self._refuse(strangers)

    def _refuse(self, jobs: list[Claimed]) -> None:
        """Leave what another live worker knows to it; set aside what nobody knows. Uncharged."""
        known = workers.known_tasks(self._alias)
        others = [job for job in jobs if _wants(job) in known]
        orphans = [job for job in jobs if _wants(job) not in known]
        if others:
            self._claimer.strangers.leave({job.task_name for job in others})
            lease.release(self._alias, [lease.Lease(job.id, job.lease_token) for job in others])
        if orphans:
            self._set_aside(orphans)

    def _set_aside(self, jobs: list[Claimed]) -> None:
        leases = [lease.Lease(job.id, job.lease_token) for job in jobs]
        lease.set_aside(self._alias, leases, [aside.orphan(_wants(job)) for job in jobs])
        for queue_name in {job.queue_name for job in jobs}:
            mine = [job for job in jobs if job.queue_name == queue_name]
            log.warning(
                "jobs of unknown tasks are set aside queue=%s tasks=%s",
                queue_name,
                sorted({_wants(job) for job in mine}),
            )
            names = {job.task_name for job in mine}
            unknown = sorted(name for name in names if registry.get(name) is None)
            newer = {name: registry.get(name).version for name in names.difference(unknown)}  # type: ignore[union-attr]
            if unknown:
                recover.set_aside_tasks(self._alias, queue_name, unknown)
            if newer:
                recover.set_aside_newer(self._alias, queue_name, newer)


def _wants(job: Claimed) -> str:
    """What a worker must know to run it."""
    return known_as(job.task_name, version_of(job.options))
