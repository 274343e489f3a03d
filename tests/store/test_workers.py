"""Who is there: information for people and for notifications, never for recovery."""

from collections.abc import Sequence
from typing import Any

import pytest

from djqueue.store import db, workers
from djqueue.store.workers import Order, Presence, QueueSettings, WorkerInfo
from tests.store.factories import ALIAS, add_one, bend, take_one


def register(id_: str, **fields: Any) -> None:
    workers.register(
        ALIAS,
        WorkerInfo(
            **{
                "id": id_,
                "supervisor_id": "s1",
                "host": "h",
                "pid": 2**31 - 1,
                "version": "1",
                "slots": 4,
                "queues": ["a", "b"],
                "task_names": ["t1", "t2"],
                "tasks_hash": "x",
                **fields,
            }
        ),
    )


def worker(id_: str, columns: str) -> Any:
    found = db.rows(ALIAS, f"select {columns} from djqueue_worker where id = %(id)s", {"id": id_})
    return found[0] if found else None


def grow_old(id_: str) -> None:
    db.rows(ALIAS, "update djqueue_worker set seen_at = now() - interval '1 h' where id = %(id)s", {"id": id_})


IS_FRESH = "seen_at > clock_timestamp() - interval '1 min'"


def test_a_worker_says_who_it_is(store: str) -> None:
    register("w1")

    assert worker("w1", f"supervisor_id, host, pid, version, slots, queues, task_names, tasks_hash, {IS_FRESH}") == (
        "s1", "h", 2**31 - 1, "1", 4, ["a", "b"], ["t1", "t2"], "x", True,
    )  # fmt: skip
    assert worker("w1", "wants_news, stopping, started_at <= clock_timestamp()") == (True, False, True)


def test_registering_again_brings_a_row_back_to_life(store: str) -> None:
    register("w1")
    workers.stopping(ALIAS, "w1")
    grow_old("w1")

    register("w1")

    assert worker("w1", f"wants_news, stopping, {IS_FRESH}") == (True, False, True)


def test_workers_that_say_they_live_are_told_whose_rows_exist(store: str) -> None:
    register("w1")
    grow_old("w1")

    alive = [Presence(id="w1", memory_bytes=2**33, jobs_per_minute=7.5), Presence(id="pruned")]
    assert workers.seen(ALIAS, alive) == {"w1": Order.NONE}
    assert worker("w1", f"{IS_FRESH}, memory_bytes, jobs_per_minute") == (True, 2**33, 7.5)


def test_an_order_reaches_the_worker_with_its_next_sign_of_life_and_stop_outweighs_restart(store: str) -> None:
    register("w1")
    register("w2")

    assert workers.order(ALIAS, ["w1", "gone"], Order.STOP, by="ada") == {"w1"}
    assert workers.order(ALIAS, ["w1", "w2"], Order.RESTART, by="bob") == {"w2"}

    register("w1")  # a worker that connects again is still asked to stop
    asked = workers.seen(ALIAS, [Presence(id="w1"), Presence(id="w2")])
    assert asked == {"w1": Order.STOP, "w2": Order.RESTART}
    assert worker("w1", "ordered_by") == ("ada",)


def test_a_version_is_remembered_from_its_first_worker_on(store: str) -> None:
    register("w1", version="2026.1")
    [(first,)] = db.rows(ALIAS, "select first_seen_at from djqueue_code_version where version = '2026.1'")

    register("w2", version="2026.1")
    register("w3", version="x" * 10_000)

    assert db.rows(ALIAS, "select first_seen_at from djqueue_code_version where version = '2026.1'") == [(first,)]
    assert worker("w3", "length(version)") == (10_000,)


def test_a_worker_says_whether_it_wants_news(store: str) -> None:
    register("w1")
    grow_old("w1")

    workers.wants_news(ALIAS, "w1", False)
    assert worker("w1", f"wants_news, {IS_FRESH}") == (False, True)
    workers.wants_news(ALIAS, "w1", True)
    assert worker("w1", "wants_news") == (True,)


def test_a_stopping_worker_wants_no_news(store: str) -> None:
    register("w1")

    workers.stopping(ALIAS, "w1")

    assert worker("w1", "wants_news, stopping") == (False, True)


def test_removed_workers_are_gone(store: str) -> None:
    for id_ in ("w1", "w2", "w3"):
        register(id_)

    workers.remove(ALIAS, ["w1", "w3", "none"])

    assert [worker(id_, "id") for id_ in ("w1", "w2", "w3")] == [None, ("w2",), None]


def test_r22_the_known_tasks_are_those_of_live_workers(store: str) -> None:
    register("w1", task_names=["a", "b"])
    register("w2", task_names=["b", "c"])
    register("old", task_names=["d"])
    register("leaving", task_names=["e"])
    register("empty", task_names=[], queues=[])
    grow_old("old")
    workers.stopping(ALIAS, "leaving")

    assert workers.known_tasks(ALIAS) == {"a", "b", "c"}


def test_settings_are_read_by_queue(store: str) -> None:
    db.rows(
        ALIAS, "insert into djqueue_queue (name, weight, paused_until) values ('a', 5, null), ('b', null, 'infinity')"
    )

    assert workers.queue_settings(ALIAS) == {
        "a": QueueSettings(name="a", weight=5, paused=False),
        "b": QueueSettings(name="b", weight=None, paused=True),
    }


# ------------------------------------------------------------------------------------------------ what a drain awaits


def pending(*names: str, everything: bool = False, excluded: Sequence[str] = (), scheduled: bool = False) -> bool:
    return workers.has_pending(ALIAS, names, everything=everything, excluded=excluded, scheduled=scheduled)


def in_state(state: str, queue: str = "q") -> None:
    one = add_one(queue_name=queue)
    if state == "leased":
        take_one(queue=queue)
    elif state == "suspect":
        bend("suspect = true", one)
    elif state == "behind its key":
        bend("state = 'parked', ordering_key = 'o'", one)
    elif state == "about to be let out":
        bend("state = 'parked', ordering_key = 'o'", one)
        db.rows(ALIAS, "insert into djqueue_wake (queue_name, ordering_key) values (%(q)s, 'o')", {"q": queue})
    elif state == "set aside":
        bend("state = 'parked', parked_for = 'task:t'", one)
    elif state == "scheduled":
        bend("state = 'scheduled'", one)


@pytest.mark.parametrize(
    ("state", "waits", "waits_for_all"),
    [
        ("ready", True, True),
        ("suspect", True, True),
        ("leased", True, True),
        ("about to be let out", True, True),
        ("behind its key", False, False),
        ("scheduled", False, True),
        ("set aside", False, False),
    ],
)
def test_a_drain_waits_for_what_could_run_here(store: str, state: str, waits: bool, waits_for_all: bool) -> None:
    in_state(state)

    assert pending("q") is waits
    assert pending("q", scheduled=True) is waits_for_all


@pytest.mark.parametrize("state", ["ready", "suspect", "leased", "about to be let out", "scheduled"])
def test_a_drain_looks_at_the_queues_it_serves_only(store: str, state: str) -> None:
    in_state(state, "q")

    assert pending("a", "q", "z", scheduled=True)
    assert pending(everything=True, scheduled=True)
    assert pending(everything=True, excluded=["a"], scheduled=True)
    assert not pending("a", "z", scheduled=True)
    assert not pending(everything=True, excluded=["q"], scheduled=True)
    assert not pending(scheduled=True)


def test_a_queue_behind_others_is_seen_by_a_drain(store: str) -> None:
    for queue in ("a", "b", "c"):
        in_state("ready", queue)

    assert pending("c")
    assert pending(everything=True, excluded=["a", "b"])
    assert not pending(everything=True, excluded=["a", "b", "c"])
