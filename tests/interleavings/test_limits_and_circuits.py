"""Limits, rates and circuits: never one job more than may run, whoever claims at once."""

from typing import Any

import pytest

from djqueue.policy.circuit import Report
from djqueue.rates import Rate
from djqueue.store import circuits, lease, limits
from djqueue.store.claim import Claimed
from tests.interleavings.orders import Answers, Stage
from tests.interleavings.sound import assert_sound
from tests.interleavings.test_leases import in_a_transaction, reap
from tests.store.factories import ALIAS, ack, add, bend, count, lease_of, take_from
from tests.store.test_circuits import GATE, NAME, SETTINGS, circuit, half_open, meet
from tests.store.test_limits import KEY, PARTNER, limited, take_limited

LEASED = "state = 'leased'"


def held_at_limit() -> Claimed:
    """Three jobs of a key with limit 1, one of them running."""
    limited(3, most=1)
    [job] = take_limited()
    return job


def test_two_claims_behind_a_limit_of_one(stage: Stage) -> None:
    def arrange() -> None:
        ack(held_at_limit())

    def judge(_: None, said: Answers) -> None:
        assert_sound()
        assert len(said["one"]) + len(said["two"]) == count("job", LEASED) == 1

    actions = {"one": lambda _: take_limited(), "two": lambda _: take_limited()}
    assert stage.in_every_order(actions, arrange, judge) >= 10


@pytest.mark.parametrize("end", ["ack", "release", "reap"])
def test_an_end_and_two_claims_behind_a_limit_of_one(stage: Stage, end: str) -> None:
    """Room is made by the end's commit, and used once."""

    def arrange() -> Claimed:
        job = held_at_limit()
        bend("lease_until = clock_timestamp() - interval '1 s'", job.id)
        return job

    def finish(job: Claimed) -> Any:
        match end:
            case "ack":
                return in_a_transaction(lambda: ack(job))
            case "release":
                return in_a_transaction(lambda: lease.release(ALIAS, [lease_of(job)]))
            case _:
                return reap()

    def judge(_: Claimed, said: Answers) -> None:
        assert_sound()
        assert said["end"]
        assert len(said["claim"]) == count("job", LEASED) <= 1

    def claim_some(_: Claimed) -> list[Claimed]:
        return take_limited() + (take_limited() if end == "ack" else [])

    assert stage.in_every_order({"end": finish, "claim": claim_some}, arrange, judge) >= 10


def test_two_claims_of_a_rate_take_its_tokens_once(stage: Stage) -> None:
    """The bucket holds two tokens and gets none in the time of the story."""

    def arrange() -> None:
        limited(6, lane=PARTNER, rate=0.0001, burst=2)
        limits.make(ALIAS, "q", [(PARTNER, PARTNER)])

    def judge(_: None, said: Answers) -> None:
        assert_sound()
        assert len(said["one"]) + len(said["two"]) == 2

    actions = {"one": lambda _: take_limited(), "two": lambda _: take_limited()}
    assert stage.in_every_order(actions, arrange, judge) >= 10


def test_the_first_claims_of_a_key_make_its_limiter_and_keep_to_it(stage: Stage) -> None:
    """Of those who make it at once one does; the other waits for him, and finds it."""

    def judge(_: None, said: Answers) -> None:
        assert_sound()
        assert len(said["one"]) + len(said["two"]) == count("job", LEASED) <= 1
        assert count("limiter") == 1
        take_limited()
        assert count("job", LEASED) == 1

    def make_and_claim(_: None) -> list[Claimed]:
        limits.make(ALIAS, "q", [(KEY, KEY)])
        return take_limited()

    actions = {"one": make_and_claim, "two": make_and_claim}
    assert stage.in_every_order(actions, lambda: limited(3, most=1), judge) >= 20


def test_a_limit_that_is_lowered_counts_from_the_next_claim_on(stage: Stage) -> None:
    def arrange() -> None:
        limited(4, most=2)
        limits.make(ALIAS, "q", [(KEY, KEY)])

    def lower(_: None) -> None:
        in_a_transaction(lambda: limits.set_limit(ALIAS, KEY, running=1, rate=Rate(per_second=100, burst=100)))

    def judge(_: None, said: Answers) -> None:
        assert_sound()
        assert count("job", LEASED) in (0, 1, 2)  # none: the limiter was being changed, and is left alone
        take_limited()
        assert count("job", LEASED) == max(1, len(said["claim"]))

    assert stage.in_every_order({"lower": lower, "claim": lambda _: take_limited()}, arrange, judge) >= 4


def test_two_workers_that_probe_a_half_open_circuit_start_no_more_than_its_probes(stage: Stage) -> None:
    claimed: dict[str, list[Claimed]] = {}

    def arrange() -> None:
        half_open()
        add(4, lane=GATE)
        for name in ("w1", "w2"):
            claimed[name] = take_from([("q", GATE)], 2, worker_id=name)

    def probe(worker_id: str) -> Any:
        def act(_: None) -> int:
            jobs = claimed[worker_id]
            allowed, _view = circuits.admit(ALIAS, NAME, [lease_of(job) for job in jobs], SETTINGS)
            lease.release(ALIAS, [lease_of(job) for job in jobs[allowed:]])
            return allowed

        return act

    def judge(_: None, said: Answers) -> None:
        assert_sound()
        assert said["one"] + said["two"] == count("job", LEASED) <= SETTINGS[NAME].probes
        assert said["one"] or said["two"]

    assert stage.in_every_order({"one": probe("w1"), "two": probe("w2")}, arrange, judge) >= 20


def test_reports_of_two_workers_open_a_circuit_once(stage: Stage) -> None:
    def report(_: None) -> Any:
        return circuits.report(ALIAS, NAME, [Report(term=0, failures=2, streak=2)], SETTINGS)

    def judge(_: None, said: Answers) -> None:
        assert circuit("state, term, failures, opened") == ("open", 1, 4, 1)
        assert count("lane") == 1

    assert stage.in_every_order({"one": report, "two": report}, meet, judge) >= 4
