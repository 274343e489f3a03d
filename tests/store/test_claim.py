"""Claim: the right jobs in the right order, never more than asked for, never one twice."""

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from uuid import UUID

import psycopg
import pytest

from djqueue.store import claim, db, finish, lease, step
from djqueue.store.claim import Claimed, Place
from djqueue.store.lanes import Walk
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
    ids_of,
    lease_of,
    request,
    row,
    take,
    take_at,
    take_from,
    take_one,
)

FROM_THE_START = float("-inf")


def place(queue: str = "q", lane: str = "", priority: int = 0, mark: float = FROM_THE_START) -> Place:
    return Place(queue, lane, priority, mark)


def test_a_claim_writes_who_holds_the_job_and_until_when(store: str) -> None:
    one = add_one()

    take_one(worker_id="w7", lease_seconds=90)

    assert row(
        one,
        "state, attempts, leased_by, worker_ids, started_at, "
        "lease_until between clock_timestamp() + '80 s' and clock_timestamp() + '90 s'",
    ) == ("leased", 1, "w7", ["w7"], None, True)


def test_a_claim_returns_all_that_running_the_job_needs(store: str) -> None:
    one = add_one(
        lane="l",
        task_name="shop.tasks.send",
        args='{"args": [1]}',
        options='{"tags": []}',
        priority=4,
        max_attempts=5,
        timeout_seconds=None,
    )
    bend("interruptions = 2, runs = 3, attempts = 1, errors = '[{\"attempt\": 1}]'")

    job = take_one(lane="l")

    assert job == Claimed(
        id=one,
        lease_token=row(one, "lease_token"),
        attempts=2,
        max_attempts=5,
        queue_name="q",
        lane="l",
        priority=4,
        run_at=row(one, "extract(epoch from run_at)::float8"),
        task_name="shop.tasks.send",
        timeout_seconds=None,
        interruptions=2,
        runs=3,
        suspect=False,
        created_at=row(one, "extract(epoch from created_at)::float8"),
        args='{"args": [1]}',
        errors='[{"attempt": 1}]',
        options='{"tags": []}',
        seq=row(one, "seq"),
    )


def test_only_ready_jobs_of_the_lane_that_are_no_suspects_are_claimed(store: str) -> None:
    scheduled, parked, suspect, leased, wanted = add(5)
    bend("state = 'scheduled'", scheduled)
    bend("state = 'parked'", parked)
    bend("suspect = true", suspect)
    bend("state = 'leased', leased_by = 'w2', lease_until = now()", leased)
    add_one(queue_name="other")
    add_one(lane="other")

    assert ids_of(take(9)) == [wanted]
    assert take_at([place()], 9) == []


def test_r18_higher_priority_first_then_run_at_then_seq(store: str) -> None:
    """Also in what is returned: an UPDATE returns rows as they lie in the table."""
    low, late, early, early_too, high = (add_one(priority=p) for p in (-1, 0, 0, 0, 1))
    for one in (early, early_too):
        bend("run_at = run_at - interval '1 h'", one)
    bend("run_at = '2020-01-01'", early)
    bend("run_at = '2020-01-01'", early_too)

    assert ids_of(take(9)) == [high, early, early_too, late, low]


@pytest.mark.parametrize("n", range(1, 5))
def test_r18_what_is_left_out_of_a_short_claim_comes_last_in_order(store: str, n: int) -> None:
    """The others come in the way of a plan that takes them as they were enqueued."""
    order = [add_one(priority=p) for p in (0, 1, 2, 3)][::-1]

    assert ids_of(take(n)) == order[:n]


def test_r18_a_run_at_far_in_the_past_does_not_jump_priorities(store: str) -> None:
    ancient = add_one(run_at=YEAR_1)
    high = add_one(priority=1)

    jobs = take(2)

    assert ids_of(jobs) == [high, ancient]
    assert take_at([place(mark=jobs[1].run_at - 0.25)]) == []


def test_r18_marks_work_at_both_ends_of_the_calendar(store: str) -> None:
    ancient, far = add(2)
    bend("run_at = '-infinity'", ancient)
    bend("run_at = '9999-12-31'", far)

    [first] = take_at([place()])
    [second] = take_at([place(mark=first.run_at)])

    assert (first.id, second.id) == (ancient, far)
    assert take_at([place(mark=second.run_at)]) == []


def test_r18_year_9999_waits_and_harms_nobody(store: str) -> None:
    add_one(run_at=YEAR_9999, priority=100)
    wanted = add_one()

    assert ids_of(take(9)) == [wanted]


def test_the_everyday_form_starts_at_its_mark_and_the_full_form_finds_what_lies_before(store: str) -> None:
    old, new = add(2)
    bend("run_at = now() - interval '1 h'", old)
    mark = row(new, "extract(epoch from run_at)::float8") - 0.25

    assert ids_of(take_at([place(mark=mark)], 9)) == [new]
    assert ids_of(take(9)) == [old]


def test_places_are_served_in_their_order_and_fill_one_batch(store: str) -> None:
    for queue in ("a", "b", "c"):
        add(3, queue_name=queue)

    jobs = take_at([place("c"), place("a"), place("b")], 5)

    assert Counter(job.queue_name for job in jobs) == {"c": 3, "a": 2}


def test_lanes_of_the_full_form_are_served_in_their_order(store: str) -> None:
    for lane in ("x", "y"):
        add(3, lane=lane)

    assert Counter(job.lane for job in take_from([("q", "y"), ("q", "x")], 4)) == {"y": 3, "x": 1}


def test_a_place_named_twice_is_claimed_once(store: str) -> None:
    [one] = add()

    assert ids_of(take_at([place(), place()], 5)) == [one]


def test_tasks_left_out_by_name_stay_ready(store: str) -> None:
    stranger, known = add_one(task_name="new"), add_one(task_name="old")

    assert ids_of(take(9, strangers=["new", "newer"])) == [known]
    assert row(stranger) == "ready"


def test_a_claim_in_the_callers_transaction_takes_what_its_queues_hold(store: str) -> None:
    high, low = add_one(queue_name="a"), add_one(queue_name="b", priority=-1)
    add_one(queue_name="c")

    assert ids_of(step.claim_now(ALIAS, request(9), ["b", "a"])) == [high, low]
    assert step.claim_now(ALIAS, request(9), []) == []


# ------------------------------------------------------------------------------------------------ limits


Form = Callable[..., list[Claimed]]


def full(limit: int, **fields: int) -> list[Claimed]:
    return take(limit, **fields)


def everyday(limit: int, **fields: int) -> list[Claimed]:
    return take_at([place(), place("q", "", 1), place("r")], limit, **fields)


def stepping(limit: int, **fields: int) -> list[Claimed]:
    return step.step(ALIAS, request(limit, **fields), Walk(queue_name="q", per_lane=limit)).jobs


forms = pytest.mark.parametrize("form", [full, everyday, stepping])


@forms
@pytest.mark.parametrize(
    "off",
    [
        ("hashjoin", "mergejoin", "material", "memoize"),
        ("nestloop", "hashjoin"),
        ("nestloop", "mergejoin"),
        ("tidscan",),
        ("tidscan", "hashjoin", "mergejoin", "material"),
        ("indexscan", "indexonlyscan", "bitmapscan"),
        ("seqscan",),
        ("sort",),
    ],
    ids="+".join,
)
def test_r18_no_plan_takes_more_than_asked_for(store: str, form: Form, off: list[str]) -> None:
    add(60)
    for what in off:
        db.rows(ALIAS, f"set local enable_{what} = off")

    for plans in ("force_custom_plan", "force_generic_plan"):
        db.rows(ALIAS, f"set local plan_cache_mode = {plans}")
        jobs = form(7)

        assert len(jobs) == 7
        assert count(where="state = 'leased'") == 7
        lease.release(ALIAS, [lease_of(job) for job in jobs])


@forms
@pytest.mark.parametrize("free", [0, 1, 3])
def test_jobs_on_their_last_attempt_are_taken_only_for_free_slots(store: str, form: Form, free: int) -> None:
    last = [add_one(max_attempts=1 + n % 2) for n in range(4)]
    bend("attempts = 1", last[1])
    bend("attempts = 1", last[3])
    others = add(3, max_attempts=2)

    jobs = form(10, free=free)

    assert [job.id for job in jobs if job.attempts == job.max_attempts] == last[:free]
    assert [job.id for job in jobs if job.attempts < job.max_attempts] == others


# ------------------------------------------------------------------------------------------------ tokens


def test_r1_every_claim_mints_a_greater_token(store: str) -> None:
    add_one()
    tokens = []
    for _ in range(5):
        job = take_one()
        tokens.append(job.lease_token)
        lease.release(ALIAS, [lease_of(job)])

    assert tokens == sorted(set(tokens))


def test_r1_a_token_ahead_of_the_clock_still_grows(store: str) -> None:
    """The clock may have been set back, or the job has come from a server whose clock was ahead."""
    add_one()
    bend(f"lease_token = {2**62}")

    assert take_one().lease_token == 2**62 + 1


# ------------------------------------------------------------------------------------------------ suspects


def test_suspects_are_claimed_one_at_a_time_the_oldest_first(store: str) -> None:
    ids = [*add(3), add_one(queue_name="other")]
    bend("suspect = true")
    bend("run_at = run_at - interval '1 h'", ids[2])

    [job] = claim.claim_suspect(ALIAS, request(9), ["q"])

    assert (job.id, job.suspect, job.attempts) == (ids[2], True, 1)
    assert claim.claim_suspect(ALIAS, request(9), ["none"]) == []
    assert claim.claim_suspect(ALIAS, request(9, strangers=["t"]), ["q"]) == []


def test_suspects_that_wait_are_told_with_their_queues(store: str) -> None:
    add_one()
    assert (claim.suspects_wait(ALIAS), claim.suspect_queues(ALIAS)) == (False, [])
    add(2, queue_name="b")
    bend("suspect = true")

    assert claim.suspects_wait(ALIAS)
    assert sorted(claim.suspect_queues(ALIAS)) == ["b", "q"]


def test_queues_with_jobs_are_those_with_claimable_ones(store: str) -> None:
    add(2, queue_name="b")
    add(2, queue_name="a")
    add(2, queue_name="later", delay_seconds=60)

    assert claim.queues_with_jobs(ALIAS) == ["a", "b"]


# ------------------------------------------------------------------------------------------------ races


@forms
def test_a_job_that_somebody_is_claiming_is_skipped_not_waited_for(committed: None, other: Party, form: Form) -> None:
    first, second = add(2)
    other.begin()
    assert ids_of(other.do(take)) == [first]

    db.rows(ALIAS, "set lock_timeout = '2s'")
    assert ids_of(form(5)) == [second]
    other.rollback()
    assert ids_of(form(5)) == [first]


@pytest.mark.slow
def test_no_job_is_claimed_twice_by_many_workers(committed: None) -> None:
    ids = add(600)

    def work(number: int) -> list[UUID]:
        rng, mine = random.Random(number), []
        db.adopt(ALIAS, prepared=True)
        while jobs := take(rng.choice((1, 3, 10)), worker_id=f"w{number}"):
            mine += ids_of(jobs)
        return mine

    claimed = [one for found in all_at_once([partial(work, n) for n in range(6)]) for one in found]

    assert sorted(claimed) == sorted(ids)


@pytest.mark.slow
def test_r1_no_token_is_given_twice_while_jobs_come_and_go(committed: None) -> None:
    add(5)

    def work(number: int) -> list[tuple[UUID, int]]:
        rng, mine = random.Random(number), []
        for _ in range(80):
            for job in take(rng.choice((1, 2))):
                mine.append((job.id, job.lease_token))
                fail(job) if rng.random() < 0.02 else lease.release(ALIAS, [lease_of(job)])
        return mine

    tokens = [pair for found in all_at_once([partial(work, n) for n in range(6)]) for pair in found]

    assert len(tokens) > 100
    assert len(set(tokens)) == len(tokens)


# ------------------------------------------------------------------------------------------------ pipeline


def test_an_ack_and_the_next_claim_are_one_pipelined_transaction(adopted: None, other: Party) -> None:
    first, second = add(2)
    job = take_one()

    with db.together(ALIAS):
        done = finish.start_ack(ALIAS, [finish.Ack(job.id, job.lease_token, 10.0, 11.0, "null")], 12.0)
        jobs = claim.start_full_claim(ALIAS, request(), [("q", "")])
        seen = other.do(count, "history")

    assert seen == 0
    assert finish.acked(done) == {first}
    assert ids_of(claim.claimed(jobs)) == [second]
    assert row(first, "round(extract(epoch from finished_at - started_at))", "history") == 1


def test_an_error_in_a_pipeline_undoes_the_whole_of_it_and_leaves_the_connection_usable(adopted: None) -> None:
    [one] = add()
    job = take_one()

    with pytest.raises(psycopg.Error), db.together(ALIAS):
        finish.start_ack(ALIAS, [finish.Ack(job.id, job.lease_token, 10.0, 11.0, "null")], 12.0)
        db.execute(ALIAS, "select 1 / 0")

    assert row(one) == "leased"
    assert ack(job) == {one}
