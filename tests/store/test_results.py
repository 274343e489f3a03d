"""Reading a job wherever it is."""

from datetime import datetime

import pytest

from djqueue.policy.ids import uuid7
from djqueue.states import State
from djqueue.store import finish, lease, operate, results
from tests.store.factories import ALIAS, YEAR_1, YEAR_9999, Party, ack, add, add_one, bend, fail, row, take, take_one


def test_a_job_is_found_in_every_state_and_table(store: str) -> None:
    ids = {
        State.READY: add_one(),
        State.SCHEDULED: add_one(delay_seconds=60),
        State.PARKED: add_one(),
        State.LEASED: add_one(lane="leased"),
        State.SUCCEEDED: add_one(lane="succeeded"),
        State.CANCELLED: add_one(),
        State.DEAD: add_one(lane="dead"),
    }
    bend("state = 'parked'", ids[State.PARKED])
    take_one(lane="leased")
    ack(take_one(lane="succeeded"))
    operate.cancel(ALIAS, [ids[State.CANCELLED]])
    fail(take_one(lane="dead"), final=True)

    found = results.find(ALIAS, [*ids.values(), uuid7()])

    assert {job.state: job.id for job in found.values()} == ids
    assert {id_: job.id for id_, job in found.items()} == {id_: id_ for id_ in ids.values()}
    assert results.find(ALIAS, []) == {}


def test_a_live_job_is_returned_whole(store: str) -> None:
    one = add_one(queue_name="emails", task_name="shop.tasks.send", args='{"args": ["ü"]}', priority=3)
    fail(take_one(queue="emails"), entry={"message": "boom"})
    job = take_one(queue="emails", worker_id="w2")
    lease.heartbeat(ALIAS, [lease.Beat(one, job.lease_token, 1.0)], 30)

    found = results.find(ALIAS, [one])[one]

    assert (found.queue_name, found.task_name, found.priority, found.attempts) == ("emails", "shop.tasks.send", 3, 2)
    assert (found.args, found.errors[0]["message"], found.worker_ids) == ({"args": ["ü"]}, "boom", ["w1", "w2"])
    assert (found.created_at, found.started_at, found.run_at) == row(one, "created_at, started_at, run_at")
    assert (found.finished_at, found.result) == (None, None)


@pytest.mark.parametrize(
    ("text", "value"), [("null", None), ('{"a": [1, "x"]}', {"a": [1, "x"]}), ("9007199254740993", 9007199254740993)]
)
def test_r28_a_result_is_returned_as_it_was_stored(store: str, text: str, value: object) -> None:
    one = add_one()
    ack(take_one(), result=text)

    found = results.find(ALIAS, [one])[one]

    assert found.result == value
    assert isinstance(found.finished_at, datetime)
    assert found.run_at is None


def test_the_overflow_and_dead_letters_are_read_like_history(store: str) -> None:
    add(2)
    first, second = take(2)
    finish.ack(ALIAS, [finish.Ack(first.id, first.lease_token, 2.0, 1.0, "5")], overflow=True)
    fail(second, final=True, entry={"message": "boom"}, began_ago=3)

    found = results.find(ALIAS, [first.id, second.id])

    assert (found[first.id].state, found[first.id].result) == (State.SUCCEEDED, 5)
    dead = found[second.id]
    assert (dead.state, dead.errors[0]["message"]) == (State.DEAD, "boom")
    assert (dead.finished_at, dead.started_at) == row(second.id, "died_at, started_at", "dead_letter")


def test_a_requeued_job_is_found_once_and_live(store: str) -> None:
    one = add_one()
    fail(take_one(), final=True)
    operate.requeue(ALIAS, [one])

    assert results.find(ALIAS, [one])[one].state is State.READY


def test_r18_the_ends_of_the_calendar_can_be_read(store: str) -> None:
    first, last = add_one(run_at=YEAR_1), add_one(run_at=YEAR_9999)

    found = results.find(ALIAS, [first, last])

    assert (found[first].run_at, found[last].run_at) == (YEAR_1, YEAR_9999)


@pytest.mark.slow
def test_a_job_on_its_way_is_found_at_every_moment(committed: None, other: Party) -> None:
    """It moves between tables in one statement, and is read in one: it is never nowhere."""
    ids = add(300)
    done = other.start(lambda: [ack(job) if n % 2 else fail(job, final=True) for n, job in enumerate(take(300))])

    looks = 0
    while not done.done() or looks == 0:
        looks += 1
        assert len(results.find(ALIAS, ids)) == 300
    assert len(done.result()) == 300
