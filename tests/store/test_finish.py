"""Ack and fail: by token, in one statement, with everything that history and dead letters keep."""

import json
import random
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import transaction

from djqueue.store import db, faults, finish, lease, operate
from djqueue.store.claim import Claimed
from djqueue.store.finish import Ack
from djqueue.store.lease import Lease
from tests.store.factories import (
    ALIAS,
    NO_PARTITIONS,
    Party,
    ack,
    add,
    add_one,
    all_at_once,
    bend,
    count,
    everything,
    fail,
    failed,
    failure,
    lease_of,
    parties,
    row,
    stale,
    take,
    take_one,
)

# ------------------------------------------------------------------------------------------------ ack


def test_ack_moves_the_job_to_history(store: str) -> None:
    one = add_one(
        queue_name="emails", task_name="shop.tasks.send", args='{"args": [1]}', options='{"tags": []}', priority=3,
        dedupe_key="k",
    )  # fmt: skip
    bend("runs = 2, interruptions = 4, tenant_id = 'acme', ordering_key = 'o', errors = '[{\"attempt\": 1}]'")
    job = take_one(queue="emails")
    created_at = row(one, "created_at")

    assert ack(job, result='{"sent": true}') == {one}

    assert row(one) is None
    assert row(
        one,
        "outcome, queue_name, task_name, args->'args'->>0, options->>'tags', priority, dedupe_key, runs, interruptions,"
        " tenant_id, ordering_key, errors->0->>'attempt', result->>'sent', attempts, worker_ids, lease_token,"
        " created_at",
        "history",
    ) == (
        "succeeded", "emails", "shop.tasks.send", "1", "[]", 3, "k", 2, 4,
        "acme", "o", "1", "true", 1, ["w1"], job.lease_token, created_at,
    )  # fmt: skip


def test_r16_history_times_are_the_databases_clock_less_the_seconds_told(store: str) -> None:
    one = add_one()
    job = take_one()

    finish.ack(ALIAS, [Ack(job.id, job.lease_token, 100.0, 40.0, "null")])

    seconds = "round(extract(epoch from clock_timestamp() - {}))"
    assert row(one, f"{seconds.format('started_at')}, {seconds.format('finished_at')}", "history") == (100, 40)


def test_moments_of_a_monotonic_clock_are_told_relative_to_its_reading(store: str) -> None:
    one = add_one()
    job = take_one()

    cursor = finish.start_ack(ALIAS, [Ack(job.id, job.lease_token, 5000.0, 5060.0, "null")], now=5100.0)

    assert finish.acked(cursor) == {one}
    seconds = "round(extract(epoch from clock_timestamp() - {}))"
    assert row(one, f"{seconds.format('started_at')}, {seconds.format('finished_at')}", "history") == (100, 40)


def test_each_job_of_a_batch_keeps_its_own_result_and_times(store: str) -> None:
    add(20)
    jobs = take(20)
    random.Random(1).shuffle(jobs)

    finish.ack(ALIAS, [Ack(j.id, j.lease_token, n + 1000.0, float(n), str(n)) for n, j in enumerate(jobs)])

    columns = "result::text::int, round(extract(epoch from clock_timestamp() - finished_at))"
    assert [row(job.id, columns, "history") for job in jobs] == [(n, n) for n in range(20)]


def test_an_ack_is_answered_for_valid_leases_only(store: str) -> None:
    add(3)
    good, bad, gone = take(3)
    ack(gone)

    assert ack(good, stale(bad), gone) == {good.id}
    assert row(bad.id) == "leased"
    assert count("history") == 2


# ------------------------------------------------------------------------------------------------ stale tokens


def acked(old: Lease) -> Any:
    return ack(old)


def acked_into_the_overflow(old: Lease) -> Any:
    return finish.ack(ALIAS, [Ack(old.id, old.lease_token, 2.0, 1.0, "null")], overflow=True)


def acked_in_a_pipeline(old: Lease) -> Any:
    return finish.acked(finish.start_ack(ALIAS, [Ack(old.id, old.lease_token, 2.0, 1.0, "null")], 3.0))


def failed_for_a_retry(old: Lease) -> Any:
    return fail(old, delay_seconds=1)


def failed_for_good(old: Lease) -> Any:
    return fail(old, final=True)


def failed_as_cancelled(old: Lease) -> Any:
    return fail(old, cancel=True)


def failed_as_a_crash(old: Lease) -> Any:
    return fail(old, crash=True)


def beaten(old: Lease) -> Any:
    answer = lease.heartbeat(ALIAS, [lease.Beat(*old, 1.0)], 300)
    assert answer.lost == {old.id}
    return answer.cancelled


def released(old: Lease) -> Any:
    return lease.release(ALIAS, [old])


def interrupted(old: Lease) -> Any:
    return lease.release(ALIAS, [old], interrupted=True)


def snoozed(old: Lease) -> Any:
    return lease.snooze(ALIAS, [old], [5.0])


def aside(old: Lease) -> Any:
    return lease.set_aside(ALIAS, [old])


LATE = [
    acked, acked_into_the_overflow, acked_in_a_pipeline, failed_for_a_retry, failed_for_good, failed_as_cancelled,
    failed_as_a_crash, beaten, released, interrupted, snoozed, aside,
]  # fmt: skip
late = pytest.mark.parametrize("action", LATE)
Late = Callable[[Lease], Any]


@late
def test_r1_a_late_word_changes_nothing_when_the_job_is_somebody_elses(store: str, action: Late) -> None:
    add_one()
    old = lease_of(take_one())
    lease.release(ALIAS, [old])
    new = take_one(worker_id="w2")
    before = everything(new.id)

    assert not action(old)

    assert everything(new.id) == before
    assert count("history") + count("history_overflow") + count("dead_letter") == 0


@late
def test_r1_a_late_word_changes_nothing_when_the_job_waits_again(store: str, action: Late) -> None:
    add_one()
    old = lease_of(take_one())
    fail(old, delay_seconds=60)
    before = everything(old.id)

    assert not action(old)

    assert everything(old.id) == before


@late
def test_r1_a_late_word_changes_nothing_when_the_job_was_asked_to_cancel(store: str, action: Late) -> None:
    add_one()
    old = lease_of(take_one())
    lease.release(ALIAS, [old])
    new = take_one(worker_id="w2")
    operate.cancel(ALIAS, [new.id])
    before = everything(new.id)

    assert not action(old)

    assert everything(new.id) == before


@late
def test_r1_a_late_word_changes_nothing_when_the_job_has_ended(store: str, action: Late) -> None:
    """Its own end: said twice, it counts once."""
    add_one()
    old = take_one()
    ack(old)

    assert not action(lease_of(old)) or action is beaten

    assert (count(), count("history"), count("history_overflow"), count("dead_letter")) == (0, 1, 0, 0)


@late
def test_r1_a_late_word_changes_nothing_when_the_job_died_and_was_requeued(store: str, action: Late) -> None:
    add_one()
    old = lease_of(take_one())
    fail(old, final=True)
    operate.requeue(ALIAS, [old.id])
    before = everything(old.id)

    assert not action(old)

    assert everything(old.id) == before


# ------------------------------------------------------------------------------------------------ fail


def test_a_failed_attempt_with_a_delay_is_scheduled(store: str) -> None:
    one = add_one()
    job = take_one()

    [ended] = failed(job, delay_seconds=60)

    assert ended == (one, "scheduled", "q", False)
    assert row(
        one,
        f"state, attempts, lease_until, leased_by, suspect, worker_ids, lease_token > {job.lease_token}, "
        "round(extract(epoch from run_at - clock_timestamp()))",
    ) == ("scheduled", 1, None, None, False, ["w1"], True, 60)


def test_a_failed_attempt_without_a_delay_is_ready_now(store: str) -> None:
    one = add_one()

    assert fail(take_one()) == {one: "ready"}
    assert row(one, "state, run_at <= clock_timestamp(), attempts") == ("ready", True, 1)
    assert take_one().attempts == 2


def test_the_last_attempt_makes_a_dead_letter_with_all_that_a_requeue_needs(store: str) -> None:
    one = add_one(
        max_attempts=2, timeout_seconds=9.5, priority=3, lane="l", args='{"args": [1]}', options='{"tags": ["x"]}',
        dedupe_key="k", task_name="shop.tasks.send",
    )  # fmt: skip
    bend(
        "attempts = 1, runs = 2, interruptions = 3, tenant_id = 'acme', ordering_key = 'o', on_dead = 'block',"
        " progress = '1', checkpoint = '{\"page\": 7}', worker_ids = '{w0}'"
    )
    job = take_one(lane="l")
    seq, created_at = row(one, "seq, created_at")

    assert fail(job, errors=[{"attempt": 1}], entry={"attempt": 2}, reason="no more", began_ago=5) == {one: "dead"}

    assert row(one) is None
    assert row(
        one,
        "max_attempts, timeout_seconds, priority, lane, args->'args'->>0, options->'tags'->>0, dedupe_key, task_name,"
        " attempts, runs, interruptions, tenant_id, ordering_key, on_dead, progress::text, checkpoint->>'page',"
        " worker_ids, seq, created_at, lease_token, queue_name, reason, fingerprint,"
        " jsonb_path_query_array(errors, '$[*].attempt')::text, round(extract(epoch from died_at - started_at)),"
        " died_at between clock_timestamp() - interval '1 min' and clock_timestamp()",
        "dead_letter",
    ) == (
        2, 9.5, 3, "l", "1", "x", "k", "shop.tasks.send",
        2, 2, 3, "acme", "o", "block", "1", "7",
        ["w0", "w1"], seq, created_at, job.lease_token, "q", "no more", "",
        "[1, 2]", 5, True,
    )  # fmt: skip


def test_a_final_failure_is_dead_whatever_attempts_are_left(store: str) -> None:
    one = add_one(max_attempts=8)

    assert fail(take_one(), final=True, reason="permanent") == {one: "dead"}
    assert row(one, "attempts, reason", "dead_letter") == (1, "permanent")


def test_a_single_attempt_is_dead_after_its_first_failure(store: str) -> None:
    one = add_one(max_attempts=1)

    assert fail(take_one(), delay_seconds=5) == {one: "dead"}


def test_a_failure_may_end_as_cancelled(store: str) -> None:
    one = add_one(max_attempts=1)
    job = take_one()

    assert fail(job, cancel=True, entry={"message": "not wanted"}, began_ago=3) == {one: "cancelled"}

    assert row(
        one, "outcome, errors->0->>'message', result, lease_token, attempts, "
        "round(extract(epoch from finished_at - started_at))", "history",
    ) == ("cancelled", "not wanted", None, job.lease_token, 1, 3)  # fmt: skip
    assert (count(), count("dead_letter")) == (0, 0)


def test_a_crash_makes_a_suspect_and_an_ordinary_failure_clears_it(store: str) -> None:
    add_one()
    fail(take_one(), crash=True)
    assert count(where="suspect") == 1
    assert take() == []
    bend("suspect = false")

    job = take_one()
    bend("suspect = true")
    fail(job)
    assert count(where="suspect") == 0


def test_error_entries_are_appended_with_the_databases_moment(store: str) -> None:
    one = add_one()

    fail(take_one(), errors=[{"attempt": 1, "at": "before"}], entry={"attempt": 2, "at": "a worker's clock"})

    first, second = json.loads(row(one, "errors::text"))
    assert first == {"attempt": 1, "at": "before"}
    assert second["attempt"] == 2
    assert row(one, "abs(extract(epoch from clock_timestamp() - (errors->1->>'at')::timestamptz)) < 60")


def test_failures_of_one_batch_end_each_in_their_own_way(store: str) -> None:
    add(5)
    dead, later, now, stopped, lost = take(5)
    sent = [
        failure(dead, final=True, reason="r", entry={"n": 0}),
        failure(later, delay_seconds=60, entry={"n": 1}),
        failure(now, crash=True, entry={"n": 2}),
        failure(stopped, cancel=True, entry={"n": 3}),
        failure(stale(lost)),
    ]

    answer = {e.id: e.state for e in finish.fail(ALIAS, sent)}

    assert answer == {dead.id: "dead", later.id: "scheduled", now.id: "ready", stopped.id: "cancelled"}
    n = "errors->0->>'n'"
    assert row(dead.id, f"{n}, reason", "dead_letter") == ("0", "r")
    assert row(later.id, f"{n}, suspect") == ("1", False)
    assert row(now.id, f"{n}, suspect") == ("2", True)
    assert row(stopped.id, n, "history") == "3"
    assert row(lost.id) == "leased"


# ------------------------------------------------------------------------------------------------ asked to cancel


@pytest.mark.parametrize("way", [{}, {"delay_seconds": 9}, {"final": True}, {"crash": True}])
def test_a_failure_of_a_job_that_was_asked_to_cancel_is_cancelled(store: str, way: dict[str, Any]) -> None:
    one = add_one(max_attempts=1)
    job = take_one()
    operate.cancel(ALIAS, [one])

    assert fail(job, **way) == {one: "cancelled"}
    assert row(one, "outcome", "history") == "cancelled"
    assert count("dead_letter") == 0


def test_a_success_of_a_job_that_was_asked_to_cancel_is_a_success(store: str) -> None:
    one = add_one()
    job = take_one()
    operate.cancel(ALIAS, [one])

    assert ack(job) == {one}
    assert row(one, "outcome", "history") == "succeeded"


# ------------------------------------------------------------------------------------------------ no partition


@pytest.fixture
def no_partition(committed: None) -> None:
    """A day for which the leader has not made a partition yet."""
    db.rows(ALIAS, NO_PARTITIONS)


def test_without_a_partition_a_pipelined_ack_says_so_and_changes_nothing(no_partition: None) -> None:
    one = add_one()
    job = take_one()

    with pytest.raises(psycopg.Error) as caught:
        finish.start_ack(ALIAS, [Ack(job.id, job.lease_token, 2.0, 3.0, "null")], 4.0)

    assert faults.is_missing_partition(caught.value)
    assert row(one) == "leased"


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
@pytest.mark.parametrize("kind", ["django", "adopted"])
def test_without_a_partition_the_overflow_takes_what_has_ended(no_partition: None, kind: str, inside: bool) -> None:
    first, second = add(2)
    done, cancelled = take(2)
    if kind == "adopted":
        db.adopt(ALIAS, prepared=True)

    with db.one_transaction(ALIAS) if inside else nullcontext():
        assert ack(done, result="5") == {first}
        assert fail(cancelled, cancel=True) == {second: "cancelled"}

    assert row(first, "outcome, result::text, lease_token", "history_overflow") == ("succeeded", "5", done.lease_token)
    assert row(second, "outcome", "history_overflow") == "cancelled"
    assert lease.look(ALIAS, [lease_of(done)]) == {first: "done"}


def test_without_a_partition_retries_and_deaths_go_on(no_partition: None) -> None:
    add(2)
    first, second = take(2)

    assert fail(first, final=True) == {first.id: "dead"}
    assert fail(second) == {second.id: "ready"}


# ------------------------------------------------------------------------------------------------ races


def test_an_ack_rolled_back_with_its_transaction_leaves_the_job_leased(committed: None) -> None:
    """What `atomic=True` stands on."""
    one = add_one()
    job = take_one()

    with transaction.atomic():
        assert ack(job) == {one}
        transaction.set_rollback(True)

    assert (row(one), count("history")) == ("leased", 0)
    assert ack(job) == {one}


def test_two_who_end_the_same_lease_at_once_end_it_once(committed: None, other: Party) -> None:
    one = add_one()
    job = take_one()
    other.begin()
    other.do(ack, job)

    with parties(1) as [third]:
        answer = third.start(fail, job)
        third.wait_until_blocked()
        other.commit()
        assert answer.result(timeout=10) == {}

    assert (count(), count("history"), count("dead_letter")) == (0, 1, 0)
    assert row(one, "outcome", "history") == "succeeded"


def test_a_request_to_cancel_that_comes_first_is_seen_by_the_failure_that_waited(committed: None, other: Party) -> None:
    one = add_one()
    job = take_one()
    other.begin()
    other.do(operate.cancel, ALIAS, [one])

    with parties(1) as [third]:
        answer = third.start(fail, job, delay_seconds=5)
        third.wait_until_blocked()
        other.commit()
        assert answer.result(timeout=10) == {one: "cancelled"}


def test_a_heartbeat_that_comes_first_costs_the_failure_nothing(committed: None, other: Party) -> None:
    """The failure reads the row as the heartbeat left it, not as its snapshot shows it."""
    one = add_one()
    job = take_one()
    other.begin()
    other.do(lease.heartbeat, ALIAS, [lease.Beat(one, job.lease_token, 7.0)], 300)

    with parties(1) as [third]:
        answer = third.start(fail, job, final=True)
        third.wait_until_blocked()
        other.commit()
        assert answer.result(timeout=10) == {one: "dead"}

    assert row(one, "round(extract(epoch from died_at - started_at))", "dead_letter") == 7


@pytest.mark.slow
def test_r19_ends_and_requests_to_cancel_in_any_order_do_not_deadlock(committed: None) -> None:
    add(400, max_attempts=1000)
    db.rows(ALIAS, "analyze djqueue_job")

    def work(number: int) -> None:
        rng = random.Random(number)
        for _ in range(60):
            jobs: list[Claimed] = take(12, worker_id=f"w{number}")
            rng.shuffle(jobs)
            match rng.randrange(4):
                case 0:
                    lease.release(ALIAS, [lease_of(job) for job in jobs])
                case 1:
                    lease.snooze(ALIAS, [lease_of(job) for job in jobs], [0.0] * len(jobs))
                case 2:
                    fail(*jobs)
                case 3:
                    ack(*jobs[:2])
                    fail(*jobs[2:])

    def admin(number: int) -> None:
        rng = random.Random(number)
        for _ in range(40):
            found = [id_ for (id_,) in db.rows(ALIAS, "select id from djqueue_job where state = 'leased' limit 30")]
            rng.shuffle(found)
            operate.cancel(ALIAS, found)

    all_at_once([partial(work, 1), partial(work, 2), partial(work, 3), partial(admin, 4), partial(admin, 5)])
