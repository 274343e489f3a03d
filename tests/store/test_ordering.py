"""Ordering keys: who becomes head, who is parked, who comes next; and every race in every order, forced by locks."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import transaction

from djqueue.policy.ids import uuid7
from djqueue.states import OnDead
from djqueue.store import db, enqueue, expire, finish, lease, letters, operate, ordering, recover
from djqueue.store.claim import Claimed
from djqueue.store.finish import Ack
from djqueue.store.ordering import Key
from tests.store.factories import (
    ALIAS,
    Party,
    add,
    add_one,
    bend,
    count,
    fail,
    failed,
    ids_of,
    lease_of,
    new_job,
    parties,
    row,
    take,
    take_one,
    told,
)


def ordered(key: str = "k", **fields: Any) -> UUID:
    """Enqueue one job with an ordering key."""
    return add_one(ordering_key=key, **fields)


def ack(*jobs: Claimed) -> set[UUID]:
    """Ack jobs, each with its key, as a worker does."""
    return finish.ack(ALIAS, [ack_of(job) for job in jobs])


def ack_of(job: Claimed) -> Ack:
    key = None if job.ordering_key is None else Key(job.queue_name, job.ordering_key)
    return Ack(job.id, job.lease_token, 2.0, 1.0, "null", key)


def tick() -> int:
    """One whole tick of a keeper; how many jobs it has let out."""
    found, after = 0, 0
    while True:
        turn = ordering.turn(ALIAS, after)
        found += turn.let_out
        if turn.after is None:
            return found
        after = turn.after


def states(*ids: UUID) -> list[Any]:
    return [row(id_) for id_ in ids]


def drained(most: int = 100) -> list[UUID]:
    """Everything that can be claimed, one after the other, each acked; ticks between."""
    done: list[UUID] = []
    for _ in range(most):
        tick()
        jobs = take(1)
        if not jobs:
            return done
        ack(*jobs)
        done += ids_of(jobs)
    raise AssertionError("no end")


# ------------------------------------------------------------------------------------------------ enqueue


def test_the_first_job_of_a_key_leads_and_the_others_are_parked(store: str) -> None:
    one, two, three = ordered(), ordered(), ordered()
    other = ordered("another")

    assert states(one, two, three, other) == ["ready", "parked", "parked", "ready"]
    assert ids_of(take(9)) == [one, other]


def test_an_ordering_key_orders_within_its_queue_only(store: str) -> None:
    assert states(ordered(), ordered(queue_name="q2")) == ["ready", "ready"]


def test_a_job_without_a_key_is_never_parked(store: str) -> None:
    ordered()

    assert states(ordered(), add_one()) == ["parked", "ready"]
    assert count("wake") == 1


def test_many_jobs_with_keys_are_one_statement_in_their_order(store: str) -> None:
    jobs = [new_job(ordering_key=key) for key in ("a", "b", None, "a", "b", "a", None)]

    answers = list(enqueue.enqueue_many(ALIAS, jobs))

    assert [answer.id for answer in answers] == [job.id for job in jobs]
    assert states(*(job.id for job in jobs)) == ["ready", "ready", "ready", "parked", "parked", "parked", "ready"]
    assert count("wake") == 2
    assert drained() == [jobs[n].id for n in (0, 1, 2, 3, 4, 5, 6)]


def test_a_delayed_head_holds_its_key(store: str) -> None:
    one, two = ordered(delay_seconds=60), ordered()

    assert states(one, two) == ["scheduled", "parked"]
    assert (tick(), take(9)) == (0, [])


def test_a_parked_job_that_is_not_due_is_let_out_as_scheduled(store: str) -> None:
    one, two, three = ordered(), ordered(delay_seconds=60), ordered()

    ack(take_one())

    assert states(one, two, three) == [None, "scheduled", "parked"]


def test_the_way_an_end_counts_is_written_with_the_job(store: str) -> None:
    assert row(ordered(on_dead=OnDead.BLOCK), "on_dead") == "block"


def test_a_duplicate_of_an_ordered_job_is_answered_with_its_holder(store: str) -> None:
    one = ordered(dedupe_key="d")
    two = ordered()

    again = enqueue.enqueue(ALIAS, new_job(ordering_key="k", dedupe_key="d"))
    elsewhere = enqueue.enqueue(ALIAS, new_job(ordering_key="new", dedupe_key="d"))

    assert [(again.id, again.created), (elsewhere.id, elsewhere.created)] == [(one, False), (one, False)]
    assert count("job") == 2
    assert states(one, two) == ["ready", "parked"]


def test_the_first_of_the_duplicates_in_one_call_is_written(store: str) -> None:
    jobs = [new_job(ordering_key="a", dedupe_key="d"), new_job(ordering_key="b", dedupe_key="d"), new_job()]

    answers = list(enqueue.enqueue_many(ALIAS, jobs))

    assert [(a.id, a.created) for a in answers] == [(jobs[0].id, True), (jobs[0].id, False), (jobs[2].id, True)]


def test_one_transaction_makes_a_hundred_heads_and_the_tick_the_others(committed: None) -> None:
    with transaction.atomic():
        for number in range(60):
            ordered(f"one by one {number}")
        list(enqueue.enqueue_many(ALIAS, [new_job(ordering_key=f"many {n}") for n in range(300)]))

    assert count("job", "state = 'ready'") == 100
    assert tick() == 260
    assert (count("job", "state = 'ready'"), count("wake")) == (360, 0)


def test_heads_of_a_savepoint_that_was_rolled_back_don_t_count(committed: None) -> None:
    with transaction.atomic():
        with transaction.atomic():
            list(enqueue.enqueue_many(ALIAS, [new_job(ordering_key=f"k{n}") for n in range(100)]))
            transaction.set_rollback(True)
        list(enqueue.enqueue_many(ALIAS, [new_job(ordering_key=f"k{n}") for n in range(100)]))

    assert count("job", "state = 'ready'") == 100


# ------------------------------------------------------------------------------------------------ every end of a head


def test_an_ack_lets_out_the_next_in_its_own_transaction(store: str) -> None:
    one, two, three = ordered(), ordered(), ordered()

    ack(take_one())

    assert states(one, two, three) == [None, "ready", "parked"]
    assert ids_of(take(9)) == [two]


def test_an_ack_in_a_pipeline_lets_out_before_the_claim_that_follows(adopted: None) -> None:
    one, two = ordered(), ordered()
    job = take_one()

    with db.together(ALIAS):
        done = finish.start_ack(ALIAS, [ack_of(job)], 3.0)
        found = db.execute(ALIAS, "select id from djqueue_job where state = 'ready'")

    assert (finish.acked(done), db.fetch(found)) == ({one}, [(two,)])


@pytest.mark.parametrize("tell", [True, False])
def test_idle_workers_are_told_of_a_job_let_out_unless_the_worker_claims_itself(
    adopted: None, listener: psycopg.Connection, tell: bool
) -> None:
    ordered()
    ordered()
    job = take_one()
    db.rows(ALIAS, "insert into djqueue_worker (id, wants_news, seen_at) values ('w', true, now())")

    with db.together(ALIAS):
        finish.start_ack(ALIAS, [ack_of(job)], 3.0, tell=tell)

    assert told(listener) == (["q"] if tell else [])


def test_an_ack_with_a_stale_token_lets_out_nobody(store: str) -> None:
    one, two = ordered(), ordered()
    job = take_one()

    ack(job._replace(lease_token=job.lease_token - 1))
    tick()

    assert states(one, two) == ["leased", "parked"]


def test_a_batch_of_acks_lets_out_the_next_of_each_key(store: str) -> None:
    firsts = [ordered(f"k{n}") for n in range(120)]
    seconds = [ordered(f"k{n}") for n in range(120)]
    tick()  # in one transaction only a hundred became heads

    ack(*take(120))

    assert states(*firsts) == [None] * 120
    assert states(*seconds).count("ready") == ordering.MOST_LOCKS
    tick()
    assert states(*seconds).count("ready") == 120
    assert count("wake") == 0


def test_an_ack_of_keys_behind_which_nobody_waits_takes_no_lock(committed: None) -> None:
    for number in range(2):
        list(enqueue.enqueue_many(ALIAS, [new_job(ordering_key=f"k{n}") for n in range(number * 75, 75 + number * 75)]))

    with transaction.atomic():
        assert len(ack(*take(150))) == 150
        held = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
        assert db.rows(ALIAS, held) == [(0,)]

    assert count("wake") == 0


def test_a_job_that_fails_holds_its_key_until_it_has_ended(store: str) -> None:
    one, two = ordered(), ordered()

    fail(take_one(), delay_seconds=60)
    tick()
    assert states(one, two) == ["scheduled", "parked"]

    bend("state = 'ready'", one)
    fail(take_one(), delay_seconds=0, crash=True)
    tick()
    assert states(one, two) == ["ready", "parked"]


def test_a_dead_head_lets_the_next_go_on(store: str) -> None:
    one, two = ordered(), ordered()

    [ended] = failed(take_one(), final=True)

    assert (ended.state, ended.is_head) == ("dead", True)
    assert tick() == 1
    assert states(one, two) == [None, "ready"]
    assert count("key_block") == 0


def test_a_dead_head_blocks_its_key_where_the_job_says_so(store: str) -> None:
    one, two = ordered(on_dead=OnDead.BLOCK), ordered(on_dead=OnDead.BLOCK)

    fail(take_one(), final=True)

    three = ordered()
    assert tick() == 0
    assert states(one, two, three) == [None, "parked", "parked"]
    assert count("key_block", f"queue_name = 'q' and ordering_key = 'k' and job_id = '{one}'") == 1
    assert count("wake") == 0


def blocked(count: int = 2) -> list[UUID]:
    """A key that its dead head blocks: the head and those behind it."""
    ids = [ordered(on_dead=OnDead.BLOCK) for _ in range(count + 1)]
    fail(take_one(), final=True)
    tick()
    return ids


def test_a_requeued_blocking_head_comes_before_those_that_waited_for_it(store: str) -> None:
    ids = blocked()

    operate.requeue(ALIAS, [ids[0]])

    assert drained() == ids
    assert count("key_block") == 0


def test_a_discarded_blocking_head_lets_the_others_go(store: str) -> None:
    ids = blocked()

    letters.discard(ALIAS, [ids[0]], reason="not wanted")

    assert drained() == ids[1:]


def test_a_pruned_blocking_head_lets_the_others_go(store: str) -> None:
    ids = blocked()
    db.rows(ALIAS, "update djqueue_dead_letter set died_at = died_at - interval '40 days'")

    letters.prune(ALIAS, 30)

    assert drained() == ids[1:]


def test_a_blocking_head_requeued_with_other_arguments_ends_the_block(store: str) -> None:
    ids = blocked()

    assert letters.requeue_edited(ALIAS, ids[0], "{}") == "requeued"

    assert drained() == ids


def test_a_dead_job_whose_key_has_a_head_is_requeued_as_the_next(store: str) -> None:
    one, two, three = ordered(), ordered(), ordered()
    fail(take_one(), final=True)
    tick()

    operate.requeue(ALIAS, [one])

    assert states(one, two, three) == ["parked", "ready", "parked"]
    assert drained() == [two, one, three]


def test_a_letter_requeued_while_another_blocks_its_key_waits_too(store: str) -> None:
    first = ordered()
    fail(take_one(), final=True)
    ids = blocked(1)

    operate.requeue(ALIAS, [first])
    assert drained() == []

    operate.requeue(ALIAS, [ids[0]])
    assert drained() == [first, *ids]


def cancel_at_once(job: Claimed | None, head: UUID) -> None:
    operate.cancel(ALIAS, [head])


def cancel_as_it_runs(job: Claimed | None, head: UUID) -> None:
    job = take_one()
    operate.cancel(ALIAS, [head])
    fail(job)


def cancel_by_itself(job: Claimed | None, head: UUID) -> None:
    fail(take_one(), cancel=True)


def cancel_by_filter(job: Claimed | None, head: UUID) -> None:
    take_one()
    bend("state = 'ready', lease_until = null, leased_by = null", head)
    list(operate.cancel_matching(ALIAS, operate.Jobs(queue_name="q", tag=None, state="ready")))  # type: ignore[arg-type]


def cancel_when_released(job: Claimed | None, head: UUID) -> None:
    job = take_one()
    operate.cancel(ALIAS, [head])
    lease.release(ALIAS, [lease_of(job)])


def expire_unclaimed(job: Claimed | None, head: UUID) -> None:
    bend("expires_at = now() - interval '1 s'", head)
    expire.end_overdue(ALIAS)


def expire_claimed(job: Claimed | None, head: UUID) -> None:
    job = take_one()
    bend("expires_at = now() - interval '1 s'", head)
    expire.refuse(ALIAS, [lease_of(job)])


def reap_to_death(job: Claimed | None, head: UUID) -> None:
    bend("max_attempts = 1", head)
    take_one()
    bend("lease_until = now() - interval '1 s'", head)
    finish.fail(
        ALIAS,
        [
            finish.Failure(id=each.id, lease_token=each.lease_token, entry={}, errors=each.errors, crash=True)
            for each in recover.overdue(ALIAS, 5)
        ],
    )


ENDS: Sequence[Callable[[Claimed | None, UUID], None]] = [
    cancel_at_once,
    cancel_as_it_runs,
    cancel_by_itself,
    cancel_by_filter,
    cancel_when_released,
    expire_unclaimed,
    expire_claimed,
    reap_to_death,
]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_after_every_end_of_a_head_the_tick_lets_out_the_next(
    store: str, end: Callable[[Claimed | None, UUID], None]
) -> None:
    one, two, three = ordered(), ordered(), ordered()
    tick()
    assert count("wake") == 0

    end(None, one)

    assert tick() == 1
    assert states(one, two, three) == [None, "ready", "parked"]


@pytest.mark.parametrize(
    "back",
    [
        lambda job: lease.release(ALIAS, [lease_of(job)]),
        lambda job: lease.snooze(ALIAS, [lease_of(job)], [60]),
        lambda job: lease.set_aside(ALIAS, [lease_of(job)]),
        lambda job: (
            lease.release(ALIAS, [lease_of(job)]),
            recover.set_aside_tasks(ALIAS, "q", ["t"]),
        ),
    ],
    ids=["released", "snoozed", "set aside by its worker", "set aside by the leader"],
)
def test_a_head_that_comes_back_holds_its_key(store: str, back: Callable[[Claimed], Any]) -> None:
    one, two = ordered(), ordered()

    back(take_one())

    third = ordered()
    assert tick() == 0
    assert states(two, third) == ["parked", "parked"]
    assert count("wake") == 0
    recover.bring_back(ALIAS, ["task:t"])
    recover.make_due(ALIAS)
    recover.promote(ALIAS)
    assert drained() == [one, two, third]


def test_a_parked_job_that_is_cancelled_leaves_the_others_alone(store: str) -> None:
    one, two, three = ordered(), ordered(), ordered()
    tick()

    operate.cancel(ALIAS, [two])

    assert count("wake") == 0
    assert drained() == [one, three]


# ------------------------------------------------------------------------------------------------ the tick


def test_the_tick_forgets_keys_that_need_nothing(store: str) -> None:
    ordered()
    for _ in range(5):
        ordered()

    assert (count("wake"), tick(), count("wake")) == (5, 0, 0)


def test_a_turn_goes_on_where_the_last_one_ended(store: str) -> None:
    for _ in range(2):
        list(enqueue.enqueue_many(ALIAS, [new_job(ordering_key=f"k{n}") for n in range(450)]))

    first = ordering.turn(ALIAS)
    assert (first.let_out, first.after is None) == (200, False)
    assert tick() == 150
    assert count("wake") == 0


def test_a_key_that_is_held_keeps_its_wake_rows_and_nobody_else_waits_for_it(committed: None, other: Party) -> None:
    other.begin()
    other.do(ordered, "held")
    for _ in range(1_200):
        assert row(ordered("held")) == "parked"
    with transaction.atomic():
        list(enqueue.enqueue_many(ALIAS, [new_job(ordering_key=f"free {n}") for n in range(101)]))

    assert tick() == 1

    assert count("wake") == 1_200
    other.commit()
    assert tick() == 0
    assert count("wake") == 0


def test_a_sweep_finds_keys_whose_head_has_gone_without_a_word(store: str) -> None:
    """As under workers of a release that knows nothing of ordering keys."""
    blocked_ids = blocked()
    heads = [ordered(f"k{n:04}") for n in range(3)]
    behind = [ordered(f"k{n:04}") for n in range(3)]
    tick()
    db.rows(ALIAS, "delete from djqueue_job where id = any(%(ids)s)", {"ids": heads[:2]})

    assert ordering.sweep(ALIAS) == (None, 2)

    assert tick() == 2
    assert states(*behind) == ["ready", "ready", "parked"]
    assert states(blocked_ids[1]) == ["parked"]
    assert ordering.sweep(ALIAS) == (None, 0)


def test_a_sweep_goes_on_where_it_was(store: str) -> None:
    jobs = [new_job(ordering_key=f"k{n:04}") for n in range(1_200) for _ in range(2)]
    list(enqueue.enqueue_many(ALIAS, jobs))

    after, lost = ordering.sweep(ALIAS)

    assert (after, lost) == (Key("q", "k0999"), 900)  # a hundred heads in one transaction
    assert ordering.sweep(ALIAS, after) == (None, 200)


# ------------------------------------------------------------------------------------------------ races, in every order


def test_an_enqueuer_with_a_slow_transaction_holds_nobody_up(committed: None, other: Party) -> None:
    other.begin()
    slow = other.do(ordered)

    two = ordered()
    assert (states(two), tick(), count("wake")) == (["parked"], 0, 1)

    other.commit()
    tick()
    assert drained() == [slow, two]


def test_a_head_that_is_rolled_back_leaves_the_key_to_those_who_came_after(committed: None, other: Party) -> None:
    other.begin()
    other.do(ordered)
    two = ordered()

    other.rollback()

    assert drained() == [two]


def test_a_job_parked_while_the_head_is_being_acked_is_let_out_after_the_commit(committed: None, other: Party) -> None:
    """The ack's let-out could not see it; its own wake row stays until the ack has committed."""
    ordered()
    job = take_one()
    other.begin()
    other.do(ack, job)

    two = ordered()
    assert (states(two), tick(), count("wake")) == (["parked"], 0, 1)

    other.commit()
    assert tick() == 1
    assert states(two) == ["ready"]


@pytest.mark.parametrize("end", ["cancel", "fail"])
def test_a_job_parked_while_its_head_is_being_ended_without_the_lock_is_let_out(
    committed: None, other: Party, end: str
) -> None:
    one = ordered()
    job = take_one() if end == "fail" else None
    other.begin()
    other.do(lambda: fail(job, final=True) if job else operate.cancel(ALIAS, [one]))

    two = ordered()
    assert (states(two), tick(), count("wake")) == (["parked"], 0, 1)

    other.commit()
    assert tick() == 1
    assert states(two) == ["ready"]


def test_an_end_that_is_rolled_back_lets_out_nobody(committed: None, other: Party) -> None:
    one, two = ordered(), ordered()
    job = take_one()
    other.begin()
    other.do(ack, job)

    assert tick() == 0
    other.rollback()

    assert tick() == 0
    assert states(one, two) == ["leased", "parked"]
    ack(job)
    assert states(two) == ["ready"]


def test_an_ack_that_can_t_have_the_lock_leaves_the_key_to_the_tick(committed: None, other: Party) -> None:
    ordered()
    two = ordered()
    tick()
    job = take_one()
    other.begin()
    other.do(lambda: db.rows(ALIAS, ordering.LOCK, {"queues": ["q"], "keys": ["k"], "most": 1}))

    ack(job)
    assert (states(two), count("wake")) == (["parked"], 1)

    other.commit()
    assert tick() == 1


def test_two_let_outs_of_a_key_make_one_head(committed: None, other: Party) -> None:
    """The second has no lock while the first is open, and sees its head afterwards."""
    one, two, three = ordered(), ordered(), ordered()
    operate.cancel(ALIAS, [one])
    other.begin()
    assert other.do(ordering.turn, ALIAS).let_out == 1

    assert tick() == 0
    other.commit()

    assert tick() == 0
    assert states(two, three) == ["ready", "parked"]
    assert count("wake") == 0


def test_an_enqueue_beside_a_let_out_is_parked(committed: None, other: Party) -> None:
    one, two = ordered(), ordered()
    operate.cancel(ALIAS, [one])
    other.begin()
    assert other.do(ordering.turn, ALIAS).let_out == 1

    three = ordered()

    other.commit()
    tick()
    assert states(two, three) == ["ready", "parked"]


def test_a_let_out_waits_for_nobody_who_is_cancelling_the_next_job(committed: None, other: Party) -> None:
    """Nor does it pass that job over: the cancel may be rolled back."""
    _, two, three = ordered(), ordered(), ordered()
    tick()
    job = take_one()
    other.begin()
    other.do(operate.cancel, ALIAS, [two])

    ack(job)
    assert (states(three), tick(), count("wake")) == (["parked"], 0, 1)

    other.rollback()
    assert tick() == 1
    assert states(two, three) == ["ready", "parked"]


def test_a_head_let_out_in_an_open_transaction_can_t_be_taken_for_none(committed: None, other: Party) -> None:
    """Between the ack and its commit the key has no committed head, and yet nobody becomes one."""
    ordered()
    two = ordered()
    tick()
    job = take_one()
    other.begin()
    other.do(ack, job)

    three = ordered()
    tick()
    assert states(three) == ["parked"]

    other.commit()
    assert states(two, three) == ["ready", "parked"]


def test_a_requeue_beside_a_let_out_becomes_no_second_head(committed: None, other: Party) -> None:
    one, two, three = ordered(), ordered(), ordered()
    fail(take_one(), final=True)
    other.begin()
    assert other.do(ordering.turn, ALIAS).let_out == 1

    operate.requeue(ALIAS, [one])
    assert (states(one), tick()) == (["parked"], 0)

    other.commit()
    tick()
    assert states(one, two, three) == ["parked", "ready", "parked"]
    assert drained() == [two, one, three]


def test_a_let_out_before_the_requeue_of_a_blocking_head_commits_keeps_the_block(committed: None, other: Party) -> None:
    ids = blocked()
    other.begin()
    other.do(operate.requeue, ALIAS, [ids[0]])
    ordered()

    assert tick() == 0

    other.commit()
    assert drained()[:3] == ids


def test_a_stale_ack_after_a_reap_lets_out_nobody_twice(committed: None, other: Party) -> None:
    one, two, three = ordered(max_attempts=1), ordered(), ordered()
    job = take_one()
    bend("lease_until = now() - interval '1 s'", one)
    other.begin()
    other.do(lambda: [fail(lease.Lease(each.id, each.lease_token)) for each in recover.overdue(ALIAS, 5)])

    with parties(1) as [worker]:
        late = worker.start(ack, job)
        worker.wait_until_blocked()
        other.commit()
        assert late.result(timeout=20) == set()

    tick()
    assert states(one, two, three) == [None, "ready", "parked"]


def test_an_ack_before_a_reap_lets_out_once(committed: None, other: Party) -> None:
    one, two, three = ordered(max_attempts=1), ordered(), ordered()
    tick()
    job = take_one()
    bend("lease_until = now() - interval '1 s'", one)
    other.begin()
    other.do(ack, job)

    assert recover.overdue(ALIAS, 5) == []
    other.commit()

    assert recover.overdue(ALIAS, 5) == []
    assert states(one, two, three) == [None, "ready", "parked"]


def test_an_enqueue_between_the_end_of_a_head_and_the_tick_is_parked(committed: None) -> None:
    """The key has no head then, but somebody who was there before."""
    one, two = ordered(), ordered()
    operate.cancel(ALIAS, [one])

    three = ordered()

    assert states(two, three) == ["parked", "parked"]
    assert drained() == [two, three]


def test_two_first_jobs_of_a_key_at_once_are_a_head_and_a_parked_one(committed: None, other: Party) -> None:
    """The second sees no job and gets no lock; a head that it would make could not be called back."""
    other.begin()
    first = other.do(ordered)
    second = ordered()

    assert states(second) == ["parked"]
    other.commit()
    tick()
    assert states(first, second) == ["ready", "parked"]


# ------------------------------------------------------------------------------------------------ all at once

KEYS = 6
ENQUEUERS, WORKERS = 3, 3


class Melee:
    """Enqueuers that roll back and dawdle, workers that fail, release and cancel, keepers; what they saw."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.committed = threading.Event()
        self.lock = threading.Lock()
        self.running: dict[str, UUID] = {}
        self.twice: list[str] = []
        self.made: dict[UUID, tuple[str, float, float, int]] = {}
        """Key, when the transaction began, when its commit was answered, and its place in the transaction."""
        self.ended: dict[UUID, float] = {}
        self.asked: set[UUID] = set()
        """To cancel while they ran: they may end when they are released."""

    def enqueue(self, rng: random.Random) -> None:
        while time.monotonic() < self.end:
            began, made = time.monotonic(), []
            with transaction.atomic():
                for _ in range(rng.choice((1, 1, 3))):
                    key = f"k{rng.randrange(KEYS)}"
                    made.append((ordered(key, id=uuid7(), max_attempts=2), key))
                if rng.random() < 0.1:
                    db.rows(ALIAS, "select pg_sleep(0.05)")
                is_kept = rng.random() > 0.2
                transaction.set_rollback(not is_kept)
            if is_kept:
                answered = time.monotonic()
                self.made |= {id_: (key, began, answered, n) for n, (id_, key) in enumerate(made)}

    def work(self, rng: random.Random) -> None:
        while not (self.committed.is_set() and count() == 0):
            if time.monotonic() > self.end + 30:
                return
            jobs = take(rng.choice((1, 3, 10)), worker_id=f"w{rng.random()}")
            with self.lock:
                for job in jobs:
                    key = job.ordering_key or ""
                    if key in self.running:
                        self.twice.append(key)
                    self.running[key] = job.id
            if jobs:
                self.settle(rng, jobs)
            else:
                db.rows(ALIAS, "select pg_sleep(0.002)")

    def settle(self, rng: random.Random, jobs: list[Claimed]) -> None:
        db.rows(ALIAS, "select pg_sleep(%(s)s)", {"s": rng.random() * 0.002})
        with self.lock:
            for job in jobs:
                self.running.pop(job.ordering_key or "", None)
        at, how = time.monotonic(), rng.random()
        if how < 0.1:
            gone = [id_ for id_, state in fail(*jobs).items() if state != "ready"]
        elif how < 0.15:
            lease.release(ALIAS, [lease_of(job) for job in jobs])
            gone = []
        else:
            gone = list(ack(*jobs))
        self.ended |= dict.fromkeys(gone, at)
        if rng.random() < 0.05:
            for (id_,) in db.rows(ALIAS, "select id from djqueue_job where state = 'parked' limit 1"):
                if operate.cancel(ALIAS, [id_])[id_] == "cancelled":
                    self.ended[id_] = float("nan")
                else:
                    self.asked.add(id_)

    def keep(self, rng: random.Random) -> None:
        while not (self.committed.is_set() and count() == 0) and time.monotonic() < self.end + 30:
            tick()
            db.rows(ALIAS, "select pg_sleep(0.01)")

    def broken_pairs(self) -> list[tuple[UUID, UUID]]:
        """Pairs that ended in the wrong order: the promise speaks of transactions that don't overlap."""
        found = []
        for key in {key for key, *_ in self.made.values()}:
            rows = [
                (self.ended[id_], id_, *rest)
                for id_, (of, *rest) in self.made.items()
                if of == key and self.ended.get(id_, float("nan")) == self.ended.get(id_)
            ]
            rows.sort(key=lambda each: each[0])
            for n, (_, early, began, _answered, place) in enumerate(rows):
                for _, late, began_2, answered_2, place_2 in rows[n + 1 :]:
                    if answered_2 < began or (began_2 == began and place_2 < place):
                        found.append((early, late))
        return found


@pytest.mark.slow
def test_under_everything_at_once_no_key_has_two_leases_or_another_order_and_nothing_is_stuck(committed: None) -> None:
    melee = Melee(seconds=6)
    with parties(ENQUEUERS + WORKERS + 2) as people:
        enqueuers = [people[n].start(melee.enqueue, random.Random(n)) for n in range(ENQUEUERS)]
        others = [people[ENQUEUERS + n].start(melee.work, random.Random(50 + n)) for n in range(WORKERS)]
        others += [people[-1 - n].start(melee.keep, random.Random(90 + n)) for n in range(2)]
        for each in enqueuers:
            each.result(timeout=60)
        melee.committed.set()
        for each in others:
            each.result(timeout=60)

    assert melee.twice == []
    assert melee.broken_pairs() == []
    assert count() == 0
    assert len(melee.made) > 100
    assert set(melee.made) - set(melee.ended) <= melee.asked
    assert add(1)  # the connection is whole
