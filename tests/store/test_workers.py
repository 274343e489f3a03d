"""Who is there: information for people and for notifications, never for recovery."""

from typing import Any

from djqueue.store import db, workers
from djqueue.store.workers import QueueSettings, WorkerInfo
from tests.store.factories import ALIAS


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

    assert workers.seen(ALIAS, ["w1", "pruned"]) == ["w1"]
    assert worker("w1", IS_FRESH) == (True,)


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
