"""Ordering keys: one head, nothing left behind, in order, whatever meets at the end of a head."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from djqueue.states import OnDead
from djqueue.store import db, lease, operate, ordering
from djqueue.store.claim import Claimed
from tests.interleavings.orders import Answers, Stage
from tests.interleavings.sound import assert_sound, place, places
from tests.interleavings.test_leases import in_a_transaction, reap
from tests.store.factories import bend, count, fail, lease_of, take, take_one
from tests.store.test_ordering import ack, drained, ordered, tick

Keyed = tuple[list[UUID], Claimed]


def key_of(many: int, **fields: Any) -> Callable[[], Keyed]:
    """A key with so many jobs, whose head a worker holds."""

    def arrange() -> Keyed:
        ids = [ordered(**fields) for _ in range(many)]
        tick()
        return ids, take_one()

    return arrange


def enqueue_next(_: Any) -> UUID:
    return in_a_transaction(ordered)  # type: ignore[no-any-return]


def drained_in_order(ids: list[UUID]) -> None:
    """All that is left comes out, in order, one at a time."""
    assert_sound(ids)
    left = [id_ for id_ in ids if places()[id_] not in ("succeeded", "cancelled", "dead")]
    assert drained() == left
    assert count("wake") == 0


def test_an_ack_and_an_enqueue_of_its_key(stage: Stage) -> None:
    """The new job is head or is let out; it never waits behind nobody."""

    def judge(world: Keyed, said: Answers) -> None:
        drained_in_order([*world[0], said["enqueue"]])

    actions = {"ack": lambda world: ack(world[1]), "enqueue": enqueue_next}
    assert stage.in_every_order(actions, key_of(1), judge) >= 10


def test_two_let_outs_and_the_end_of_the_head(stage: Stage) -> None:
    """The head's ack and a keeper's tick want to let out the same job."""

    def judge(world: Keyed, said: Answers) -> None:
        ids, _ = world
        assert place(ids[0]) == "succeeded"
        drained_in_order(ids)

    actions = {"ack": lambda world: ack(world[1]), "tick": lambda _: tick()}
    assert stage.in_every_order(actions, key_of(3), judge) >= 10


def test_two_ticks_let_out_one_job(stage: Stage) -> None:
    def arrange() -> list[UUID]:
        ids = [ordered() for _ in range(3)]
        operate.cancel("default", ids[:1])  # leaves a wake row, and no head
        return ids

    def judge(ids: list[UUID], said: Answers) -> None:
        assert said["one"] + said["two"] == 1
        drained_in_order(ids)

    actions = {"one": lambda _: one_turn(), "two": lambda _: one_turn()}
    assert stage.in_every_order(actions, arrange, judge) >= 20


def one_turn() -> int:
    return ordering.turn("default").let_out


@pytest.mark.parametrize("on_dead", list(OnDead))
def test_a_head_that_dies_and_the_next_enqueue(stage: Stage, on_dead: OnDead) -> None:
    """A dead head lets the next one out, or blocks its key: then nothing runs until the letter is requeued."""

    def judge(world: Keyed, said: Answers) -> None:
        ids = [*world[0], said["enqueue"]]
        assert place(ids[0]) == "dead"
        if on_dead is OnDead.BLOCK:
            assert drained() == []
            assert operate.requeue("default", ids[:1]).ids == ids[:1]
        drained_in_order(ids)

    actions = {
        "die": lambda world: in_a_transaction(lambda: fail(world[1], final=True)),
        "enqueue": lambda _: in_a_transaction(lambda: ordered(on_dead=on_dead)),
    }
    assert stage.in_every_order(actions, key_of(1, on_dead=on_dead), judge) >= 6


@pytest.mark.parametrize("end", ["release", "reap", "retry"])
def test_a_head_that_comes_back_keeps_its_place(stage: Stage, end: str) -> None:
    def come_back(world: Keyed) -> Any:
        match end:
            case "release":
                return in_a_transaction(lambda: lease.release("default", [lease_of(world[1])]))
            case "reap":
                return reap()
            case _:
                return in_a_transaction(lambda: fail(world[1]))

    def arrange() -> Keyed:
        world = key_of(2)()
        bend("lease_until = clock_timestamp() - interval '1 s'", world[1].id)
        return world

    def judge(world: Keyed, said: Answers) -> None:
        bend("suspect = false")
        drained_in_order([*world[0], said["enqueue"]])

    actions = {"back": come_back, "enqueue": enqueue_next}
    assert stage.in_every_order(actions, arrange, judge) >= 6


def test_a_cancel_of_the_next_job_and_the_end_of_the_head(stage: Stage) -> None:
    def judge(world: Keyed, said: Answers) -> None:
        ids, _ = world
        assert place(ids[1]) == "cancelled"
        drained_in_order(ids)

    def cancel(world: Keyed) -> Any:
        return in_a_transaction(lambda: operate.cancel("default", [world[0][1]]))

    actions = {"ack": lambda world: ack(world[1]), "cancel": cancel}
    assert stage.in_every_order(actions, key_of(3), judge) >= 10


def test_two_enqueuers_of_a_new_key_make_one_head(stage: Stage) -> None:
    """Neither waits for the other; where the first rolls back, the second is not left without a head."""

    def rolled_back(_: None) -> None:
        with transaction.atomic():
            ordered()
            transaction.set_rollback(True)

    def alone(_: None, said: Answers) -> None:
        assert drained() == [said["one"]]

    assert stage.in_every_order({"one": enqueue_next, "rolls back": rolled_back}, lambda: None, alone) >= 4

    def judge(_: None, said: Answers) -> None:
        found = db.rows("default", "select id from djqueue_job order by seq")
        assert {row[0] for row in found} == {said["one"], said["two"]}
        assert_sound([said["one"], said["two"]])
        tick()
        assert sorted(places().values()) == ["parked", "ready"]
        assert set(drained()) == {said["one"], said["two"]}

    assert stage.in_every_order({"one": enqueue_next, "two": enqueue_next}, lambda: None, judge) >= 4


def test_a_letter_requeued_into_its_key_and_an_enqueue(stage: Stage) -> None:
    """The older one first, where both are there at the let-out; never two at once."""

    def arrange() -> UUID:
        id_ = ordered()
        fail(take_one(), final=True)
        tick()
        return id_

    def judge(id_: UUID, said: Answers) -> None:
        assert_sound([id_, said["enqueue"]])
        assert set(drained()) == {id_, said["enqueue"]}

    actions = {
        "requeue": lambda id_: in_a_transaction(lambda: operate.requeue("default", [id_])),
        "enqueue": enqueue_next,
    }
    assert stage.in_every_order(actions, arrange, judge) >= 4


def test_a_claim_beside_the_let_out_never_runs_two_of_a_key(stage: Stage) -> None:
    def judge(world: Keyed, said: Answers) -> None:
        ids, _ = world
        assert [job.id for job in said["claim"]] in ([], ids[1:2])
        assert_sound(ids)
        ack(*said["claim"])
        drained_in_order(ids)

    actions = {"ack": lambda world: ack(world[1]), "claim": lambda _: in_a_transaction(lambda: take(2))}
    assert stage.in_every_order(actions, key_of(3), judge) >= 10
