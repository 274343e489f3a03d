"""What a health check calls healthy."""

import pytest

from djqueue.policy.alive import WorkerLook, patience, problems


def look(seconds: float) -> WorkerLook:
    return WorkerLook(id="w", host="h", pid=1, looked_seconds=seconds)


@pytest.mark.parametrize(
    ("workers", "leaderless", "expected"),
    [
        ([look(3)], -7.0, []),
        ([look(3)], 4.0, []),
        ([look(21)], -7.0, ["worker_stuck"]),
        ([], -7.0, ["no_worker"]),
        ([look(3)], 6.0, ["no_leader"]),
        ([look(3)], None, ["no_leader"]),
        ([look(21), look(1)], 60.0, ["worker_stuck", "no_leader"]),
    ],
)
def test_a_worker_that_does_not_look_and_a_missing_leader_are_problems(
    workers: list[WorkerLook], leaderless: float | None, expected: list[str]
) -> None:
    assert [each.id for each in problems(workers, leaderless, 20)] == expected


def test_patience_outlasts_two_heartbeats_and_two_polls() -> None:
    assert patience(10, 1) == 20
    assert patience(30, 1) == 60
    assert patience(10, 60) == 120


def test_by_default_a_fault_is_seen_within_thirty_seconds() -> None:
    assert patience(10, 1) < 30
