"""Ordering keys as callers see them: per task and per call, one by one and many, in tests and on other backends."""

from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.test import override_settings

from djqueue import task
from djqueue.compat import InvalidTask, task_backends
from djqueue.exceptions import ArgumentsError
from djqueue.store import letters
from djqueue.testing import run_jobs
from tests.contract.examples import SEEN, add, say
from tests.store.factories import row

by_account = say.using(ordering_key=lambda label, account=0: f"account:{account}")


@pytest.fixture(autouse=True)
def seen() -> Any:
    SEEN.clear()
    return SEEN


def state(result: Any) -> Any:
    return row(UUID(result.id))


def test_jobs_of_one_key_are_parked_behind_the_first(db: None) -> None:
    first, second, other = by_account.enqueue("a", 1), by_account.enqueue("b", 1), by_account.enqueue("c", account=2)

    assert (state(first), state(second), state(other)) == ("ready", "parked", "ready")
    assert row(UUID(second.id), "ordering_key") == "account:1"
    assert second.created
    assert str(second.status) == "READY"


def test_run_jobs_runs_the_jobs_of_a_key_in_order(db: None) -> None:
    by_account.using(priority=-5).enqueue("first", 1)
    by_account.using(priority=90).enqueue("second", 1)
    by_account.using(priority=5).enqueue("third", 1)

    assert run_jobs().succeeded == 3

    assert SEEN == ["first", "second", "third"]


def test_run_jobs_keeps_the_order_of_retries_and_deaths(db: None) -> None:
    for label in ("a", "fail", "b"):
        by_account.using(max_attempts=2).enqueue(label, 1)

    ran = run_jobs(due_now=True)

    assert ran.states == {"succeeded": 2, "scheduled": 1, "dead": 1}
    assert SEEN == ["a", "fail", "fail", "b"]


def test_a_job_that_waits_for_its_retry_holds_its_key(db: None) -> None:
    for label in ("fail", "b"):
        by_account.enqueue(label, 1)

    run_jobs()

    assert SEEN == ["fail"]


def test_a_dead_job_blocks_its_key_where_the_task_says_so(db: None) -> None:
    strict = by_account.using(on_dead="block", max_attempts=1)
    dead = strict.enqueue("fail", 1)
    strict.enqueue("b", 1)

    run_jobs()
    assert SEEN == ["fail"]

    letters.discard("default", [UUID(dead.id)], reason="never mind")
    run_jobs()
    assert SEEN == ["fail", "b"]


def test_many_jobs_keep_the_order_of_the_rows_whatever_their_dedupe_keys(db: None) -> None:
    both = by_account.using(dedupe_key=lambda label, account=0: f"{9 - int(label)}")

    results = both.enqueue_many([("1", 1), ("2", 1), ("3", 1), {"label": "1", "account": 2}])

    assert [result.created for result in results] == [True, True, True, False]
    assert results[3].id == results[0].id
    run_jobs()
    assert SEEN == ["1", "2", "3"]


def test_async_callers_have_the_same_keys(db: None) -> None:
    first = async_to_sync(by_account.aenqueue)("a", 1)
    [second] = async_to_sync(by_account.aenqueue_many)([("b", 1)])

    assert (state(first), state(second)) == ("ready", "parked")


def test_a_handler_may_enqueue_behind_itself(db: None) -> None:
    by_account.enqueue("again", 1)

    run_jobs()

    assert SEEN == ["again", "after"]


def test_an_atomic_job_lets_out_the_next_with_its_own_end(db: None) -> None:
    atomic = task(atomic=True, ordering_key="k")(add.func)
    for number in range(3):
        atomic.enqueue(number)

    assert run_jobs().succeeded == 3


@pytest.mark.parametrize("key", ["", "x" * 301, "a\0b", 7])
def test_a_key_that_can_t_be_stored_is_refused(db: None, key: Any) -> None:
    with pytest.raises(InvalidTask, match="ordering_key: expected"):
        say.using(ordering_key=key)
    if not callable(key):
        with pytest.raises(ArgumentsError, match="ordering_key: expected"):
            say.using(ordering_key=lambda *_args, **_kwargs: key).enqueue("a")


def test_a_function_may_return_no_key(db: None) -> None:
    free = say.using(ordering_key=lambda *_args, **_kwargs: None)

    assert [state(free.enqueue("a")), state(free.enqueue("b"))] == ["ready", "ready"]


@pytest.mark.parametrize("backend", ["dummy.DummyBackend", "immediate.ImmediateBackend"])
def test_other_backends_take_tasks_with_ordering_keys_and_check_the_keys(backend: str) -> None:
    other = {"default": {"BACKEND": f"{type(task_backends).__module__}.backends.{backend}", "QUEUES": []}}
    with override_settings(TASKS=other):
        assert by_account.enqueue("a", 1)
        with pytest.raises(ArgumentsError, match="ordering_key"):
            say.using(ordering_key=lambda *_args, **_kwargs: "").enqueue("a")
