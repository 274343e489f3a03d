"""People and workers at the same job: cancel, requeue, discard, retry now (R20)."""

from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from djqueue.store import enqueue, lease, letters, operate, recover, replay
from djqueue.store.claim import Claimed
from djqueue.store.letters import EditAnswer, Letters
from djqueue.store.operate import CancelAnswer, Requeued
from djqueue.store.replay import Wanted
from tests.interleavings.orders import Answers, Stage
from tests.interleavings.sound import assert_sound, place, places
from tests.interleavings.test_leases import expired, in_a_transaction, reap
from tests.store.factories import ALIAS, ack, add_one, bend, fail, lease_of, new_job, row, take, take_one


def cancel(id_: UUID) -> CancelAnswer:
    return in_a_transaction(lambda: operate.cancel(ALIAS, [id_])[id_])  # type: ignore[no-any-return]


def held() -> Claimed:
    add_one()
    return take_one()


def letter(**fields: Any) -> UUID:
    """A job that died."""
    id_ = add_one(**fields)
    fail(take_one(), final=True)
    return id_


def test_a_claim_and_a_cancel(stage: Stage) -> None:
    def judge(id_: UUID, said: Answers) -> None:
        assert_sound([id_])
        if said["cancel"] is CancelAnswer.ASKED:
            assert len(said["claim"]) == 1
            assert row(id_, "state, cancel_requested_at is not null") == ("leased", True)
        else:
            assert (said["cancel"], said["claim"], place(id_)) == (CancelAnswer.CANCELLED, [], "cancelled")

    actions = {"claim": lambda _: in_a_transaction(lambda: take(1)), "cancel": cancel}
    assert stage.in_every_order(actions, add_one, judge) >= 4


@pytest.mark.parametrize("end", ["ack", "fail", "release", "snooze", "reap"])
def test_an_end_and_a_cancel(stage: Stage, end: str) -> None:
    """Nobody who was told `asked` or `cancelled` sees the job run again; one that had succeeded stays so."""

    def finish_it(job: Claimed) -> Any:
        match end:
            case "ack":
                return ack(job)
            case "fail":
                return fail(job, delay_seconds=60)
            case "release":
                return lease.release(ALIAS, [lease_of(job)])
            case "snooze":
                return lease.snooze(ALIAS, [lease_of(job)], [60])
            case _:
                return reap()

    def judge(job: Claimed, said: Answers) -> None:
        assert_sound([job.id])
        if end == "ack":
            assert said["end"] == {job.id}
            assert place(job.id) == "succeeded"
            assert said["cancel"] in (CancelAnswer.ASKED, CancelAnswer.GONE)
        elif end == "snooze" and said["cancel"] is CancelAnswer.ASKED:
            assert said["end"] == set()  # the worker then ends it as cancelled
            assert row(job.id, "state, cancel_requested_at is not null") == ("leased", True)
        else:
            if end == "reap" and not said["end"]:
                assert said["cancel"] is CancelAnswer.ASKED  # the reaper passed over a locked row, and comes again
                assert reap() == 1
            assert place(job.id) == "cancelled"

    arrange = expired if end == "reap" else held
    actions = {"end": lambda job: in_a_transaction(lambda: finish_it(job)), "cancel": lambda job: cancel(job.id)}
    assert stage.in_every_order(actions, arrange, judge) >= 4


def test_two_cancels_and_a_promoter(stage: Stage) -> None:
    def arrange() -> UUID:
        id_ = add_one(delay_seconds=60)
        recover.make_due(ALIAS)
        return id_

    def judge(id_: UUID, said: Answers) -> None:
        assert_sound([id_])
        assert place(id_) == "cancelled"
        assert sorted([said["one"], said["two"]]) == [CancelAnswer.CANCELLED, CancelAnswer.GONE]

    actions = {"one": cancel, "two": cancel, "promote": lambda _: in_a_transaction(lambda: recover.promote(ALIAS))}
    assert stage.in_every_order(actions, arrange, judge) >= 20


def test_two_who_requeue_one_letter_make_one_job(stage: Stage) -> None:
    def judge(id_: UUID, said: Answers) -> None:
        assert_sound([id_])
        assert place(id_) == "ready"
        assert len(said["one"].ids) + len(said["two"].ids) == 1
        assert row(id_, "attempts, runs") == (0, 2)

    def requeue(id_: UUID) -> Requeued:
        return in_a_transaction(lambda: operate.requeue(ALIAS, [id_]))  # type: ignore[no-any-return]

    assert stage.in_every_order({"one": requeue, "two": requeue}, letter, judge) >= 4


@pytest.mark.parametrize("commits", [True, False])
def test_a_requeue_and_an_enqueue_of_its_dedupe_key(stage: Stage, commits: bool) -> None:
    """One of them holds the key; the letter that was refused stays a letter."""

    def enqueue_it(_: UUID) -> Any:
        with transaction.atomic():
            answer = enqueue.enqueue(ALIAS, new_job(dedupe_key="k"))
            transaction.set_rollback(not commits)
        return answer

    def judge(id_: UUID, said: Answers) -> None:
        assert_sound([id_])
        new, requeued = said["enqueue"], said["requeue"]
        if requeued.ids:
            assert place(id_) == "ready"
            assert not commits or (new.created, new.id) == (False, id_)
        else:
            assert (place(id_), requeued.refused, new.created, commits) == ("dead", [id_], True, True)
            assert place(new.id) == "ready"
        assert len(places()) == (2 if commits and new.created else 1)

    actions = {"enqueue": enqueue_it, "requeue": lambda id_: in_a_transaction(lambda: operate.requeue(ALIAS, [id_]))}
    assert stage.in_every_order(actions, lambda: letter(dedupe_key="k"), judge) >= 4


def test_a_requeue_and_a_discard(stage: Stage) -> None:
    def judge(id_: UUID, said: Answers) -> None:
        assert_sound([id_])
        assert len(said["requeue"].ids) + len(said["discard"]) == 1
        assert place(id_) == ("ready" if said["requeue"].ids else "cancelled")

    actions = {
        "requeue": lambda id_: in_a_transaction(lambda: operate.requeue(ALIAS, [id_])),
        "discard": lambda id_: in_a_transaction(lambda: letters.discard(ALIAS, [id_], reason="no")),
    }
    assert stage.in_every_order(actions, letter, judge) >= 4


def test_an_edited_requeue_and_a_plain_one(stage: Stage) -> None:
    """The job has the arguments of the one who was told that he had requeued it."""

    def judge(id_: UUID, said: Answers) -> None:
        assert_sound([id_])
        edited = said["edit"] is EditAnswer.REQUEUED
        assert edited + len(said["plain"].ids) == 1
        assert row(id_, "args ->> 'new'") == ("yes" if edited else None)

    actions = {
        "edit": lambda id_: letters.requeue_edited(ALIAS, id_, '{"new": "yes"}'),
        "plain": lambda id_: in_a_transaction(lambda: operate.requeue(ALIAS, [id_])),
    }
    assert stage.in_every_order(actions, letter, judge) >= 4


def test_a_retry_now_a_promoter_and_a_cancel(stage: Stage) -> None:
    def arrange() -> UUID:
        id_ = add_one()
        fail(take_one(), delay_seconds=60)
        bend("run_at = clock_timestamp()")
        return id_

    def judge(id_: UUID, said: Answers) -> None:
        assert_sound([id_])
        assert place(id_) == "cancelled"
        assert len(said["now"]) + said["promote"] <= 1
        assert said["cancel"] is CancelAnswer.CANCELLED

    actions = {
        "now": lambda id_: in_a_transaction(lambda: operate.retry_now(ALIAS, [id_])),
        "promote": lambda _: in_a_transaction(lambda: recover.promote(ALIAS)),
        "cancel": cancel,
    }
    assert stage.in_every_order(actions, arrange, judge) >= 20


def test_two_leaders_take_a_step_of_a_replay_once(stage: Stage) -> None:
    replays: list[int] = []

    def arrange() -> list[UUID]:
        ids = [add_one() for _ in range(3)]
        fail(*take(3), final=True)
        replays.append(replay.create(ALIAS, Wanted(letters=Letters(queue_name="q"), canary=2, per_second=100)))
        return ids

    def judge(ids: list[UUID], said: Answers) -> None:
        assert_sound(ids)
        assert sum(said[name].requeued for name in ("one", "two") if said[name]) == 2
        assert sorted(places().values()) == ["dead", "ready", "ready"]

    def step(_: Any) -> Any:
        return replay.step(ALIAS, replays[-1])

    assert stage.in_every_order({"one": step, "two": step}, arrange, judge) >= 4
