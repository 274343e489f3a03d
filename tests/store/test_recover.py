"""Bringing jobs back by the rows and the database's clock alone."""

from collections.abc import Callable

import psycopg
import pytest
from django.db import transaction

from djqueue.store import db, finish, lease, recover
from djqueue.store.claim import Claimed
from tests.store.factories import (
    ALIAS,
    YEAR_1,
    YEAR_9999,
    Party,
    ack,
    add,
    add_one,
    bend,
    count,
    failure,
    ids_of,
    parties,
    row,
    take,
    take_one,
    told,
)


def overdue_ids(grace: float = 5) -> list[object]:
    return [job.id for job in recover.overdue(ALIAS, grace)]


def reap(grace: float = 5) -> dict[object, str]:
    """What the keeper does: lock what is overdue and end it in the same transaction."""
    with db.one_transaction(ALIAS):
        jobs = recover.overdue(ALIAS, grace)
        ended = finish.fail(ALIAS, [failure(job, errors=job.errors, crash=job.expired) for job in jobs])  # type: ignore[arg-type]
        return {e.id: str(e.state) for e in ended}


# ------------------------------------------------------------------------------------------------ overdue


def test_r2_an_expired_lease_is_overdue_and_tells_all_that_its_end_needs(store: str) -> None:
    one = add_one(task_name="shop.tasks.send")
    bend("runs = 2, errors = '[{\"attempt\": 1}]', attempts = 1")
    job = take_one(lease_seconds=-1, worker_id="w7")

    [found] = recover.overdue(ALIAS, 5)

    assert found == recover.Overdue(
        id=one,
        lease_token=job.lease_token,
        task_name="shop.tasks.send",
        attempts=2,
        runs=2,
        suspect=False,
        leased_by="w7",
        expired=True,
        errors=[{"attempt": 1}],
    )


def test_a_lease_that_goes_on_is_not_overdue(store: str) -> None:
    add(3)
    take(2)

    assert overdue_ids() == []


def test_r2_a_start_past_its_time_limit_and_grace_is_overdue_however_fresh_the_lease(store: str) -> None:
    late, in_grace, unlimited, unstarted = add(4, timeout_seconds=10)
    for job in take(4, lease_seconds=3600):
        if job.id != unstarted:
            lease.heartbeat(ALIAS, [lease.Beat(job.id, job.lease_token, 12.0 if job.id == in_grace else 20.0)], 3600)
    bend("timeout_seconds = null", unlimited)

    [found] = recover.overdue(ALIAS, 5)

    assert (found.id, found.expired) == (late, False)
    assert set(overdue_ids(grace=0)) == {late, in_grace}


def test_what_is_reaped_is_charged_and_runs_alone(store: str) -> None:
    one = add_one()
    job = take_one(lease_seconds=-1)

    assert reap() == {one: "ready"}

    assert row(one, "attempts, suspect, worker_ids") == (1, True, ["w1"])
    assert row(one, "lease_token") > job.lease_token
    assert take() == []


def test_r3_the_last_attempt_ends_dead_when_its_lease_expires(store: str) -> None:
    one = add_one(max_attempts=1)
    take_one(lease_seconds=-1)

    assert reap() == {one: "dead"}
    assert row(one, "attempts", "dead_letter") == 1


def test_overdue_jobs_come_in_batches(store: str) -> None:
    add(recover.BATCH + 3)
    take(recover.BATCH + 3, lease_seconds=-1)

    assert len(reap()) == recover.BATCH
    assert len(reap()) == 3
    assert reap() == {}


def test_r2_two_keepers_share_what_is_overdue_without_waiting(committed: None, other: Party) -> None:
    add(recover.BATCH + 10)
    take(recover.BATCH + 10, lease_seconds=-1)
    other.begin()
    first = other.do(reap)

    db.rows(ALIAS, "set lock_timeout = '2s'")
    second = reap()
    other.commit()

    assert (len(first), len(second)) == (recover.BATCH, 10)
    assert not set(first) & set(second)
    assert count(where="attempts = 1 and state = 'ready'") == recover.BATCH + 10


def finished(job: Claimed) -> None:
    ack(job)


def extended(job: Claimed) -> None:
    lease.heartbeat(ALIAS, [lease.Beat(job.id, job.lease_token, None)], 60)


@pytest.mark.parametrize("action", [finished, extended])
def test_r2_a_worker_that_is_just_finishing_or_beating_is_left_alone(
    committed: None, other: Party, action: Callable[[Claimed], None]
) -> None:
    """A job that finished while the reaper was looking stays finished."""
    one = add_one()
    job = take_one(lease_seconds=-1)
    other.begin()
    other.do(action, job)

    assert reap() == {}
    other.commit()
    assert reap() == {}

    assert row(one) == ("leased" if action is extended else None)
    assert count("history") == (0 if action is extended else 1)


def test_r2_an_ack_that_waits_for_the_reaper_comes_too_late(committed: None, other: Party) -> None:
    one = add_one()
    job = take_one(lease_seconds=-1)
    other.begin()
    assert other.do(reap) == {one: "ready"}

    with parties(1) as [third]:
        answer = third.start(ack, job)
        third.wait_until_blocked()
        other.commit()
        assert answer.result(timeout=10) == set()

    assert (row(one), count("history")) == ("ready", 0)


def test_what_a_dead_worker_held_is_found_by_its_name_alone(store: str) -> None:
    add(5)
    mine = take(2, worker_id="w1")
    take(2, worker_id="w2")

    found = recover.held(ALIAS, "w1")

    assert {job.id for job in found} == {job.id for job in mine}
    assert {(job.leased_by, job.expired) for job in found} == {("w1", True)}
    assert recover.held(ALIAS, "w9") == []


def test_what_a_dead_worker_is_just_ending_is_passed_over_and_stays_ended(committed: None, other: Party) -> None:
    """Its last ack is still on the way when the keeper looks; the keeper has more to do than to wait for it."""
    add(2)
    first, second = take(2)
    other.begin()
    other.do(ack, first)

    assert [job.id for job in recover.held(ALIAS, "w1")] == [second.id]

    other.commit()
    assert [job.id for job in recover.held(ALIAS, "w1")] == [second.id]


# ------------------------------------------------------------------------------------------------ promote


def test_due_jobs_become_ready_and_keep_their_run_at(store: str) -> None:
    due, ancient, later, far = add(4, delay_seconds=60)
    bend("run_at = clock_timestamp() - interval '1 ms'", due)
    bend("run_at = '0001-01-02'", ancient)
    bend("run_at = '9999-12-30'", far)

    assert recover.promote(ALIAS) == 2

    assert [row(one) for one in (due, ancient, later, far)] == ["ready", "ready", "scheduled", "scheduled"]
    assert ids_of(take(9)) == [ancient, due]


def test_promotion_goes_in_batches_the_earliest_first(store: str) -> None:
    ids = add(1200, delay_seconds=60)
    bend("run_at = '2020-01-01'")
    bend("run_at = '2019-01-01'", ids[-1])

    assert recover.promote(ALIAS) == 1000
    assert row(ids[-1]) == "ready"
    assert recover.promote(ALIAS) == 200
    assert recover.promote(ALIAS) == 0


def test_r18_the_next_due_job_is_told_in_seconds_whatever_else_there_is(store: str) -> None:
    assert recover.next_due_seconds(ALIAS) is None
    add_one(run_at=YEAR_9999)
    assert recover.next_due_seconds(ALIAS) > 2e11  # type: ignore[operator]
    add_one(delay_seconds=60)
    assert recover.next_due_seconds(ALIAS) == pytest.approx(60, abs=5)
    bend("run_at = '0001-01-02'", add_one(delay_seconds=1))
    assert recover.next_due_seconds(ALIAS) < -6e10  # type: ignore[operator]


def test_r18_a_job_of_year_1_is_ready_at_once(store: str) -> None:
    add_one(run_at=YEAR_1)

    assert recover.next_due_seconds(ALIAS) is None


def test_a_retry_comes_back_when_it_is_due(store: str) -> None:
    add_one()
    job = take_one()
    finish.fail(ALIAS, [failure(job, delay_seconds=60)])
    bend("run_at = clock_timestamp()")

    assert recover.promote(ALIAS) == 1
    assert take_one().attempts == 2


def test_all_scheduled_jobs_can_be_made_due_and_nothing_else(store: str) -> None:
    later, past = add_one(delay_seconds=60), add_one(run_at=YEAR_1)

    recover.make_due(ALIAS)

    assert recover.promote(ALIAS) == 1
    assert (row(later), row(past, "run_at")) == ("ready", YEAR_1)


def test_two_promoters_do_not_wait_for_each_other(committed: None, other: Party) -> None:
    add(3, delay_seconds=60)
    bend("run_at = '2020-01-01'")
    other.begin()
    assert other.do(recover.promote, ALIAS) == 3

    db.rows(ALIAS, "set lock_timeout = '2s'")
    assert recover.promote(ALIAS) == 0
    other.rollback()
    assert recover.promote(ALIAS) == 3


def test_r15_workers_that_want_news_are_told_of_promoted_jobs(listener: psycopg.Connection) -> None:
    for queue in ("a", "b"):
        add(3, queue_name=queue, delay_seconds=60)
    bend("run_at = '2020-01-01'")
    add_one(queue_name="later", delay_seconds=60)

    recover.promote(ALIAS)
    assert told(listener) == []
    bend("state = 'scheduled'")
    db.rows(ALIAS, "insert into djqueue_worker (id) values ('w')")
    recover.promote(ALIAS)
    assert sorted(told(listener)) == ["a", "b"]


# ------------------------------------------------------------------------------------------------ aside and back


def test_r22_ready_jobs_of_unknown_tasks_go_aside_and_come_back(store: str) -> None:
    strangers = add(3, task_name="new")
    known = add_one(task_name="old")
    elsewhere = add_one(task_name="new", queue_name="q2")

    assert recover.set_aside_tasks(ALIAS, "q", ["new", "newer"]) == 3

    assert {row(one, "state, parked_for") for one in strangers} == {("parked", "task:new")}
    assert [row(known), row(elsewhere)] == ["ready", "ready"]
    assert recover.aside_reasons(ALIAS) == ["task:new"]
    assert recover.bring_back(ALIAS, ["task:new"]) == 3
    assert {row(one, "state, parked_for, attempts") for one in strangers} == {("ready", None, 0)}
    assert recover.aside_reasons(ALIAS) == []


def test_what_comes_back_before_it_is_due_is_scheduled(store: str) -> None:
    one = add_one(task_name="new")
    recover.set_aside_tasks(ALIAS, "q", ["new"])
    bend("run_at = clock_timestamp() + interval '1 h'")

    recover.bring_back(ALIAS, ["task:new"])

    assert row(one) == "scheduled"


def test_r22_workers_are_told_of_what_came_back(listener: psycopg.Connection) -> None:
    add(2, task_name="new")
    recover.set_aside_tasks(ALIAS, "q", ["new"])

    recover.bring_back(ALIAS, ["task:new"])

    assert told(listener) == ["q"]


def test_only_the_reasons_named_come_back(store: str) -> None:
    for task in ("a", "b", "c"):
        add(2, task_name=task)
    recover.set_aside_tasks(ALIAS, "q", ["a", "b", "c"])

    assert recover.aside_reasons(ALIAS) == ["task:a", "task:b", "task:c"]
    assert recover.bring_back(ALIAS, ["task:a", "task:c", "task:z"]) == 4
    assert recover.aside_reasons(ALIAS) == ["task:b"]
    assert recover.bring_back(ALIAS, []) == 0


def test_a_job_behind_its_ordering_key_is_no_job_set_aside(store: str) -> None:
    add_one()
    bend("state = 'parked', ordering_key = 'k'")

    assert recover.aside_reasons(ALIAS) == []
    assert recover.bring_back(ALIAS, ["task:t"]) == 0


def test_what_is_being_claimed_is_not_set_aside(committed: None, other: Party) -> None:
    add_one(task_name="new")
    other.begin()
    other.do(take_one)

    db.rows(ALIAS, "set lock_timeout = '2s'")
    assert recover.set_aside_tasks(ALIAS, "q", ["new"]) == 0
    other.commit()
    assert recover.set_aside_tasks(ALIAS, "q", ["new"]) == 0


def test_a_transaction_of_the_caller_may_hold_reaping_and_its_record_together(committed: None) -> None:
    one = add_one()
    take_one(lease_seconds=-1)

    with transaction.atomic():
        assert reap() == {one: "ready"}
        transaction.set_rollback(True)

    assert row(one, "state, attempts") == ("leased", 1)
    assert overdue_ids() == [one]


def test_newer_jobs_of_a_known_task_are_set_aside_and_a_version_that_is_none_is_left(store: str) -> None:
    newer = [add_one(task_name="new", options=f'{{"version": {version}}}') for version in (3, 12)]
    left = [
        add_one(task_name="new", options=options)
        for options in (
            "{}",
            '{"version": 2}',
            '{"version": 3.5}',
            '{"version": "3"}',
            '{"version": true}',
            f'{{"version": {10**400}}}',
        )
    ]
    other = add_one(task_name="other", options='{"version": 3}')

    assert recover.set_aside_newer(ALIAS, "q", {"new": 2}) == 2

    assert [row(id_, "state, parked_for") for id_ in newer] == [("parked", "task:new@3"), ("parked", "task:new@12")]
    assert {row(id_) for id_ in [*left, other]} == {"ready"}
    assert recover.bring_back(ALIAS, ["task:new@3"]) == 1
    assert [row(id_) for id_ in newer] == ["ready", "parked"]
