"""The cron duty of the leader: look at every entry, plan it, and fire what is due.

     no plan, or one that its schedule does not have (it was edited) ──► planned from now on; nothing fires
     plan ahead ──► nothing
     plan due ──► the latest missed time fires once, and the next is planned

Invariant: the database's clock decides what is due, and one bad entry shows its own error and stops nobody else.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

from djqueue.policy.cron import CronExpression, missed, next_fire
from djqueue.runtime.leader import LeaderDuty
from djqueue.store import cron, faults
from djqueue.store.cron import Entry

Enqueue = Callable[[], UUID]

log = logging.getLogger("djqueue")

LOOK_SECONDS = 1.0
"""How often entries are looked at, so that a new or edited one counts soon."""

_MICROSECOND = timedelta(microseconds=1)
_BUSY = {"55P03", *faults.RETRY}


class CronDuty:
    """Fires cron entries while this keeper leads."""

    name = "cron"

    def __init__(self, alias: str, leader: LeaderDuty, prepare: Callable[[Entry], Enqueue]) -> None:
        """`prepare` returns what enqueues an entry's job, or raises what is wrong with the entry, in words."""
        self._alias = alias
        self._leader = leader
        self._prepare = prepare
        self._seen: dict[int, str] = {}

    def tick(self) -> float:
        """Look at all entries; return the seconds until the next is due, at most one."""
        if not self._leader.leads:
            self._seen.clear()
            return LOOK_SECONDS
        cron.forget_disabled(self._alias)
        entries = cron.entries(self._alias)
        waits = [self._look(entry) for entry in entries]
        self._seen = {entry.id: entry.version for entry in entries}
        return min([LOOK_SECONDS, *(wait for wait in waits if wait is not None)])

    def _look(self, entry: Entry) -> float | None:
        """Deal with one entry; return the seconds until it is due, if it waits."""
        if not self._leader.leads:
            return None
        if entry.next_fire_at is not None and entry.next_fire_at > entry.now and self._knows(entry):
            return (entry.next_fire_at - entry.now).total_seconds()
        try:
            self._decide(entry)
        except faults.ERRORS as error:
            if faults.sqlstate(error) not in _BUSY:
                raise
        return None

    def _knows(self, entry: Entry) -> bool:
        """Tell whether this very version was looked at, and found right, before."""
        return self._seen.get(entry.id) == entry.version

    def _decide(self, entry: Entry) -> None:
        try:
            expression, zone = CronExpression.parse(entry.schedule, entry.name), _zone(entry.timezone)
            upcoming = next_fire(expression, zone, max(entry.now, entry.last_fire_at or entry.now))
            due = _due_at(entry, expression, zone)
        except Exception as error:
            self._settle(entry, None, _said(error))
            return
        try:
            enqueue = self._prepare(entry)
        except Exception as error:
            # The plan stays: an entry that a later release knows fires once it is there.
            self._settle(entry, entry.next_fire_at if due else upcoming, _said(error))
            return
        if due is None:
            self._settle(entry, upcoming, "")
        else:
            self._fire(entry, due, upcoming, enqueue)

    def _fire(self, entry: Entry, due: datetime, upcoming: datetime, enqueue: Enqueue) -> None:
        try:
            job_id = cron.fire(self._alias, entry, due, upcoming, enqueue)
        except faults.ERRORS as error:
            if not faults.sqlstate(error).startswith(("22", "23")):
                raise
            self._settle(entry, entry.next_fire_at, f"the job can't be written: {faults.words(error)}")
        except Exception as error:
            self._settle(entry, entry.next_fire_at, _said(error))
        else:
            if job_id is not None:
                log.info("cron entry fired name=%s fire_at=%s job=%s", entry.name, due.isoformat(), job_id)

    def _settle(self, entry: Entry, next_fire_at: datetime | None, error: str) -> None:
        if (next_fire_at, error) == (entry.next_fire_at, entry.last_error):
            return
        if cron.settle(self._alias, entry, next_fire_at, error) and error:
            log.warning("cron entry can't fire name=%s error=%s", entry.name, error)


def _due_at(entry: Entry, expression: CronExpression, zone: ZoneInfo) -> datetime | None:
    """Return the latest time that the entry has missed, if its plan is due and one that its schedule has."""
    plan = entry.next_fire_at
    if plan is None or plan > entry.now or next_fire(expression, zone, plan - _MICROSECOND) != plan:
        return None
    last = max(plan - _MICROSECOND, entry.last_fire_at or plan - _MICROSECOND)
    return missed(expression, zone, last, entry.now)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f'timezone: expected a name such as "Europe/Paris" or "UTC", got {name!r}') from None


def _said(error: Exception) -> str:
    return str(error).strip()[:1_000] or type(error).__name__
