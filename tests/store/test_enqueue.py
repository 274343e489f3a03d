"""Enqueue: in the caller's transaction, every job answered exactly once."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, transaction

from djqueue.exceptions import EnqueueError
from djqueue.store import db, enqueue, lease
from djqueue.store.enqueue import Enqueued, NewJob
from tests.store.factories import (
    ALIAS,
    YEAR_1,
    YEAR_9999,
    Party,
    ack,
    add,
    add_one,
    all_at_once,
    bend,
    count,
    fail,
    lease_of,
    new_job,
    parties,
    row,
    stale,
    take,
    take_one,
    told,
)


def test_a_job_without_a_time_is_ready_and_due_now(store: str) -> None:
    answer = enqueue.enqueue(ALIAS, new_job())

    assert answer.created
    assert row(answer.id, "state, run_at = created_at, created_at <= clock_timestamp()") == ("ready", True, True)
    assert answer.created_at == row(answer.id, "created_at")


def test_every_field_reaches_its_column(store: str) -> None:
    job = new_job(
        queue_name="emails",
        task_name="shop.tasks.send",
        args='{"args": ["ü", 1]}',
        priority=-7,
        max_attempts=3,
        timeout_seconds=1.5,
        options='{"tags": ["a"]}',
        lane="gate:rest",
        dedupe_key="k",
    )

    enqueue.enqueue(ALIAS, job)

    assert row(
        job.id,
        "queue_name, task_name, args->'args'->>0, priority, max_attempts, timeout_seconds, options->'tags'->>0, lane, "
        "dedupe_key, attempts, runs, lease_token",
    ) == ("emails", "shop.tasks.send", "ü", -7, 3, 1.5, "a", "gate:rest", "k", 0, 1, 0)


def test_a_job_without_a_time_limit_is_stored_as_such(store: str) -> None:
    assert row(add_one(timeout_seconds=None), "timeout_seconds") is None


def test_a_delay_schedules_by_the_databases_clock(store: str) -> None:
    """R16: no clock of the caller is in it."""
    [one] = add(delay_seconds=60)

    assert row(one, "state, round(extract(epoch from run_at - created_at))") == ("scheduled", 60)


def test_r16_a_moment_that_lies_ahead_schedules_and_one_in_the_past_does_not(store: str) -> None:
    ahead = datetime.now(UTC) + timedelta(hours=1)

    assert row(add_one(run_at=ahead), "state, run_at") == ("scheduled", ahead)
    assert row(add_one(run_at=ahead - timedelta(hours=2)), "state") == "ready"


@pytest.mark.parametrize(("moment", "state"), [(YEAR_1, "ready"), (YEAR_9999, "scheduled")])
def test_r18_the_ends_of_the_calendar_are_stored_as_given(store: str, moment: datetime, state: str) -> None:
    assert row(add_one(run_at=moment), "state, run_at") == (state, moment)


def test_many_are_answered_in_their_order_over_several_statements(store: str) -> None:
    jobs = [new_job(dedupe_key=f"k{-n}" if n % 3 else None) for n in range(enqueue.CHUNK + 5)]

    answers = list(enqueue.enqueue_many(ALIAS, jobs))

    assert [a.id for a in answers] == [job.id for job in jobs]
    assert all(a.created for a in answers)
    assert count() == len(jobs)


def test_many_without_keys_are_claimed_in_the_order_given(store: str) -> None:
    ids = add(50)

    assert [job.id for job in take(50)] == ids


def test_large_arguments_go_in_smaller_statements(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enqueue, "CHUNK_CHARACTERS", 1_000)
    jobs = [new_job(args=f'"{"x" * size}"') for size in (10, 600, 600, 5_000, 5, 5)]
    sent: list[int] = []
    statement = enqueue._enqueue_chunk
    monkeypatch.setattr(enqueue, "_enqueue_chunk", lambda a, chunk: sent.append(len(chunk)) or statement(a, chunk))

    answers = list(enqueue.enqueue_many(ALIAS, jobs))

    assert sent == [2, 1, 1, 2]
    assert [a.id for a in answers] == [job.id for job in jobs]
    assert count() == 6


def test_none_at_all_is_no_statement(store: str) -> None:
    assert list(enqueue.enqueue_many(ALIAS, [])) == []


def test_a_duplicate_is_answered_with_the_job_that_holds_the_key(store: str) -> None:
    first = enqueue.enqueue(ALIAS, new_job(dedupe_key="k"))

    second = enqueue.enqueue(ALIAS, new_job(dedupe_key="k"))

    assert (second.id, second.created, second.created_at) == (first.id, False, first.created_at)
    assert count() == 1


def test_keys_of_other_queues_and_jobs_without_keys_are_no_duplicates(store: str) -> None:
    add_one(dedupe_key="k")

    assert enqueue.enqueue(ALIAS, new_job(dedupe_key="k", queue_name="q2")).created
    assert enqueue.enqueue(ALIAS, new_job()).created
    assert enqueue.enqueue(ALIAS, new_job()).created


def test_r8_a_running_jobs_payload_is_not_changed_by_a_duplicate(store: str) -> None:
    one = add_one(dedupe_key="k", args='{"args": [1]}', priority=3)
    take_one()

    again = enqueue.enqueue(ALIAS, new_job(dedupe_key="k", args='{"args": [2]}', priority=5))

    assert (again.id, again.created) == (one, False)
    assert row(one, "args->'args'->>0, priority, state") == ("1", 3, "leased")


def test_duplicates_within_one_call_share_the_first_ones_job(store: str) -> None:
    held = add_one(dedupe_key="held")
    jobs = [new_job(dedupe_key=key) for key in ("b", "a", "b", "held", None, "held")]

    answers = list(enqueue.enqueue_many(ALIAS, jobs))

    assert [a.id for a in answers] == [jobs[0].id, jobs[1].id, jobs[0].id, held, jobs[4].id, held]
    assert [a.created for a in answers] == [True, True, False, False, True, False]


@pytest.mark.parametrize("end", ["ack", "dead"])
def test_r8_an_ended_job_frees_its_key(store: str, end: str) -> None:
    add_one(dedupe_key="k")
    job = take_one()
    ack(job) if end == "ack" else fail(job, final=True)

    assert enqueue.enqueue(ALIAS, new_job(dedupe_key="k")).created


@pytest.mark.parametrize("state", ["delayed", "retrying", "leased"])
def test_r8_an_unfinished_job_holds_its_key(store: str, state: str) -> None:
    one = add_one(dedupe_key="k", delay_seconds=60 if state == "delayed" else 0)
    if state != "delayed":
        job = take_one()
        if state == "retrying":
            fail(job, delay_seconds=60)

    assert enqueue.enqueue(ALIAS, new_job(dedupe_key="k")).id == one


def test_r7_a_rolled_back_savepoint_removes_the_job(committed: None) -> None:
    with transaction.atomic():
        kept = add_one()
        with transaction.atomic():
            add_one()
            transaction.set_rollback(True)

    assert [job.id for job in take(9)] == [kept]


def test_r7_the_job_is_seen_when_the_callers_transaction_commits(committed: None, other: Party) -> None:
    with transaction.atomic():
        one = add_one()
        assert other.do(count) == 0

    assert other.do(row, one) == "ready"


def test_r8_a_duplicate_does_not_abort_the_transaction(committed: None) -> None:
    with transaction.atomic():
        first = add_one(dedupe_key="k")
        assert add_one(dedupe_key="k") == first
        after = add_one()

    assert {job.id for job in take(9)} == {first, after}


def enqueue_one(job: NewJob) -> Enqueued:
    return enqueue.enqueue(ALIAS, job)


def enqueue_as_many(job: NewJob) -> Enqueued:
    [answer] = enqueue.enqueue_many(ALIAS, [job])
    return answer


ways = pytest.mark.parametrize("way", [enqueue_one, enqueue_as_many])


@ways
@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_r8_the_second_enqueuer_waits_for_the_firsts_end(
    committed: None, other: Party, way: Callable[[NewJob], Enqueued], ending: str
) -> None:
    other.begin()
    first = other.do(add_one, dedupe_key="k")
    second = new_job(dedupe_key="k")

    with parties(1) as [third]:
        answer = third.start(way, second)
        third.wait_until_blocked()
        other.commit() if ending == "commit" else other.rollback()
        found = answer.result(timeout=10)

    assert (found.id, found.created) == ((first, False) if ending == "commit" else (second.id, True))
    assert count() == 1


@ways
def test_r8_a_holder_that_ends_while_the_enqueuer_waits_for_it_makes_way(
    committed: None, other: Party, way: Callable[[NewJob], Enqueued]
) -> None:
    """The old job is still in the waiting statement's snapshot: it must not be the answer."""
    add_one(dedupe_key="k")
    job = take_one()
    other.begin()
    other.do(ack, job)
    new = new_job(dedupe_key="k")

    with parties(1) as [third]:
        answer = third.start(way, new)
        third.wait_until_blocked()
        other.commit()
        found = answer.result(timeout=10)

    assert (found.id, found.created) == (new.id, True)
    assert count() == 1


def test_a_duplicate_in_an_open_transaction_does_not_make_the_holders_ack_wait(committed: None, other: Party) -> None:
    add_one(dedupe_key="k")
    job = take_one()
    other.begin()
    assert other.do(add_one, dedupe_key="k") == job.id

    db.rows(ALIAS, "set lock_timeout = '2s'")
    assert ack(job) == {job.id}
    other.rollback()


def test_r8_calls_with_the_same_keys_in_other_orders_do_not_deadlock(committed: None, other: Party) -> None:
    """Each call inserts in the order of keys, so the second waits on the first key and holds nothing."""
    keys = [f"k{n}" for n in range(20)]
    other.begin()
    other.do(lambda: list(enqueue.enqueue_many(ALIAS, [new_job(dedupe_key=k) for k in keys[:10]])))

    with parties(1) as [third]:
        backwards = [new_job(dedupe_key=k) for k in reversed(keys)]
        answer = third.start(lambda: list(enqueue.enqueue_many(ALIAS, backwards)))
        third.wait_until_blocked()
        other.do(lambda: list(enqueue.enqueue_many(ALIAS, [new_job(dedupe_key=k) for k in keys[10:]])))
        other.commit()
        answers = answer.result(timeout=10)

    assert not any(a.created for a in answers)
    assert count() == 20


@pytest.mark.slow
def test_r8_eight_threads_at_once_get_one_answer_each(committed: None) -> None:
    def race(number: int) -> list[str]:
        rng, faults = random.Random(number), []
        for _ in range(200):
            job = new_job(dedupe_key=f"k{rng.randrange(3)}")
            try:
                with transaction.atomic():
                    answer = enqueue.enqueue(ALIAS, job)
                    if rng.random() < 0.2:
                        transaction.set_rollback(True)
                if answer.created != (answer.id == job.id):
                    faults.append(f"{answer} for {job.id}")
                if rng.random() < 0.5:
                    ack(*take())
            except Exception as error:
                faults.append(repr(error))
        return faults

    assert all_at_once([partial(race, number) for number in range(8)]) == [[]] * 8
    assert count() <= 3


def test_a_snapshot_too_old_to_see_the_holder_ends_in_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db, "rows", lambda *_: [])

    with pytest.raises(EnqueueError, match=r"dedupe key 'k'.*READ COMMITTED"):
        enqueue.enqueue(ALIAS, new_job(dedupe_key="k"))
    with pytest.raises(EnqueueError, match=r"dedupe key 'k'.*READ COMMITTED"):
        list(enqueue.enqueue_many(ALIAS, [new_job(dedupe_key="k")]))


def test_r15_a_ready_job_is_told_at_commit_where_a_worker_wants_news(listener: psycopg.Connection) -> None:
    db.rows(ALIAS, "insert into djqueue_worker (id) values ('w')")

    with transaction.atomic():
        add_one(queue_name="a")
        assert told(listener) == []
    add(3, queue_name="b")
    add_one(queue_name="later", delay_seconds=60)
    add_one(queue_name="later2", run_at=YEAR_9999)

    assert told(listener) == ["a", "b"]


@pytest.mark.parametrize("worker", ["wants_news = false", "seen_at = now() - interval '1 h'"])
def test_nobody_is_told_where_no_live_worker_wants_news(listener: psycopg.Connection, worker: str) -> None:
    db.rows(ALIAS, "insert into djqueue_worker (id) values ('w')")
    db.rows(ALIAS, f"update djqueue_worker set {worker}")

    add_one()
    add(2)

    assert told(listener) == []


@pytest.mark.parametrize(
    "field",
    [
        {"queue_name": "q" * 101},
        {"queue_name": ""},
        {"task_name": ""},
        {"task_name": "t" * 301},
        {"dedupe_key": "k" * 301},
        {"lane": "l" * 201},
        {"priority": 101},
        {"priority": -101},
        {"max_attempts": 0},
        {"max_attempts": 1001},
    ],
)
def test_the_table_refuses_what_lies_outside_the_limits(committed: None, field: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError, match="violates check constraint"):
        add_one(**field)


def test_r28_numbers_beyond_2_to_the_53_work_from_enqueue_to_history(store: str) -> None:
    db.rows(ALIAS, "alter sequence djqueue_job_seq_seq restart with 9007199254740995")
    ids = add(3)
    bend(f"lease_token = {2**62 + 1}")

    jobs = take(3)

    assert [job.id for job in jobs] == ids
    assert [job.seq for job in jobs] == [9007199254740995, 9007199254740996, 9007199254740997]
    assert {job.lease_token for job in jobs} == {2**62 + 2}
    assert lease.look(ALIAS, [lease_of(job) for job in jobs]) == dict.fromkeys(ids, lease.Standing.MINE)
    assert ack(stale(jobs[0])) == set()
    assert ack(*jobs) == set(ids)
    assert row(ids[0], "lease_token", "history") == 2**62 + 2
