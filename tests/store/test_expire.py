"""No attempt starts after `expires_at`; what was not started by then ends as cancelled."""

import pytest

from djqueue.store import expire, recover
from tests.store.factories import (
    ALIAS,
    NO_PARTITIONS,
    Party,
    add,
    add_one,
    bend,
    count,
    db,
    fail,
    lease_of,
    load,
    read,
    row,
    stale,
    take,
    take_one,
)

PAST = "expires_at = clock_timestamp() - interval '1 s'"


def test_a_job_expires_so_long_after_it_is_due(store: str) -> None:
    now, later, never = add_one(expires_seconds=60), add_one(expires_seconds=60, delay_seconds=30), add_one()

    seconds = "extract(epoch from expires_at - created_at)::float8"
    assert [row(id_, seconds) for id_ in (now, later, never)] == [60, 90, None]
    [many], [keyed], with_key = (
        add(1, expires_seconds=5),
        add(1, expires_seconds=5, dedupe_key="a"),
        add_one(expires_seconds=5, dedupe_key="b"),
    )
    assert [row(id_, seconds) for id_ in (many, keyed, with_key)] == [5, 5, 5]


def test_a_claim_says_how_long_a_job_may_still_be_started(store: str) -> None:
    add_one(expires_seconds=60)

    found = take_one()

    assert found.expires_in is not None
    assert 59 < found.expires_in <= 60


def test_a_job_that_was_claimed_too_late_ends_uncharged_as_cancelled(store: str) -> None:
    add_one(expires_seconds=60)
    bend(PAST)
    job = take_one()
    assert job.expires_in is not None
    assert job.expires_in < 0

    assert expire.refuse(ALIAS, [lease_of(job)]) == {job.id}

    outcome, attempts, workers, errors = row(job.id, "outcome, attempts, worker_ids, errors", "history")
    assert (outcome, attempts, workers) == ("cancelled", 0, [])
    [entry] = read(errors)
    assert entry["kind"] == "expired"
    assert entry["message"].startswith("expired: not started by 20")


def test_r1_an_expiry_with_a_stale_token_changes_nothing(store: str) -> None:
    add_one(expires_seconds=60)
    job = take_one()

    assert expire.refuse(ALIAS, [stale(job)]) == set()
    assert row(job.id) == "leased"


def test_jobs_that_nobody_claims_expire_in_every_waiting_state_and_running_ones_do_not(store: str) -> None:
    ready, running = add(2, expires_seconds=60)
    later = add_one(expires_seconds=60, delay_seconds=60)
    take(1, worker_id="w")
    running, ready = (ready, running) if row(ready) == "leased" else (running, ready)
    aside = add_one(task_name="gone", expires_seconds=60)
    recover.set_aside_tasks(ALIAS, "q", ["gone"])
    forever = add_one()
    bend(PAST)
    bend("expires_at = null", forever)

    ended = {each.id for each in expire.end_overdue(ALIAS)}

    assert ended == {ready, later, aside}
    assert [row(running), row(forever)] == ["leased", "ready"]
    assert count("history", "outcome = 'cancelled'") == 3


def test_a_job_whose_time_has_not_come_stays(store: str) -> None:
    add_one(expires_seconds=60)

    assert expire.end_overdue(ALIAS) == []


def test_an_attempt_that_failed_may_expire_before_the_next_one(store: str) -> None:
    id_ = add_one(expires_seconds=60)
    fail(take_one(), delay_seconds=30)
    bend(PAST)

    assert [each.id for each in expire.end_overdue(ALIAS)] == [id_]
    attempts, errors = row(id_, "attempts, errors", "history")
    assert (attempts, [entry.get("kind") for entry in read(errors)]) == (1, [None, "expired"])


def test_expiry_on_a_day_without_a_partition_goes_to_the_overflow(store: str) -> None:
    add(2, expires_seconds=60)
    bend(PAST)
    db.rows(ALIAS, NO_PARTITIONS)
    job = take_one()

    assert expire.refuse(ALIAS, [lease_of(job)]) == {job.id}
    assert len(expire.end_overdue(ALIAS)) == 1
    assert count("history_overflow") == 2


def test_two_keepers_end_different_jobs(committed: None, other: Party) -> None:
    add(4, expires_seconds=60)
    bend(PAST)
    other.begin()
    theirs = other.do(lambda: expire.end_overdue(ALIAS))

    mine = expire.end_overdue(ALIAS)
    other.commit()

    assert (len(theirs), len(mine)) == (4, 0)
    assert count("history") == 4


@pytest.mark.slow
def test_what_expired_is_found_by_its_own_index_at_100_000_rows(store: str) -> None:
    load(100_000, "queue_name, expires_at", "'q', case when n % 50000 = 0 then now() - interval '1 s' end")
    db.rows(ALIAS, "analyze djqueue_job")

    plan = "\n".join(r[0] for r in db.rows(ALIAS, f"explain {expire.OVERDUE}", {"charged": 0}))

    assert "djqueue_job_expires" in plan
