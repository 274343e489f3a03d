"""A job's life as stretches of time that follow each other."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from djqueue.policy.timeline import MOST, Stretch, stretches

BEGIN = datetime(2026, 11, 30, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def failure(attempt: int, begins: float, ends: float, run: int = 1, **more: Any) -> dict[str, Any]:
    moments = {"started_at": at(begins).isoformat(), "at": at(ends).isoformat()}
    return {"attempt": str(attempt), "run": str(run), "kind": "error", **moments, **more}


def told(state: str, now: float, *entries: dict[str, Any], **more: Any) -> list[tuple[str, float]]:
    """The stretches as words and seconds."""
    base: dict[str, Any] = {"attempts": len(entries), "started_at": None, "ended_at": None, **more}
    return [
        (each.words, each.seconds)
        for each in stretches(now=at(now), state=state, created_at=BEGIN, entries=entries, **base)
    ]


def test_a_waiting_job_waits_until_now() -> None:
    assert told("ready", 5) == [("waited", 5)]


def test_a_running_job_waited_and_runs() -> None:
    assert told("leased", 9, attempts=1, started_at=at(4)) == [("waited", 4), ("attempt 1: running", 5)]


def test_failures_stand_between_back_offs() -> None:
    found = told("scheduled", 20, failure(1, 2, 3), failure(2, 8, 10), started_at=at(8))

    assert found == [
        ("waited", 2),
        ("attempt 1: error", 1),
        ("back-off", 5),
        ("attempt 2: error", 2),
        ("back-off", 10),
    ]


def test_a_success_after_a_failure_ends_the_line() -> None:
    found = told("succeeded", 99, failure(1, 2, 3), attempts=2, started_at=at(8), ended_at=at(9))

    assert found[-2:] == [("back-off", 5), ("attempt 2: succeeded", 1)]


def test_a_dead_job_ends_with_its_last_failure() -> None:
    assert told("dead", 99, failure(1, 2, 3), started_at=at(2), ended_at=at(3)) == [
        ("waited", 2),
        ("attempt 1: error", 1),
    ]


def test_a_requeued_job_lay_dead_in_between() -> None:
    found = told("leased", 20, failure(1, 2, 3), failure(1, 9, 10, run=2), attempts=2, started_at=at(15))

    assert found[2] == ("dead, until it was requeued", 6)
    assert found[-1] == ("attempt 2: running", 5)


@pytest.mark.parametrize("rubbish", [{"at": "soon"}, {"at": None, "started_at": None}, {"attempt": None}, {}])
def test_a_failure_that_cannot_be_read_costs_its_stretch_only(rubbish: dict[str, Any]) -> None:
    broken = {**failure(1, 2, 3), **rubbish} if rubbish else {}

    assert ("attempt 2: error", 2) in told("scheduled", 20, broken, failure(2, 8, 10))


def test_of_a_thousand_attempts_the_first_and_the_last_are_shown() -> None:
    found = told("scheduled", 9_999, *(failure(n, n * 2, n * 2 + 1) for n in range(1, 1_000)))

    assert len(found) == MOST
    assert found[1] == ("attempt 1: error", 1)
    assert found[-2] == ("attempt 999: error", 1)


moments = st.one_of(
    st.none(),
    st.just("x"),
    st.datetimes(timezones=st.just(UTC)).map(lambda each: each.isoformat()),
    st.text(max_size=5),
)
entries = st.lists(
    st.fixed_dictionaries(
        {
            "attempt": st.one_of(st.none(), st.just("1")),
            "run": st.sampled_from(["1", "2", None]),
            "kind": st.text(max_size=3),
            "started_at": moments,
            "at": moments,
            "seconds": st.one_of(st.none(), st.text(max_size=4), st.floats().map(str)),
        }
    ),
    max_size=8,
)


@given(
    entries,
    st.sampled_from(["ready", "scheduled", "leased", "succeeded", "cancelled", "dead"]),
    st.datetimes(timezones=st.just(UTC)),
    st.one_of(st.none(), st.datetimes(timezones=st.just(UTC))),
    st.one_of(st.none(), st.datetimes(timezones=st.just(UTC))),
)
def test_stretches_follow_each_other_whatever_is_kept(
    kept: list[dict[str, Any]], state: str, created: datetime, started: datetime | None, ended: datetime | None
) -> None:
    found: list[Stretch] = stretches(
        now=at(0), state=state, attempts=1, created_at=created, started_at=started, ended_at=ended, entries=kept
    )

    assert all(each.begins_at <= each.ends_at for each in found)
    assert all(one.ends_at <= other.begins_at for one, other in itertools.pairwise(found))
