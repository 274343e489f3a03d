"""What people ask for: cancel, requeue, retry now, pause; guarded by state, safe from stale pages."""

import random
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import psycopg
import pytest
from django.db import transaction

from djqueue.policy.ids import uuid7
from djqueue.store import db, enqueue, lease, operate, recover, workers
from djqueue.store.operate import CancelAnswer
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
    ids_of,
    lease_of,
    new_job,
    parties,
    row,
    take,
    take_one,
    told,
)

CANCELLED, ASKED, GONE = CancelAnswer.CANCELLED, CancelAnswer.ASKED, CancelAnswer.GONE

# ------------------------------------------------------------------------------------------------ cancel


@pytest.mark.parametrize("state", ["ready", "scheduled", "parked", "aside", "retrying", "suspect"])
def test_what_does_not_run_is_cancelled_at_once(store: str, state: str) -> None:
    one = add_one(dedupe_key="k")
    if state in ("scheduled", "parked"):
        bend(f"state = '{state}'")
    elif state == "aside":
        recover.set_aside_tasks(ALIAS, "q", ["t"])
    elif state == "retrying":
        fail(take_one(), delay_seconds=60)
    elif state == "suspect":
        fail(take_one(), crash=True)

    assert operate.cancel(ALIAS, [one]) == {one: CANCELLED}

    attempts = 1 if state in ("retrying", "suspect") else 0
    assert row(one, "outcome, attempts, dedupe_key, result", "history") == ("cancelled", attempts, "k", None)
    assert count() == 0
    assert enqueue.enqueue(ALIAS, new_job(dedupe_key="k")).created


def test_what_runs_is_asked_to_cancel_and_keeps_its_row_and_key(store: str) -> None:
    one = add_one(dedupe_key="k")
    job = take_one()

    assert operate.cancel(ALIAS, [one]) == {one: ASKED}

    asked_at = row(one, "cancel_requested_at")
    assert row(one, "state, lease_token") == ("leased", job.lease_token)
    assert operate.cancel(ALIAS, [one]) == {one: ASKED}
    assert row(one, "cancel_requested_at") == asked_at
    assert add_one(dedupe_key="k") == one


def test_what_has_ended_or_never_was_is_gone(store: str) -> None:
    add(3)
    succeeded, dead, cancelled = take(3)
    ack(succeeded)
    fail(dead, final=True)
    fail(cancelled, cancel=True)
    unknown = uuid7()
    ids = [succeeded.id, dead.id, cancelled.id, unknown]

    assert operate.cancel(ALIAS, ids) == dict.fromkeys(ids, GONE)
    assert (count("history"), count("dead_letter")) == (2, 1)


def test_each_of_many_gets_its_own_answer(store: str) -> None:
    ready, gone = add(1)[0], uuid7()
    running = add_one(priority=1)
    take_one()

    assert operate.cancel(ALIAS, [gone, running, ready, ready]) == {gone: GONE, running: ASKED, ready: CANCELLED}
    assert operate.cancel(ALIAS, []) == {}


def test_a_job_that_was_asked_to_cancel_ends_cancelled_when_its_lease_expires(store: str) -> None:
    one = add_one()
    take_one(lease_seconds=-1)
    operate.cancel(ALIAS, [one])

    [found] = recover.overdue(ALIAS, 5)
    assert fail(lease.Lease(found.id, found.lease_token), crash=True) == {one: "cancelled"}


def test_a_cancel_that_meets_a_claim_asks_the_one_who_claimed(committed: None, other: Party) -> None:
    """The job was ready in the snapshot and is leased when its row is read."""
    one = add_one()
    other.begin()
    other.do(take_one)

    with parties(1) as [third]:
        answer = third.start(operate.cancel, ALIAS, [one])
        third.wait_until_blocked()
        other.commit()
        assert answer.result(timeout=10) == {one: ASKED}

    assert row(one, "state, cancel_requested_at is not null") == ("leased", True)


def test_a_cancel_that_meets_a_release_cancels(committed: None, other: Party) -> None:
    """The job was leased in the snapshot and is ready when its row is read."""
    one = add_one()
    job = take_one()
    other.begin()
    other.do(lease.release, ALIAS, [lease_of(job)])

    with parties(1) as [third]:
        answer = third.start(operate.cancel, ALIAS, [one])
        third.wait_until_blocked()
        other.commit()
        assert answer.result(timeout=10) == {one: CANCELLED}

    assert row(one, "outcome", "history") == "cancelled"


def test_a_cancel_that_meets_an_ack_finds_the_job_gone(committed: None, other: Party) -> None:
    one = add_one()
    job = take_one()
    other.begin()
    other.do(ack, job)

    with parties(1) as [third]:
        answer = third.start(operate.cancel, ALIAS, [one])
        third.wait_until_blocked()
        other.commit()
        assert answer.result(timeout=10) == {one: GONE}

    assert row(one, "outcome", "history") == "succeeded"


def test_a_claim_skips_what_is_being_cancelled(committed: None, other: Party) -> None:
    first, second = add(2)
    other.begin()
    other.do(operate.cancel, ALIAS, [first])

    db.rows(ALIAS, "set lock_timeout = '2s'")
    assert ids_of(take(5)) == [second]
    other.commit()


@pytest.mark.parametrize("inside", [False, True])
def test_without_a_partition_the_overflow_takes_what_is_cancelled(committed: None, inside: bool) -> None:
    db.rows(ALIAS, NO_PARTITIONS)
    one = add_one()

    if inside:
        with transaction.atomic():
            assert operate.cancel(ALIAS, [one]) == {one: CANCELLED}
    else:
        assert operate.cancel(ALIAS, [one]) == {one: CANCELLED}

    assert row(one, "outcome", "history_overflow") == "cancelled"
    assert count() == 0


@pytest.mark.slow
def test_r20_every_cancel_in_a_storm_of_claims_and_ends_gets_a_true_answer(committed: None) -> None:
    ids = add(300)

    def work(number: int) -> None:
        rng = random.Random(number)
        while jobs := take(rng.choice((1, 4)), worker_id=f"w{number}"):
            for job in jobs:
                rng.choice((ack, fail, lambda j: lease.release(ALIAS, [lease_of(j)])))(job)

    def admin(number: int) -> dict[UUID, CancelAnswer]:
        rng, answers = random.Random(number), {}
        for _ in range(40):
            answers |= operate.cancel(ALIAS, rng.sample(ids[number::2], 4))
        return answers

    found = all_at_once([partial(admin, 0), partial(admin, 1), partial(work, 2), partial(work, 3)])

    for answers in found[:2]:
        assert answers
        for one, word in answers.items():
            outcome = row(one, "outcome", "history")
            assert outcome == "cancelled" if word is CANCELLED else outcome is not None or word is ASKED
    assert count() == 0
    assert count("history") + count("dead_letter") == 300


# ------------------------------------------------------------------------------------------------ requeue


def kill(**fields: object) -> UUID:
    """Make a dead letter."""
    one = add_one(**fields)
    job = take_one(lane=str(fields.get("lane", "")))
    assert job.id == one
    fail(job, final=True, entry={"attempt": 1})
    return one


def test_a_dead_letter_becomes_the_same_job_again_with_all_its_attempts(store: str) -> None:
    one = kill(
        task_name="shop.tasks.send", args='{"args": [1]}', options='{"tags": ["x"]}', priority=4, max_attempts=3,
        timeout_seconds=9.5, dedupe_key="k", lane="l",
    )  # fmt: skip
    db.rows(ALIAS, "update djqueue_dead_letter set checkpoint = '{\"page\": 7}', tenant_id = 'acme', interruptions = 5")
    seq, token, created_at = row(one, "seq, lease_token, created_at", "dead_letter")

    assert operate.requeue(ALIAS, [one]) == operate.Requeued(ids=[one], refused=[])

    assert row(
        one,
        "state, attempts, max_attempts, runs, interruptions, worker_ids, task_name, args->'args'->>0,"
        " options->'tags'->>0, priority, timeout_seconds, dedupe_key, lane, checkpoint->>'page', tenant_id, seq,"
        f" created_at, lease_token > {token}, errors->0->>'attempt', run_at <= clock_timestamp(), suspect, started_at",
    ) == (
        "ready", 0, 3, 2, 0, [], "shop.tasks.send", "1",
        "x", 4, 9.5, "k", "l", "7", "acme", seq,
        created_at, True, "1", True, False, None,
    )  # fmt: skip
    assert count("dead_letter") == 0
    assert take_one(lane="l").lease_token > token + 1


def test_r3_a_requeued_job_has_its_attempts_again_and_no_more(store: str) -> None:
    one = kill(max_attempts=2)
    operate.requeue(ALIAS, [one])

    assert fail(take_one()) == {one: "ready"}
    assert fail(take_one()) == {one: "dead"}
    assert row(one, "attempts, runs", "dead_letter") == (2, 2)


def test_r8_a_requeue_whose_key_is_taken_is_refused_for_that_row_alone(store: str) -> None:
    taken = kill(dedupe_key="taken")
    free, plain = kill(dedupe_key="free"), kill()
    add_one(dedupe_key="taken")

    found = operate.requeue(ALIAS, [plain, taken, free])

    assert sorted(found.ids) == sorted([free, plain])
    assert found.refused == [taken]
    assert row(taken, "reason", "dead_letter") is not None
    assert count("dead_letter") == 1


def test_r8_of_two_dead_letters_with_one_key_one_comes_back(store: str) -> None:
    first, second = kill(dedupe_key="k"), kill(dedupe_key="k")

    found = operate.requeue(ALIAS, [first, second])

    assert len(found.ids) == len(found.refused) == 1
    assert (count(), count("dead_letter")) == (1, 1)


def test_r20_what_is_no_dead_letter_is_in_neither_list(store: str) -> None:
    """A stale page can't re-queue what runs, waits or has ended."""
    waiting = add_one(priority=2)
    running = add_one(priority=3)
    take_one()
    before = everything(waiting), everything(running)

    assert operate.requeue(ALIAS, [waiting, running, uuid7()]) == operate.Requeued(ids=[], refused=[])
    assert operate.requeue(ALIAS, []) == operate.Requeued(ids=[], refused=[])
    assert (everything(waiting), everything(running)) == before


def test_of_two_who_requeue_one_letter_only_the_first_does(committed: None, other: Party) -> None:
    one = kill()
    other.begin()
    assert other.do(operate.requeue, ALIAS, [one]).ids == [one]

    with parties(1) as [third]:
        answer = third.start(operate.requeue, ALIAS, [one])
        third.wait_until_blocked()
        other.commit()
        assert answer.result(timeout=10) == operate.Requeued(ids=[], refused=[])

    assert (count(), row(one, "runs")) == (1, 2)


def test_a_letter_that_is_being_discarded_is_not_requeued(committed: None, other: Party) -> None:
    one = kill()
    other.begin()
    other.do(db.rows, ALIAS, "delete from djqueue_dead_letter")

    with parties(1) as [third]:
        answer = third.start(operate.requeue, ALIAS, [one])
        third.wait_until_blocked()
        other.commit()
        assert answer.result(timeout=10).ids == []

    assert count() == 0


def test_a_requeue_of_an_ordered_job_waits_for_its_turn_and_unblocks_its_key(store: str) -> None:
    one = kill()
    db.rows(ALIAS, "update djqueue_dead_letter set ordering_key = 'o'")
    for id_ in (one, uuid7()):
        db.rows(
            ALIAS,
            "insert into djqueue_key_block (queue_name, ordering_key, job_id) values ('q', 'o', %(id)s)",
            {"id": id_},
        )

    operate.requeue(ALIAS, [one])

    assert row(one) == "parked"
    assert count("wake", "queue_name = 'q' and ordering_key = 'o'") == 1
    assert count("key_block") == 1


def test_the_number_of_runs_stays_within_its_column(store: str) -> None:
    one = kill()
    db.rows(ALIAS, "update djqueue_dead_letter set runs = 32767")

    assert operate.requeue(ALIAS, [one]).ids == [one]
    assert row(one, "runs") == 32767


# ------------------------------------------------------------------------------------------------ retry now


def test_scheduled_jobs_are_brought_forward(store: str) -> None:
    delayed, retrying = add_one(delay_seconds=60), add_one()
    fail(take_one(), delay_seconds=60)
    other = add_one(delay_seconds=60)

    assert sorted(operate.retry_now(ALIAS, [delayed, retrying, retrying])) == sorted([delayed, retrying])

    assert row(delayed, "state, run_at <= clock_timestamp(), attempts") == ("ready", True, 0)
    assert row(retrying, "state, run_at <= clock_timestamp(), attempts") == ("ready", True, 1)
    assert row(other) == "scheduled"


def test_r20_what_is_not_scheduled_is_not_touched_by_a_retry(store: str) -> None:
    ready, parked = add(2)
    running = add_one(priority=1)
    take_one()
    bend("state = 'parked'", parked)
    before = [everything(one) for one in (ready, parked, running)]

    assert operate.retry_now(ALIAS, [ready, parked, running, uuid7()]) == []
    assert [everything(one) for one in (ready, parked, running)] == before


def test_a_retry_that_meets_a_promotion_and_a_claim_leaves_the_lease_alone(committed: None, other: Party) -> None:
    one = add_one(delay_seconds=60)
    bend("run_at = '2020-01-01'")
    other.begin()
    other.do(recover.promote, ALIAS)
    other.do(take_one)

    with parties(1) as [third]:
        answer = third.start(operate.retry_now, ALIAS, [one])
        third.wait_until_blocked()
        other.commit()
        assert answer.result(timeout=10) == []

    assert row(one) == "leased"


def test_workers_are_told_of_requeued_and_retried_jobs(listener: psycopg.Connection) -> None:
    dead = kill()
    late = add_one(delay_seconds=60, queue_name="late")

    operate.requeue(ALIAS, [dead])
    operate.retry_now(ALIAS, [late])

    assert told(listener) == ["q", "late"]


# ------------------------------------------------------------------------------------------------ pause


def test_a_pause_needs_no_row_and_ends_by_itself_or_by_hand(store: str) -> None:
    now = datetime.now(UTC)
    operate.pause(ALIAS, "q", now + timedelta(hours=1), reason="partner is down", by="ann")
    operate.pause(ALIAS, "over", now - timedelta(hours=1))

    found = workers.queue_settings(ALIAS)
    assert {name: settings.paused for name, settings in found.items()} == {"q": True, "over": False}
    assert db.rows(ALIAS, "select paused_reason, paused_by from djqueue_queue where name = 'q'") == [
        ("partner is down", "ann")
    ]

    operate.pause(ALIAS, "q", None)
    assert not workers.queue_settings(ALIAS)["q"].paused


def test_a_pause_leaves_the_other_settings_alone(store: str) -> None:
    db.rows(ALIAS, "insert into djqueue_queue (name, weight, history_days) values ('q', 7, 3)")

    operate.pause(ALIAS, "q", datetime(9999, 12, 1, tzinfo=UTC))

    assert workers.queue_settings(ALIAS)["q"] == workers.QueueSettings(name="q", weight=7, paused=True)
    assert db.rows(ALIAS, "select history_days from djqueue_queue") == [(3,)]
