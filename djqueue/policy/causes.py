"""Counting deaths in groups: what a group knows after some more deaths of its cause.

Invariant: a group stays small however many die: lists are bounded, texts are short.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

MOST_NAMES = 20
"""Tasks, tenants, versions that a group names."""

SAMPLES = 3


class GroupState(StrEnum):
    """What people have said of a cause."""

    OPEN = "open"
    MUTED = "muted"
    """Counted, but never announced."""
    RESOLVED = "resolved"
    """Thought to be mended: the next death opens it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """One job that died."""

    job_id: UUID
    died_at: datetime
    queue_name: str
    task_name: str
    tenant_id: str
    reason: str
    fingerprint: str
    """Empty where a version of djqueue without fingerprints wrote it."""
    exception: str
    frame: str
    message: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """All deaths of one cause."""

    fingerprint: str
    exception: str
    frame: str
    masked: str
    first_seen_at: datetime
    last_seen_at: datetime
    state: GroupState = GroupState.OPEN
    count: int = 0
    reopened: int = 0
    unannounced: int = 0
    tasks: list[str] = field(default_factory=list)
    tenants: list[str] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)


def counted(group: Group, deaths: Iterable[Death]) -> Group:
    """Return the group with these deaths; a resolved one is open again."""
    found = list(deaths)
    if not found:
        return group
    was_resolved = group.state is GroupState.RESOLVED
    return replace(
        group,
        count=group.count + len(found),
        unannounced=group.unannounced + len(found),
        first_seen_at=min([group.first_seen_at, *(each.died_at for each in found)]),
        last_seen_at=max([group.last_seen_at, *(each.died_at for each in found)]),
        state=GroupState.OPEN if was_resolved else group.state,
        reopened=group.reopened + was_resolved,
        tasks=_named(group.tasks, (each.task_name for each in found)),
        tenants=_named(group.tenants, (each.tenant_id for each in found)),
        versions=_named(group.versions, (each.version for each in found)),
        samples=_samples(group.samples, (each.message for each in found)),
    )


def _named(known: list[str], more: Iterable[str]) -> list[str]:
    """The names in the order in which they were seen first, without empty ones, the first twenty."""
    return list(dict.fromkeys(name for name in (*known, *more) if name))[:MOST_NAMES]


def _samples(known: list[str], more: Iterable[str]) -> list[str]:
    """The first message and the latest two, each once."""
    found = list(dict.fromkeys((*known, *more)))
    return found if len(found) <= SAMPLES else [found[0], *found[1 - SAMPLES :]]
