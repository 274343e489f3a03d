"""Dedupe keys: one holder, whoever commits, rolls back, claims or ends in between (R8)."""

from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from djqueue.states import OnConflict
from djqueue.store import conflict, db, enqueue, operate
from djqueue.store.claim import Claimed
from djqueue.store.conflict import Terms
from djqueue.store.enqueue import Enqueued
from tests.interleavings.orders import Answers, Stage
from tests.interleavings.sound import assert_sound, place, places
from tests.interleavings.test_leases import in_a_transaction
from tests.store.factories import ALIAS, ack, add_one, fail, new_job, row, take, take_one

KEY = "k"


def enqueue_it(*, commits: bool = True) -> Enqueued:
    with transaction.atomic():
        answer = enqueue.enqueue(ALIAS, new_job(dedupe_key=KEY))
        transaction.set_rollback(not commits)
    return answer


def enqueue_on(terms: Terms, *, commits: bool = True, **fields: Any) -> Enqueued:
    with transaction.atomic():
        [answer] = conflict.enqueue_all(ALIAS, [new_job(dedupe_key=KEY, **fields)], terms)
        transaction.set_rollback(not commits)
    return answer


def test_two_enqueuers_and_one_who_rolls_back(stage: Stage) -> None:
    """The one who rolls back leaves nothing behind; of the others one creates, and the other finds that very job."""

    def judge(_: None, said: Answers) -> None:
        one, two = said["one"], said["two"]
        assert_sound([one.id])
        assert one.created + two.created == 1
        assert one.id == two.id
        assert places() == {one.id: "ready"}

    actions = {
        "one": lambda _: enqueue_it(),
        "two": lambda _: enqueue_it(),
        "rolls back": lambda _: enqueue_it(commits=False),
    }
    assert stage.in_every_order(actions, lambda: None, judge) >= 20


@pytest.mark.parametrize("end", ["ack", "die", "retry", "cancel"])
def test_an_enqueue_and_the_end_of_the_holder(stage: Stage, end: str) -> None:
    def finish(job: Claimed) -> Any:
        match end:
            case "ack":
                return ack(job)
            case "die":
                return fail(job, final=True)
            case "retry":
                return fail(job, delay_seconds=60)
            case _:
                return operate.cancel(ALIAS, [job.id])

    def held() -> Claimed:
        add_one(dedupe_key=KEY)
        return take_one()

    def judge(job: Claimed, said: Answers) -> None:
        new = said["enqueue"]
        assert_sound([job.id, new.id])
        assert new.created == (new.id != job.id)
        if end in ("retry", "cancel"):
            assert not new.created  # a retry, or a job asked to cancel that still runs, keeps its key

    actions = {"enqueue": lambda _: enqueue_it(), "end": lambda job: in_a_transaction(lambda: finish(job))}
    assert stage.in_every_order(actions, held, judge) >= 4


@pytest.mark.parametrize("mode", [OnConflict.REPLACE, OnConflict.RESCHEDULE])
@pytest.mark.parametrize("commits", [True, False])
def test_a_change_of_the_waiting_job_and_a_claim(stage: Stage, mode: OnConflict, commits: bool) -> None:
    """The row of a running job is what its worker was given; `changed` is said of what was changed."""

    def judge(id_: UUID, said: Answers) -> None:
        assert_sound([id_])
        answer, claimed = said["change"], said["claim"]
        assert (answer.id, answer.created) == (id_, False)
        args, priority = row(id_, "args ->> 'new', priority")
        assert (args, priority) == (("yes", 7) if is_replaced(answer) else (None, 0))
        for job in claimed:
            assert ('"yes"' in job.args) == (args == "yes")

    def is_replaced(answer: Enqueued) -> bool:
        return answer.changed and commits and mode is OnConflict.REPLACE

    def change(_: UUID) -> Enqueued:
        return enqueue_on(Terms(mode=mode), commits=commits, args='{"new": "yes"}', priority=7)

    actions = {"change": change, "claim": lambda _: in_a_transaction(lambda: take(1))}
    assert stage.in_every_order(actions, lambda: add_one(dedupe_key=KEY), judge) >= 4


def test_a_replace_a_claim_and_the_ack_after_it(stage: Stage) -> None:
    """The ack frees the key in the middle of the replace: then a new job is made, never a change of what has ended."""

    def work(_: UUID) -> Any:
        return [ack(job) for job in take(1)]

    def judge(id_: UUID, said: Answers) -> None:
        answer = said["change"]
        assert_sound([id_, answer.id])
        assert answer.created == (answer.id != id_)
        if answer.created:
            assert (place(id_), place(answer.id)) == ("succeeded", "ready")

    def change(_: UUID) -> Enqueued:
        return enqueue_on(Terms(mode=OnConflict.REPLACE), args='{"new": "yes"}')

    assert stage.in_every_order({"change": change, "work": work}, lambda: add_one(dedupe_key=KEY), judge) >= 10


def test_two_replacements_change_the_same_job(stage: Stage) -> None:
    def judge(id_: UUID, said: Answers) -> None:
        assert_sound([id_])
        assert said["one"].changed
        assert said["two"].changed
        assert row(id_, "args ->> 'by'") in ("one", "two")
        assert places() == {id_: "ready"}

    def change(by: str) -> Any:
        return lambda _: enqueue_on(Terms(mode=OnConflict.REPLACE), args=f'{{"by": "{by}"}}')

    actions = {"one": change("one"), "two": change("two")}
    assert stage.in_every_order(actions, lambda: add_one(dedupe_key=KEY), judge) >= 10


@pytest.mark.parametrize("commits", [True, False])
def test_two_who_open_a_window(stage: Stage, commits: bool) -> None:
    """`unique_for`: the second waits for the first's end; after a rollback the window is his."""

    def judge(_: None, said: Answers) -> None:
        one, two = said["one"], said["two"]
        assert_sound([two.id])
        assert (two.created or commits) and (one.id == two.id or not commits)
        assert places() == {two.id: "ready"}
        assert db.rows(ALIAS, "select job_id from djqueue_dedupe_window") == [(two.id,)]

    terms = Terms(unique_seconds=60)
    actions = {"one": lambda _: enqueue_on(terms, commits=commits), "two": lambda _: enqueue_on(terms)}
    assert stage.in_every_order(actions, lambda: None, judge) >= 10


def test_a_window_outlives_the_job_that_opened_it(stage: Stage) -> None:
    terms = Terms(unique_seconds=60)

    def work(_: UUID) -> Any:
        return [ack(job) for job in take(1)]

    def judge(id_: UUID, said: Answers) -> None:
        assert_sound([id_])
        assert (said["again"].id, said["again"].created) == (id_, False)
        assert places() == {id_: "succeeded"}

    actions = {"again": lambda _: enqueue_on(terms), "work": work}
    assert stage.in_every_order(actions, lambda: enqueue_on(terms).id, judge) >= 6
