"""One cron entry as the duty sees it: understood once per version, and what is to be done about it now.

     no plan, or one that its schedule does not have (it was edited) ──► planned from now on; nothing fires
     plan ahead ──► nothing
     plan due, and its name remembers it ──► it has fired; planned from there
     plan due ──► the times that its policies name fire

Invariant: nothing here writes; a moment that counts is the database's, read with the entry.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from djqueue.policy.cron import CronExpression, next_fire
from djqueue.policy.cronfires import due_times
from djqueue.store.cron import Entry, Settled
from djqueue.store.cronfire import Fire

Prepare = Callable[[Entry], Any]

_MICROSECOND = timedelta(microseconds=1)


@dataclass(slots=True, kw_only=True)
class Known:
    """One version of an entry, read, checked and planned by this keeper: its plan is trusted."""

    version: str
    expression: CronExpression
    zone: ZoneInfo
    job: Any
    fired_at: datetime | None = None
    """It fired for this time, and is not planned yet."""

    def after(self, moment: datetime) -> datetime:
        """Return the next fire time after a moment."""
        return next_fire(self.expression, self.zone, moment)


def decide(entry: Entry, known: Known | None, prepare: Prepare) -> tuple[Known | None, Settled | list[Fire]]:
    """Return what is known of the entry, None where it can't fire, and its plan and error or what fires of it."""
    try:
        if known is not None and known.version == entry.version:
            return known, _known_is(entry, known)
        expression, zone = CronExpression.parse(entry.schedule, entry.name), zone_of(entry.timezone)
        known = Known(version=entry.version, expression=expression, zone=zone, job=None)
        plan = _plan(entry, known)
        found = _known_is(entry, known) if plan == entry.next_fire_at else settled(entry, plan)
    except Exception as error:
        return None, settled(entry, None, said(error))
    try:
        known.job = prepare(entry)
    except Exception as error:
        # A due plan stays: an entry that a later release knows fires once it is there.
        return None, settled(entry, plan, said(error))
    return known, found


def settled(entry: Entry, plan: datetime | None, error: str = "") -> Settled:
    """Return a plan for the version that was read."""
    return Settled(id=entry.id, version=entry.version, next_fire_at=plan, error=error)


def zone_of(name: str) -> ZoneInfo:
    """Return the zone; raise `ValueError` where the zone database has none of that name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f'timezone: expected a name such as "Europe/Paris" or "UTC", got {name!r}') from None


def said(error: Exception) -> str:
    """Return an error in words that fit into a row."""
    return str(error).replace("\0", "").strip()[:1_000] or type(error).__name__


def _plan(entry: Entry, known: Known) -> datetime:
    """Return the entry's plan if its schedule has it and it is due or the next; else the next time from now on."""
    plan, now = entry.next_fire_at, entry.now
    is_due = plan is not None and plan <= now and known.after(plan - _MICROSECOND) == plan
    return plan if is_due and plan is not None else known.after(max(now, entry.last_fire_at or now))


def _known_is(entry: Entry, known: Known) -> Settled | list[Fire]:
    """Decide about an entry whose plan is trusted."""
    plan, last = entry.next_fire_at, entry.last_fire_at
    if plan is None or plan > entry.now:
        return settled(entry, plan)
    if last is not None and plan <= last:
        return settled(entry, known.after(last))
    found = due_times(
        known.expression,
        known.zone,
        plan,
        entry.now,
        policy=entry.missed,
        most=entry.missed_max,
        grace_seconds=entry.grace_seconds,
    )
    return [Fire(entry=entry, at=at, outcome=outcome) for at, outcome in found]
