"""What a job has been through as stretches of time: waited, attempt 1, back-off, attempt 2 …

Invariant: the stretches follow each other without overlap from the moment of enqueueing to the end, or to now; rubbish
in a kept failure costs that stretch only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

MOST = 60
"""Stretches shown: of more, the first and the last."""


class Kind(StrEnum):
    """What a stretch was spent on."""

    WAITED = "waited"
    FAILED = "failed"
    BACK_OFF = "back-off"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    ENDED = "ended"
    """An attempt that ended neither well nor with a failure that was kept."""
    DEAD = "dead"
    """Lay among the dead letters until it was requeued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of a job's life."""

    kind: Kind
    words: str
    begins_at: datetime
    ends_at: datetime

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.ends_at - self.begins_at).total_seconds()


@dataclass(frozen=True, slots=True)
class _Attempt:
    begins_at: datetime
    ends_at: datetime
    number: str
    run: str
    kind: str


def stretches(
    *,
    now: datetime,
    state: str,
    attempts: int,
    created_at: datetime,
    started_at: datetime | None,
    ended_at: datetime | None,
    entries: Sequence[Mapping[str, Any]],
) -> list[Stretch]:
    """Return the stretches of a job in their order. `state` is that of the row, `entries` its kept failures."""
    found = list(_walk(now, state, attempts, created_at, started_at, ended_at, entries))
    return found if len(found) <= MOST else found[: MOST // 2] + found[-MOST // 2 :]


def _walk(
    now: datetime,
    state: str,
    attempts: int,
    created_at: datetime,
    started_at: datetime | None,
    ended_at: datetime | None,
    entries: Sequence[Mapping[str, Any]],
) -> Iterator[Stretch]:
    at, run, is_first = created_at, "1", True
    for each in _attempts(entries):
        if each.begins_at > at:
            yield _wait(at, each.begins_at, is_first=is_first, is_dead=each.run != run)
        begins_at = max(at, each.begins_at)
        if each.ends_at > begins_at:
            words = f"attempt {each.number}: {each.kind}"
            yield Stretch(kind=Kind.FAILED, words=words, begins_at=begins_at, ends_at=each.ends_at)
        at, run, is_first = max(at, each.ends_at), each.run, False
    end = ended_at or now
    last = _last_kind(state)
    if started_at is not None and started_at >= at and last is not None:
        if started_at > at:
            yield _wait(at, started_at, is_first=is_first)
        words = f"attempt {max(1, attempts)}: {'running' if state == 'leased' else state}"
        yield Stretch(kind=last, words=words, begins_at=started_at, ends_at=max(started_at, end))
    elif end > at and state not in ("succeeded", "dead"):
        yield _wait(at, end, is_first=is_first)


def _last_kind(state: str) -> Kind | None:
    """The kind of an attempt that left no failure behind; waiting jobs and dead ones have none."""
    return {"leased": Kind.RUNNING, "succeeded": Kind.SUCCEEDED, "cancelled": Kind.ENDED}.get(state)


def _wait(begins_at: datetime, ends_at: datetime, *, is_first: bool, is_dead: bool = False) -> Stretch:
    kind = Kind.DEAD if is_dead else Kind.WAITED if is_first else Kind.BACK_OFF
    words = {Kind.DEAD: "dead, until it was requeued", Kind.WAITED: "waited"}.get(kind, "back-off")
    return Stretch(kind=kind, words=words, begins_at=begins_at, ends_at=ends_at)


def _attempts(entries: Sequence[Mapping[str, Any]]) -> Iterator[_Attempt]:
    """Yield the failed attempts whose moments can be read, in the order of their beginnings."""
    found = []
    for entry in entries:
        ends_at = _moment(entry.get("at"))
        begins_at = _moment(entry.get("started_at")) or _before(ends_at, entry.get("seconds"))
        if begins_at is None or ends_at is None or entry.get("attempt") is None:
            continue
        number, run, kind = (str(entry.get(name) or "?") for name in ("attempt", "run", "kind"))
        found.append(_Attempt(begins_at, max(begins_at, ends_at), number, run, kind))
    yield from sorted(found, key=lambda each: (each.begins_at, each.ends_at))


def _before(moment: datetime | None, seconds: object) -> datetime | None:
    try:
        return None if moment is None else moment - timedelta(seconds=float(str(seconds)))
    except (ValueError, OverflowError):
        return moment


def _moment(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(text))
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
