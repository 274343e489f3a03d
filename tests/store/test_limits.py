"""Hard limits: never exceeded, whoever claims at once; nothing leaks; `blocked_by` says what a claim does."""

import json
import random
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from djqueue.policy.gates import Gate, gate, queue_gate
from djqueue.rates import Rate
from djqueue.store import db, lease, limits, step
from djqueue.store.claim import Claimed
from djqueue.store.lanes import BEYOND_THE_EMPTY_LANE, Walk
from djqueue.store.limits import Declared, Why
from tests.store.factories import ALIAS, Party, ack, add, all_at_once, bend, count, lease_of, request

KEY = limits.of_key("a")
OTHER = limits.of_key("b")
PARTNER = limits.of_rate("partner")
TENANT = gate(Gate.TENANT, "t")


def limited(count: int = 1, *, lane: str = KEY, queue: str = "q", most: int | None = None, **rate: float) -> None:
    """Jobs behind a limiter, as the backend writes them."""
    said = {"k": {"label": "key a", "most": most}, "r": {"label": "key partner", **rate}}
    tenant = "t" if TENANT in lane else ""
    add(count, lane=lane, tenant_id=tenant, queue_name=queue, options=json.dumps({"limits": said}))


def take_limited(
    limit: int = 9, *, queue: str = "q", per_lane: int = 9, free: int | None = None, **walk: Any
) -> list[Claimed]:
    """Claim under locks."""
    way = Walk(queue_name=queue, per_lane=per_lane, **walk)
    return step.step(ALIAS, request(limit, free=limit if free is None else free), way, limited=True).jobs


# ------------------------------------------------------------------------------------------------ concurrency


def test_no_more_jobs_of_a_key_run_than_its_limit_and_an_end_makes_room(store: str) -> None:
    limited(5, most=2)

    first = take_limited()
    assert len(first) == 2
    assert take_limited() == []
    ack(first[0])
    assert len(take_limited()) == 1


def test_a_limit_holds_over_all_queues_and_lanes_that_share_the_key(store: str) -> None:
    for lane in (KEY, f"{gate(Gate.CIRCUIT, 'c')}:{KEY}", f"{KEY}:{TENANT}"):
        limited(3, lane=lane, most=4)
        limited(3, lane=lane, most=4, queue="r")

    assert len(take_limited(queue="r")) == 4
    assert take_limited() == []


def test_each_key_has_a_limit_of_its_own(store: str) -> None:
    limited(3, most=1)
    limited(3, most=2, lane=OTHER)

    assert Counter(job.lane for job in take_limited(20)) == {KEY: 1, OTHER: 2}


@pytest.mark.parametrize("end", ["release", "reap"])
def test_whatever_ends_a_lease_makes_room(store: str, end: str) -> None:
    limited(2, most=1)
    [job] = take_limited()

    if end == "release":
        lease.release(ALIAS, [lease_of(job)])
    else:
        bend("state = 'ready', lease_until = null, leased_by = null, attempts = 0", job.id)

    assert len(take_limited()) == 1


def test_a_claim_without_locks_takes_nothing_from_behind_a_limiter_and_says_that_it_met_one(store: str) -> None:
    limited(3, most=5)
    add(1, lane=TENANT)

    walked = step.step(ALIAS, request(9), Walk(queue_name="q", per_lane=9))

    assert [job.lane for job in walked.jobs] == [TENANT]
    assert walked.met_limits


def test_limited_jobs_are_taken_for_free_slots_only_others_ahead_of_them(store: str) -> None:
    limited(5, most=9)
    add(4, lane=TENANT)
    limits.make(ALIAS, "q", [(KEY, KEY)])

    assert Counter(job.lane for job in take_limited(20, free=2)) == {KEY: 2, TENANT: 4}


def test_a_limiter_that_somebody_holds_is_left_to_him_not_waited_for(committed: None, other: Party) -> None:
    limited(3, most=3)
    limited(1, most=1, lane=OTHER)
    take_limited(1, per_lane=1)  # makes the first limiter
    take_limited(1, per_lane=1, from_lane=max(KEY, OTHER))
    other.begin()
    other.do(partial(db.rows, ALIAS, "select from djqueue_limiter where name = %s for no key update", [KEY]))

    db.rows(ALIAS, "set lock_timeout = '2s'")
    assert {job.lane for job in take_limited()} <= {OTHER}
    other.rollback()
    assert {job.lane for job in take_limited()} == {KEY}


def test_people_change_a_limit_at_run_time_and_take_their_word_back(store: str) -> None:
    limited(9, most=1)
    assert len(take_limited()) == 1

    limits.set_limit(ALIAS, KEY, running=4)
    assert len(take_limited()) == 3
    limits.set_limit(ALIAS, KEY, running=0)
    assert take_limited() == []
    limits.set_limit(ALIAS, KEY)
    assert take_limited() == []  # the declared 1 of which 4 run


def test_code_that_declares_another_limit_changes_all_limiters_of_its_task(store: str) -> None:
    limited(9, most=1)
    limited(9, most=1, lane=OTHER)
    assert len(take_limited(20)) == 2

    limits.declare(ALIAS, [Declared(task_name="t", running=3), Declared(task_name="another", running=7)])

    assert len(take_limited(20)) == 4


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 3])
def test_a_limit_is_never_exceeded_by_many_workers_at_once(committed: None, most: int) -> None:
    """Counted by the threads themselves: a job runs from the claim's answer to before its end is sent."""
    limited(150, most=most)
    limited(150, most=most, lane=f"{KEY}:{TENANT}", queue="r")
    guard, running, peak = threading.Lock(), [0], [0]

    def note(change: int) -> None:
        with guard:
            running[0] += change
            peak[0] = max(peak[0], running[0])

    def work(number: int) -> int:
        rng, done = random.Random(number), 0
        while count(where="state = 'ready'"):
            jobs = take_limited(rng.choice((1, 2, 5)), queue=rng.choice("qr"), per_lane=rng.choice((1, 5)))
            note(len(jobs))
            note(-len(jobs))
            for job in jobs:
                ack(job)
            done += len(jobs)
        return done

    def count_leased(_: int) -> int:
        return max(count(where="state = 'leased'") for _ in range(200))

    found = all_at_once([*(partial(work, n) for n in range(5)), partial(count_leased, 0)])

    assert sum(found[:-1]) == 300
    assert peak[0] <= most
    assert found[-1] <= most


# ------------------------------------------------------------------------------------------------ rates


def test_a_rate_lets_its_burst_through_and_then_what_has_come_in(store: str) -> None:
    limited(20, lane=PARTNER, rate=0.001, burst=3)

    assert len(take_limited()) == 3
    assert take_limited() == []
    db.rows(ALIAS, "update djqueue_limiter set filled_at = filled_at - interval '2000 s'")
    assert len(take_limited()) == 2
    db.rows(ALIAS, "update djqueue_limiter set filled_at = filled_at - interval '1 year'")
    assert len(take_limited()) == 3


def test_lanes_that_share_a_rate_get_no_more_together_than_there_is(store: str) -> None:
    for n in range(6):
        limited(2, lane=f"{PARTNER}:{gate(Gate.TENANT, str(n))}", rate=0.001, burst=4)

    assert len(take_limited(per_lane=2)) == 4
    assert take_limited() == []


def test_a_released_job_has_used_its_token(store: str) -> None:
    """It may have reached the partner."""
    limited(1, lane=PARTNER, rate=0.001, burst=1)
    [job] = take_limited()
    lease.release(ALIAS, [lease_of(job)])

    assert take_limited() == []


def test_a_clock_that_was_set_back_neither_blocks_nor_takes_tokens_away(store: str) -> None:
    limited(9, lane=PARTNER, rate=0.001, burst=4)
    assert len(take_limited(2)) == 2
    db.rows(ALIAS, "update djqueue_limiter set filled_at = filled_at + interval '1 year'")

    assert len(take_limited()) == 2


def test_a_paused_limit_lets_nothing_through_until_the_longest_moment_said(store: str) -> None:
    limited(3, lane=PARTNER, rate=100, burst=9)
    assert len(take_limited(1)) == 1

    assert limits.pause(ALIAS, [PARTNER], seconds=60, reason="429") == [PARTNER]
    assert limits.pause(ALIAS, [PARTNER], seconds=1) == []
    assert limits.pause(ALIAS, [PARTNER], until=datetime.now(UTC) + timedelta(hours=1), reason="429") == [PARTNER]
    assert take_limited() == []
    assert limits.resume(ALIAS, [PARTNER]) == [PARTNER]
    assert len(take_limited()) == 2


# ------------------------------------------------------------------------------------------------ queues


def test_a_queue_with_a_limit_gives_no_more_whatever_the_lanes(store: str) -> None:
    limits.declare_queue(ALIAS, "q", 3, None)
    add(5)
    add(5, lane=TENANT)
    whole = {"queue_gate": queue_gate("q")}

    assert len(take_limited(per_lane=2, **whole)) == 3
    assert take_limited(**whole) == []
    assert take_limited(from_lane=BEYOND_THE_EMPTY_LANE, **whole) == []


def test_a_queue_with_a_rate_starts_no_more_than_that(store: str) -> None:
    limits.declare_queue(ALIAS, "q", None, Rate.parse("1/h", burst=2))
    add(5)

    assert len(take_limited(queue_gate=queue_gate("q"))) == 2
    assert take_limited(queue_gate=queue_gate("q")) == []


def test_a_queue_whose_limits_were_taken_back_is_free_again(store: str) -> None:
    limits.declare_queue(ALIAS, "q", 1, None)
    limits.declare_queue(ALIAS, "q", None, None)
    limits.declare_queue(ALIAS, "never", None, None)
    add(5)

    assert count("limiter") == 1
    assert len(take_limited(queue_gate=queue_gate("q"))) == 5


def test_a_lane_that_was_emptied_before_its_limiter_was_made_leaves_no_limiter_without_a_limit(store: str) -> None:
    limits.make(ALIAS, "q", [(KEY, KEY)])
    limited(3, most=1)

    assert len([job for _ in range(3) for job in take_limited()]) == 1


# ------------------------------------------------------------------------------------------------ suspects


def take_suspect(**walk: Any) -> list[Claimed]:
    return step.claim_suspect(ALIAS, request(1), Walk(queue_name="q", **walk))


def test_suspects_keep_to_the_limits_as_well(store: str) -> None:
    limited(3, most=2)
    limited(3, lane=PARTNER, rate=0.001, burst=2)
    assert len(take_limited(20)) == 4
    bend("state = 'ready', suspect = true, lease_until = null, leased_by = null")

    taken = [job.lane for _ in range(9) for job in take_suspect()]

    assert taken == [KEY, KEY]  # the bucket is empty
    db.rows(ALIAS, "update djqueue_limiter set tokens = 1")
    assert [job.lane for _ in range(9) for job in take_suspect()] == [PARTNER]


def test_a_suspect_whose_limiters_were_forgotten_meanwhile_is_claimed_within_its_limits(store: str) -> None:
    limited(2, lane=f"{PARTNER}:{KEY}", most=1, rate=100, burst=9)
    bend("suspect = true")

    assert len([job for _ in range(3) for job in take_suspect()]) == 1
    assert db.rows(ALIAS, "select declared_running from djqueue_limiter where name = %s", [KEY])[0][0] == 1


def test_suspects_of_a_limited_queue_and_behind_closed_gates_wait(store: str) -> None:
    add(2)
    add(1, lane=gate(Gate.CIRCUIT, "c"))
    bend("suspect = true")
    db.rows(
        ALIAS,
        "insert into djqueue_lane (queue_name, lane, closed_until) values ('', %s, 'infinity')",
        [gate(Gate.CIRCUIT, "c")],
    )
    limits.declare_queue(ALIAS, "q", 1, None)

    assert len([job for _ in range(3) for job in take_suspect(queue_gate=queue_gate("q"))]) == 1
    assert len([job for _ in range(3) for job in take_suspect()]) == 1


# ------------------------------------------------------------------------------------------------ tenants' caps


def test_a_tenant_runs_no_more_than_its_cap(store: str) -> None:
    mine, other = gate(Gate.TENANT, "mine"), gate(Gate.TENANT, "other")
    add(9, lane=mine, tenant_id="mine")
    add(9, lane=other, tenant_id="other")
    db.rows(
        ALIAS,
        "insert into djqueue_tenant (queue_name, tenant_id, gate, max_running) values ('q', 'mine', %s, 1)",
        [mine],
    )

    taken = take_limited(20, has_caps=True, tenant_cap=3)

    assert Counter(job.lane for job in taken) == {mine: 1, other: 3}
    assert take_limited(20, has_caps=True, tenant_cap=3) == []
    assert len(take_limited(20, has_caps=True)) == 6  # no cap for those without one of their own


# ------------------------------------------------------------------------------------------------ blocked_by


def why(lane: str = KEY, queue: str = "q", **more: Any) -> list[tuple[Why, int | None, int | None]]:
    found = limits.blocked_by(ALIAS, queue_name=queue, lane=lane, **more)
    return [(block.why, block.running, block.most) for block in found]


def test_blocked_by_names_each_limit_that_holds_a_lane_back(store: str) -> None:
    lane = f"{gate(Gate.CIRCUIT, 'c')}:{PARTNER}:{KEY}:{TENANT}"
    limited(9, lane=lane, most=2, rate=0.001, burst=2)
    limits.declare_queue(ALIAS, "q", 2, None)
    assert why(lane, tenant_cap=2) == []

    assert len(take_limited()) == 2

    assert set(why(lane, tenant_cap=2)) == {
        (Why.RUNNING, 2, 2),  # the key's and the queue's
        (Why.RATE, 0, None),
        (Why.CAPPED, 2, 2),
    }
    assert why("", "another") == []
    [rate] = [block for block in limits.blocked_by(ALIAS, queue_name="q", lane=lane) if block.why is Why.RATE]
    assert rate.until is not None
    assert timedelta(seconds=900) < rate.until - datetime.now(UTC) < timedelta(seconds=1100)


def test_blocked_by_tells_closed_gates_and_pauses_with_their_ends(store: str) -> None:
    lane = f"{gate(Gate.CIRCUIT, 'c')}:{PARTNER}"
    limited(1, lane=lane, rate=100, burst=9)
    limits.make(ALIAS, "q", [(PARTNER, lane)])
    limits.pause(ALIAS, [PARTNER], seconds=60, reason="429")
    db.rows(
        ALIAS,
        "insert into djqueue_lane (queue_name, lane, closed_until, reason) values ('', %s, '9000-01-01', 'open')",
        [gate(Gate.CIRCUIT, "c")],
    )

    found = {block.why: block for block in limits.blocked_by(ALIAS, queue_name="q", lane=lane)}

    assert set(found) == {Why.CLOSED, Why.PAUSED}
    assert found[Why.CLOSED].label == "open"
    assert found[Why.PAUSED].until is not None


def test_blocked_by_says_nothing_exactly_when_a_claim_takes_the_job(store: str) -> None:
    """At random, over all kinds of limits."""
    rng = random.Random(7)
    for _ in range(60):
        for table in ("job", "limiter", "lane", "tenant"):
            db.rows(ALIAS, f"delete from djqueue_{table}")
        lane = ":".join(each for each in (gate(Gate.CIRCUIT, "c"), PARTNER, KEY, TENANT) if rng.random() < 0.6)
        limited(4, lane=lane, most=rng.choice((1, 2, None)), rate=0.001, burst=rng.choice((1, 2)))
        limits.declare_queue(ALIAS, "q", rng.choice((2, 9)), None)
        if rng.random() < 0.2:
            db.rows(
                ALIAS,
                "insert into djqueue_lane (queue_name, lane, closed_until) values (%s, %s, 'infinity')",
                [rng.choice(("q", "", "r")), gate(Gate.CIRCUIT, "c")],
            )
        caps = {"tenant_cap": rng.choice((1, 2, None))}
        for _ in range(3):
            held = limits.blocked_by(ALIAS, queue_name="q", lane=lane, **caps)
            taken = take_limited(1, per_lane=1, queue_gate=queue_gate("q"), has_caps=True, **caps)
            assert bool(taken) == (held == []), (lane, held)


def test_limiters_of_keys_that_nobody_uses_are_forgotten(store: str) -> None:
    limited(1, most=1)
    limited(1, lane=PARTNER, rate=1, burst=1)
    assert len(take_limited(20)) == 2
    limits.declare_queue(ALIAS, "q", 3, None)
    limits.set_limit(ALIAS, OTHER, running=3)
    assert limits.forget(ALIAS) == 0

    db.rows(
        ALIAS, "update djqueue_limiter set made_at = now() - interval '2 days', filled_at = now() - interval '2 days'"
    )
    assert limits.forget(ALIAS) == 1  # the rate's: the key's is in use, the others were said by people
    db.rows(ALIAS, "delete from djqueue_job")
    assert limits.forget(ALIAS) == 1
    assert count("limiter") == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"seconds": 1e300}, "pause: seconds: expected between 0 and 315,360,000"),
        ({"seconds": -1}, "pause: seconds: expected between 0"),
        ({"seconds": float("nan")}, "pause: seconds: expected between 0"),
        ({"seconds": 1, "reason": "a\0"}, "pause: reason: expected text without NUL"),
        ({"seconds": 1, "reason": "\ud800"}, "pause: reason: expected valid Unicode"),
    ],
)
@pytest.mark.parametrize("pause", [limits.pause, limits.pause_apart])
def test_a_pause_that_can_not_be_stored_is_refused(pause: Any, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        pause(ALIAS, [KEY], **given)
