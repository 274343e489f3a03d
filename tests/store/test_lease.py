"""While a job is leased: heartbeats, giving back, and finding out what became of an unanswered statement."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from djqueue.store import db, finish, lease, operate, recover
from djqueue.store.lease import Beat, Lease, Standing
from tests.store.factories import (
    ALIAS,
    NO_PARTITIONS,
    Party,
    ack,
    add,
    add_one,
    bend,
    count,
    fail,
    failure,
    ids_of,
    lease_of,
    parties,
    row,
    stale,
    take,
    take_one,
)


def beat(*jobs: Any, began_ago: float | None = None, seconds: float = 300) -> lease.Beaten:
    return lease.heartbeat(ALIAS, [Beat(job.id, job.lease_token, began_ago) for job in jobs], seconds)


# ------------------------------------------------------------------------------------------------ heartbeat


def test_a_heartbeat_extends_the_lease_by_the_databases_clock(store: str) -> None:
    one = add_one()
    job = take_one(lease_seconds=1)

    assert beat(job) == lease.Beaten(cancelled=set(), lost=set())

    seconds = "round(extract(epoch from lease_until - clock_timestamp()))"
    assert row(one, f"{seconds}, lease_token, state") == (300, job.lease_token, "leased")


def test_a_heartbeat_carries_the_start_into_the_row_once(store: str) -> None:
    one = add_one()
    job = take_one()
    ago = "round(extract(epoch from clock_timestamp() - started_at))"

    beat(job)
    assert row(one, "started_at") is None
    beat(job, began_ago=40)
    assert row(one, ago) == 40
    beat(job, began_ago=90)
    assert row(one, ago) == 40


def test_heartbeats_of_several_jobs_keep_their_own_starts(store: str) -> None:
    add(3)
    jobs = take(3)

    lease.heartbeat(ALIAS, [Beat(j.id, j.lease_token, (None, 10.0, 20.0)[n]) for n, j in enumerate(jobs)], 300)

    ago = "round(extract(epoch from clock_timestamp() - started_at))"
    assert [row(job.id, ago) for job in jobs] == [None, 10, 20]


def test_a_heartbeat_tells_which_jobs_are_to_be_cancelled_and_which_leases_are_lost(store: str) -> None:
    add(5)
    fine, cancelled, given_away, ended, dead = take(5)
    operate.cancel(ALIAS, [cancelled.id])
    lease.release(ALIAS, [lease_of(given_away)])
    ack(ended)
    fail(dead, final=True)

    found = beat(fine, cancelled, given_away, ended, dead)

    assert found == lease.Beaten(cancelled={cancelled.id}, lost={given_away.id, ended.id, dead.id})


def test_no_heartbeats_are_no_answer(store: str) -> None:
    assert beat() == lease.Beaten(cancelled=set(), lost=set())


def test_a_lease_that_expired_but_was_not_reaped_is_kept_by_a_heartbeat(store: str) -> None:
    add_one()
    job = take_one(lease_seconds=-5)

    assert beat(job).lost == set()
    assert recover.overdue(ALIAS, 0) == []


def test_r1_a_heartbeat_over_a_locked_row_is_neither_delayed_nor_lost(committed: None, other: Party) -> None:
    """Its row is held by an ack in an open transaction, or by an atomic handler."""
    add(2)
    first, second = take(2)
    other.begin()
    other.do(ack, first)

    db.rows(ALIAS, "set lock_timeout = '2s'")
    assert beat(first, second).lost == set()
    other.commit()
    assert beat(first, second).lost == {first.id}


# ------------------------------------------------------------------------------------------------ look


def end_in_overflow(job: Lease) -> None:
    finish.ack(ALIAS, [finish.Ack(job.id, job.lease_token, 2.0, 1.0, "null")], overflow=True)


ENDS: dict[str, tuple[Callable[[Lease], Any], Standing]] = {
    "nothing": (lambda job: None, Standing.MINE),
    "ack": (ack, Standing.DONE),
    "overflow": (end_in_overflow, Standing.DONE),
    "dead": (lambda job: fail(job, final=True), Standing.DONE),
    "cancelled": (lambda job: fail(job, cancel=True), Standing.DONE),
    "retry": (fail, Standing.LOST),
    "release": (lambda job: lease.release(ALIAS, [job]), Standing.LOST),
    "snooze": (lambda job: lease.snooze(ALIAS, [job], [9.0]), Standing.LOST),
}


@pytest.mark.parametrize("end", ENDS)
def test_r1_a_lost_answer_is_found_out_by_id_and_token(store: str, end: str) -> None:
    add_one()
    job = lease_of(take_one())
    action, expected = ENDS[end]
    action(job)

    assert lease.look(ALIAS, [job]) == {job.id: expected}


def test_somebody_elses_end_is_not_mine(store: str) -> None:
    add_one()
    old = lease_of(take_one())
    lease.release(ALIAS, [old])
    ack(take_one())

    assert lease.look(ALIAS, [old]) == {old.id: Standing.LOST}


def test_a_job_that_never_was_is_lost(store: str) -> None:
    assert lease.look(ALIAS, [Lease(UUID(int=1), 5)]) == {UUID(int=1): Standing.LOST}


def test_a_dead_letter_that_was_requeued_is_no_longer_done_under_the_old_token(store: str) -> None:
    add_one()
    old = lease_of(take_one())
    fail(old, final=True)
    operate.requeue(ALIAS, [old.id])

    assert lease.look(ALIAS, [old]) == {old.id: Standing.LOST}


def test_an_ack_whose_answer_was_lost_is_asked_again_and_counts_once(committed: None, other: Party) -> None:
    """The server took the ack and died, or the ack never arrived: LOOK tells which."""
    add(2)
    arrived, never_arrived = take(2)
    other.do(ack, arrived)

    standing = lease.look(ALIAS, [lease_of(arrived), lease_of(never_arrived)])

    assert standing == {arrived.id: Standing.DONE, never_arrived.id: Standing.MINE}
    assert ack(never_arrived) == {never_arrived.id}
    assert count("history") == 2


def test_what_a_worker_holds_is_read_from_the_rows(store: str) -> None:
    add(4)
    mine = take(2, worker_id="w1")
    take(1, worker_id="w2")

    assert sorted(lease.owned(ALIAS, "w1")) == sorted(lease_of(job) for job in mine)
    assert lease.owned(ALIAS, "w9") == []


def test_a_workers_jobs_that_were_asked_to_cancel_are_read_without_a_heartbeat(store: str) -> None:
    add(4)
    [first, *_], [second, _] = take(2, worker_id="w1"), take(2, worker_id="w2")
    operate.cancel(ALIAS, [first.id, second.id])

    assert lease.cancel_requested(ALIAS, ["w1", "w9"]) == [lease_of(first)]
    assert len(lease.cancel_requested(ALIAS, ["w1", "w2"])) == 2
    assert lease.cancel_requested(ALIAS, []) == []


# ------------------------------------------------------------------------------------------------ release


def test_r3_a_release_gives_the_attempt_back(store: str) -> None:
    one = add_one(max_attempts=1)
    job = take_one()
    beat(job, began_ago=3)

    assert lease.release(ALIAS, [lease_of(job)]) == {one}

    assert row(
        one,
        "state, attempts, interruptions, worker_ids, leased_by, lease_until, started_at, "
        f"lease_token > {job.lease_token}, run_at <= clock_timestamp()",
    ) == ("ready", 0, 0, [], None, None, None, True, True)


def test_r3_a_graceful_stop_counts_as_an_interruption_also_at_one_attempt(store: str) -> None:
    one = add_one(max_attempts=1)
    for n in (1, 2, 3):
        job = take_one()
        assert (job.attempts, job.interruptions) == (1, n - 1)
        lease.release(ALIAS, [lease_of(job)], interrupted=True)
        assert row(one, "state, attempts, interruptions, worker_ids") == ("ready", 0, n, [])

    assert fail(take_one()) == {one: "dead"}
    assert row(one, "attempts, interruptions", "dead_letter") == (1, 3)


def test_a_release_undoes_its_own_claim_only(store: str) -> None:
    one = add_one()
    fail(take_one(worker_id="w1"))
    lease.release(ALIAS, [lease_of(take_one(worker_id="w2"))])

    assert row(one, "attempts, worker_ids") == (1, ["w1"])


def test_a_released_job_keeps_its_place_and_stays_a_suspect(store: str) -> None:
    first, _ = add(2)
    lease.release(ALIAS, [lease_of(take_one())])
    assert ids_of(take()) == [first]

    bend("suspect = true", first)
    lease.release(ALIAS, [Lease(*row(first, "id, lease_token"))])
    assert row(first, "state, suspect") == ("ready", True)


def test_a_release_is_answered_for_valid_leases_only(store: str) -> None:
    add(2)
    good, bad = take(2)

    assert lease.release(ALIAS, [lease_of(good), stale(bad)]) == {good.id}
    assert lease.release(ALIAS, []) == set()


GIVEN_BACK = [lambda jobs: lease.release(ALIAS, jobs), lambda jobs: lease.set_aside(ALIAS, jobs)]


@pytest.mark.parametrize("give_back", GIVEN_BACK, ids=["release", "set_aside"])
def test_what_was_asked_to_cancel_is_not_given_back_but_cancelled(
    store: str, give_back: Callable[[list[Lease]], set[UUID]]
) -> None:
    add(2)
    jobs = take(2)
    operate.cancel(ALIAS, [jobs[0].id])

    assert give_back([lease_of(job) for job in jobs]) == {jobs[0].id, jobs[1].id}

    assert row(jobs[0].id, "outcome, attempts", "history") == ("cancelled", 1)
    assert (count(), count("history")) == (1, 1)


def test_without_a_partition_what_was_asked_to_cancel_goes_to_the_overflow(committed: None) -> None:
    db.rows(ALIAS, NO_PARTITIONS)
    one = add_one()
    job = take_one()
    operate.cancel(ALIAS, [one])

    assert lease.release(ALIAS, [lease_of(job)]) == {one}
    assert row(one, "outcome", "history_overflow") == "cancelled"


# ------------------------------------------------------------------------------------------------ snooze, aside


@pytest.mark.parametrize(("delay", "state"), [(60.0, "scheduled"), (0.0, "ready")])
def test_r3_a_snooze_uses_no_attempt(store: str, delay: float, state: str) -> None:
    one = add_one(max_attempts=1)
    job = take_one()
    bend("suspect = true")

    assert lease.snooze(ALIAS, [lease_of(job)], [delay]) == {one}

    assert row(
        one,
        "state, attempts, interruptions, worker_ids, suspect, round(extract(epoch from run_at - clock_timestamp()))",
    ) == (state, 0, 0, [], False, delay)


def test_each_snooze_has_its_own_delay_in_whatever_order(store: str) -> None:
    add(5)
    jobs = take(5)[::-1]

    lease.snooze(ALIAS, [stale(jobs[0]), *(lease_of(j) for j in jobs[1:])], [10.0, 20.0, 30.0, 40.0, 50.0])

    waits = [row(j.id, "round(extract(epoch from run_at - clock_timestamp()))") for j in jobs[1:]]
    assert waits == [20, 30, 40, 50]
    assert row(jobs[0].id) == "leased"


def test_a_snooze_leaves_what_was_asked_to_cancel_to_its_worker(store: str) -> None:
    one = add_one()
    job = take_one()
    operate.cancel(ALIAS, [one])

    assert lease.snooze(ALIAS, [lease_of(job)], [9.0]) == set()
    assert lease.look(ALIAS, [lease_of(job)]) == {one: Standing.MINE}


def test_r22_a_job_of_an_unknown_task_goes_aside_uncharged(store: str) -> None:
    one = add_one(task_name="shop.tasks.new")
    job = take_one()

    assert lease.set_aside(ALIAS, [lease_of(job)]) == {one}

    assert row(one, "state, parked_for, attempts, worker_ids, leased_by, interruptions") == (
        "parked",
        "task:shop.tasks.new",
        0,
        [],
        None,
        0,
    )
    assert take() == []


def test_the_longest_task_name_can_be_set_aside(store: str) -> None:
    one = add_one(task_name="t" * 300)

    assert lease.set_aside(ALIAS, [lease_of(take_one())]) == {one}


def test_two_who_give_back_the_same_lease_at_once_do_it_once(committed: None, other: Party) -> None:
    one = add_one()
    job = lease_of(take_one())
    other.begin()
    other.do(lease.release, ALIAS, [job])

    with parties(1) as [third]:
        answer = third.start(lease.release, ALIAS, [job], interrupted=True)
        third.wait_until_blocked()
        other.commit()
        assert answer.result(timeout=10) == set()

    assert row(one, "attempts, interruptions") == (0, 0)


def test_a_failure_that_the_keeper_was_faster_with_is_lost(committed: None, other: Party) -> None:
    """The keeper gives back what a revoked worker held; the worker wakes up and fails it."""
    one = add_one()
    job = take_one()
    other.begin()
    other.do(lambda: [finish.fail(ALIAS, [failure(job, crash=True)]) for _ in recover.held(ALIAS, "w1")])

    with parties(1) as [third]:
        answer = third.start(fail, job, final=True)
        third.wait_until_blocked()
        other.commit()
        assert answer.result(timeout=10) == {}

    assert row(one, "state, attempts, suspect") == ("ready", 1, True)
