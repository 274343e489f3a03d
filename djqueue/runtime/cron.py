"""The cron duty of the leader: look at every entry, fire what is due, plan what has fired.

     look (all entries, a few columns) ─┬─► due ──► fire, some hundreds in one transaction
                                        ├─► a job ended that a fire waited for ──► fire
                                        ├─► new, edited ──► understand and plan; nothing fires
                                        └─► fired ──► plan, from the time that it fired for

Invariant: the database's clock decides what is due, and one bad entry shows its own error and stops nobody else. A
tick takes about half a second at most, so that the leader lease, which the same thread renews, never waits for long.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Protocol
from uuid import UUID

from djqueue.policy.cronfires import Outcome
from djqueue.policy.cronhash import jitter
from djqueue.runtime.cron_entry import Known, decide, said, settled
from djqueue.runtime.leader import LeaderDuty
from djqueue.store import cron, cronfire, faults
from djqueue.store.cron import Entry, Glance, Settled
from djqueue.store.cronfire import Fire, Fired

log = logging.getLogger("djqueue")

LOOK_SECONDS = 0.75
"""How often entries are looked at, so that a new or edited one counts within a second."""

CHUNK = 500
TICK_SECONDS = 0.5

_BUSY = {"55P03", *faults.RETRY}


class Jobs(Protocol):
    """What makes jobs of entries; see `runtime.cron_jobs`."""

    def prepare(self, entry: Entry) -> Any:
        """Return the entry's job; raise what is wrong with the entry, in words."""

    def enqueue(self, wanted: Sequence[tuple[Any, int]]) -> list[UUID]:
        """Enqueue jobs, each after so many seconds; return their ids in order."""


class CronDuty:
    """Fires cron entries while this keeper leads."""

    name = "cron"

    def __init__(self, alias: str, leader: LeaderDuty, jobs: Jobs) -> None:
        self._alias = alias
        self._leader = leader
        self._jobs = jobs
        self._known: dict[int, Known] = {}
        self._bad: dict[int, str] = {}
        """Versions of entries that can't fire until they are changed."""
        self._troubled: set[int] = set()
        """Entries that could not be fired; each is tried again by itself."""

    def tick(self) -> float:
        """Do about half a second of what is to be done; return the seconds until the next look."""
        if not self._leader.leads:
            self._known.clear()
            self._bad.clear()
            return LOOK_SECONDS
        until = time.monotonic() + TICK_SECONDS
        glances = cron.look(self._alias)
        self._forget(glances)
        for work in chain(self._looks(glances), self._plans()):
            if not self._leader.leads:
                return LOOK_SECONDS
            self._unless_busy(work)
            if time.monotonic() > until:
                return 0.0
        return self._wait(glances)

    def _forget(self, glances: Sequence[Glance]) -> None:
        if not all(each.on for each in glances):
            cron.forget_disabled(self._alias)
        on = {each.id for each in glances if each.on}
        self._known = {id_: known for id_, known in self._known.items() if id_ in on}
        self._bad = {id_: version for id_, version in self._bad.items() if id_ in on}
        self._troubled &= on

    def _wait(self, glances: Sequence[Glance]) -> float:
        ahead = (each.next_fire_at - each.now for each in glances if each.next_fire_at and each.next_fire_at > each.now)
        return min(LOOK_SECONDS, min((wait.total_seconds() for wait in ahead), default=LOOK_SECONDS))

    def _looks(self, glances: Sequence[Glance]) -> Iterator[Callable[[], None]]:
        """Yield the work on entries that need attention, those that are due first."""
        due: list[int] = []
        others: list[int] = []
        alone: list[int] = []
        for each in glances:
            if not each.on or self._is_settled(each):
                continue
            is_due = each.can_leave_queue or _is_due(each)
            (alone if each.id in self._troubled else due if is_due else others).append(each.id)
        for ids in (*_chunks(due), *([id_] for id_ in alone), *_chunks(others)):
            yield lambda ids=ids: self._look(ids)  # type: ignore[misc]

    def _is_settled(self, glance: Glance) -> bool:
        """Tell whether this very version was dealt with, and nothing of it is due."""
        if self._bad.get(glance.id) == glance.version:
            return True
        known = self._known.get(glance.id)
        if known is None or known.version != glance.version or glance.can_leave_queue:
            return False
        return known.fired_at is not None or not _is_due(glance)

    def _look(self, ids: Sequence[int]) -> None:
        """Decide about some entries; fire what is due of them, and write the plans of the others."""
        waiting: list[Entry] = []
        fires: list[Fire] = []
        plans: list[tuple[Entry, Settled]] = []
        bad: set[int] = set()
        for entry in cron.read(self._alias, ids):
            known, found = decide(entry, self._known.pop(entry.id, None), self._jobs.prepare)
            if known is None:
                bad.add(entry.id)
            else:
                self._known[entry.id] = known
                if entry.queued_fire_at is not None:
                    waiting.append(entry)
            if isinstance(found, list):
                fires += found
            else:
                plans.append((entry, found))
        self._leave_queue(waiting)
        versions = self._settle(plans)
        self._bad |= {id_: versions[id_] for id_ in bad if id_ in versions}
        self._fire(fires)

    def _plans(self) -> Iterator[Callable[[], None]]:
        """Yield the work on entries that have fired and are not planned yet."""
        fired = [id_ for id_, known in self._known.items() if known.fired_at is not None]
        for ids in _chunks(fired):
            yield lambda ids=ids: self._plan(ids)  # type: ignore[misc]

    def _plan(self, ids: Sequence[int]) -> None:
        plans: list[Settled] = []
        for id_ in ids:
            known = self._known[id_]
            try:
                plan, error = known.after(known.fired_at) if known.fired_at else None, ""
            except ValueError as fault:
                plan, error = None, said(fault)
            plans.append(Settled(id=id_, version=known.version, next_fire_at=plan, error=error))
        self._written(plans)

    def _settle(self, plans: Sequence[tuple[Entry, Settled]]) -> dict[int, str]:
        """Write plans and errors, where they are news, and tell of new errors; return the versions that now hold."""
        news = [
            (entry, plan)
            for entry, plan in plans
            if (plan.next_fire_at, plan.error) != (entry.next_fire_at, entry.last_error)
        ]
        written = self._written([plan for _, plan in news])
        for entry, plan in news:
            if plan.error and plan.error != entry.last_error and entry.id in written:
                log.warning("cron entry can't fire name=%s error=%s", entry.name, plan.error)
        known_before = {plan.id for _, plan in plans} - {plan.id for _, plan in news}
        return written | {plan.id: plan.version for _, plan in plans if plan.id in known_before}

    def _written(self, plans: Sequence[Settled]) -> dict[int, str]:
        """Write plans; what is known of an entry that was changed meanwhile is forgotten."""
        versions = cron.settle(self._alias, plans)
        for plan in plans:
            known = self._known.get(plan.id)
            if known is not None and plan.id in versions:
                known.version, known.fired_at = versions[plan.id], None
            elif known is not None:
                del self._known[plan.id]
        return versions

    def _fire(self, fires: Sequence[Fire]) -> None:
        """Fire in one transaction; where that fails because of one of them, each entry in its own."""
        self._each_or_all(
            {each.entry.id: each.entry for each in fires},
            lambda ids: self._fired([each for each in fires if each.entry.id in ids]),
        )

    def _fired(self, fires: Sequence[Fire]) -> None:
        fired, versions = cronfire.fire(self._alias, fires, self._enqueue)
        for each in fired:
            known = self._known[each.fire.entry.id]
            known.version = versions.get(each.fire.entry.id, each.fire.entry.version)
            known.fired_at = each.fire.at
            _tell(each)

    def _leave_queue(self, entries: Sequence[Entry]) -> None:
        """Enqueue what waited for the end of another job."""
        self._each_or_all(
            {each.id: each for each in entries},
            lambda ids: self._left_queue([each for each in entries if each.id in ids]),
        )

    def _left_queue(self, entries: Sequence[Entry]) -> None:
        for each in cronfire.leave_queue(self._alias, entries, self._enqueue):
            _tell(each)

    def _each_or_all(self, entries: dict[int, Entry], action: Callable[[set[int]], object]) -> None:
        """Act on all entries at once; where that fails because of one of them, on each by itself."""
        if not entries:
            return
        try:
            action(set(entries))
        except Exception as error:
            if isinstance(error, faults.ERRORS) and not faults.sqlstate(error).startswith(("22", "23")):
                raise
            if len(entries) > 1:
                for id_, entry in entries.items():
                    self._each_or_all({id_: entry}, action)
                return
            (entry,) = entries.values()
            words = f"the job can't be written: {faults.words(error)}" if isinstance(error, faults.ERRORS) else None
            self._troubled.add(entry.id)
            self._settle([(entry, settled(entry, entry.next_fire_at, words or said(error)))])
        else:
            self._troubled -= entries.keys()

    def _enqueue(self, fires: Sequence[Fire]) -> list[UUID]:
        return self._jobs.enqueue([(self._known[each.entry.id].job, _delay(each)) for each in fires])

    def _unless_busy(self, work: Callable[[], None]) -> None:
        """Do it; where somebody else was quicker, leave it to the next look."""
        try:
            work()
        except faults.ERRORS as error:
            if faults.sqlstate(error) not in _BUSY:
                raise


def _is_due(glance: Glance) -> bool:
    return glance.next_fire_at is not None and glance.next_fire_at <= glance.now


def _chunks(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    return (ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK))


def _delay(fire: Fire) -> int:
    return jitter(fire.entry.name, fire.at, fire.entry.jitter_seconds) if fire.entry.jitter_seconds else 0


def _tell(fired: Fired) -> None:
    name, at = fired.fire.entry.name, fired.fire.at.isoformat()
    if fired.outcome is Outcome.ENQUEUED:
        log.info("cron entry fired name=%s fire_at=%s job=%s", name, at, fired.job_id)
    else:
        log.info("cron entry did not fire name=%s fire_at=%s why=%s", name, at, fired.outcome)
