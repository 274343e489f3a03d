"""Counting deaths in groups."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from djqueue.policy.causes import Death, Group, GroupState, counted

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def death(**fields: Any) -> Death:
    base = {
        "job_id": UUID(int=1), "died_at": NOON, "queue_name": "q", "task_name": "t", "tenant_id": "", "reason": "",
        "fingerprint": "f", "exception": "E", "frame": "a.py:b", "message": "boom", "version": "",
    }  # fmt: skip
    return Death(**{**base, **fields})


def group(**fields: Any) -> Group:
    base = {"fingerprint": "f", "exception": "E", "frame": "a.py:b", "masked": "boom"}
    return Group(**{**base, "first_seen_at": NOON, "last_seen_at": NOON, **fields})


def test_deaths_are_counted_with_their_first_and_last_moment() -> None:
    found = counted(group(count=3), [death(died_at=NOON + timedelta(hours=n)) for n in (2, -1, 1)])

    assert (found.count, found.unannounced) == (6, 3)
    assert (found.first_seen_at, found.last_seen_at) == (NOON - timedelta(hours=1), NOON + timedelta(hours=2))


@pytest.mark.parametrize(
    ("before", "after", "reopened"),
    [(GroupState.OPEN, GroupState.OPEN, 0), (GroupState.MUTED, GroupState.MUTED, 0),
     (GroupState.RESOLVED, GroupState.OPEN, 1)],
)  # fmt: skip
def test_a_death_opens_a_resolved_group_and_leaves_a_muted_one(
    before: GroupState, after: GroupState, reopened: int
) -> None:
    found = counted(group(state=before), [death(), death()])

    assert (found.state, found.reopened) == (after, reopened)


def test_no_death_changes_nothing() -> None:
    assert counted(group(state=GroupState.RESOLVED), []) == group(state=GroupState.RESOLVED)


def test_names_are_kept_once_in_the_order_of_their_appearance_and_at_most_twenty() -> None:
    deaths = [death(task_name=f"t{n % 30}", tenant_id="acme" if n % 2 else "", version="v2") for n in range(90)]

    found = counted(group(tasks=["t5"], versions=["v1"]), deaths)

    assert found.tasks == ["t5", *(f"t{n}" for n in range(20) if n != 5)]
    assert (found.tenants, found.versions) == (["acme"], ["v1", "v2"])


def test_three_samples_are_kept_the_first_and_the_latest() -> None:
    found = counted(counted(group(), [death(message="a"), death(message="a")]), [death(message=m) for m in "bcdb"])

    assert found.samples == ["a", "c", "d"]
