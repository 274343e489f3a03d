"""R27: every promise of Django's backend contract, on Django 5.2 with the backport, 6.0 and 6.1."""

import asyncio
import copy
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import django
import pytest
from asgiref.sync import sync_to_async
from django.core import checks
from django.db import connections
from django.dispatch import Signal
from django.test import override_settings

from djqueue.api import registry
from djqueue.backend import DjqueueBackend
from djqueue.compat import (
    AnyTaskResult,
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    task_backends,
    task_signals,
)
from djqueue.exceptions import ConfigurationError
from djqueue.policy.ids import uuid7
from djqueue.store import operate
from djqueue.testing import run_jobs
from tests.contract import examples
from tests.contract.examples import add, add_later, django_task, fail, forget, third_party, who_am_i
from tests.store.factories import bend, row, take

TWO_BACKENDS = {
    "default": {"BACKEND": "djqueue.backend.DjqueueBackend", "QUEUES": ["default", "emails"]},
    "bulk": {"BACKEND": "djqueue.backend.DjqueueBackend", "QUEUES": ["bulk"], "OPTIONS": {"max_attempts": 2}},
}


@contextmanager
def heard(signal: Signal) -> Iterator[list[tuple[Any, AnyTaskResult]]]:
    """Collect (sender, result) of a signal."""
    found: list[tuple[Any, AnyTaskResult]] = []

    def hear(sender: Any, task_result: AnyTaskResult, **_: object) -> None:
        found.append((sender, copy.copy(task_result)))

    signal.connect(hear)
    try:
        yield found
    finally:
        signal.disconnect(hear)


def test_the_backend_says_what_it_can() -> None:
    backend = task_backends["default"]

    assert isinstance(backend, DjqueueBackend)
    assert backend.supports_defer
    assert backend.supports_async_task
    assert backend.supports_get_result
    assert backend.supports_priority


def test_a_result_shows_the_job_as_it_was_enqueued(db: None) -> None:
    result = add.using(queue_name="emails", priority=3).enqueue(1, right=2)

    assert (result.args, result.kwargs) == ([1], {"right": 2})
    assert (result.status, result.is_finished, result.attempts) == (TaskResultStatus.READY, False, 0)
    assert (result.backend, result.task.queue_name, result.task.priority) == ("default", "emails", 3)
    assert (result.started_at, result.finished_at, result.last_attempted_at) == (None, None, None)
    assert (result.errors, result.worker_ids) == ([], [])
    assert result.enqueued_at == row(UUID(result.id), "created_at")
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value


def test_a_result_that_is_read_equals_the_one_that_was_returned(db: None) -> None:
    result = add.using(queue_name="emails", priority=3).enqueue(1, right=2)

    assert add.get_result(result.id) == result


def test_a_result_follows_the_job_through_success(db: None) -> None:
    result = add.enqueue(1, 2)
    take(queue="default")
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.RUNNING, 1)

    bend("state = 'ready', lease_until = null, leased_by = null, attempts = 0, worker_ids = '{}'")
    run_jobs()
    result.refresh()

    assert (result.status, result.return_value, result.is_finished) == (TaskResultStatus.SUCCESSFUL, 3, True)
    assert result.attempts == len(result.worker_ids) == 1
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.last_attempted_at == result.started_at


def test_a_result_follows_the_job_through_retry_and_death(db: None) -> None:
    result = fail.enqueue("no luck")
    run_jobs(limit=1)
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == (TaskResultStatus.READY, 1, 1)

    run_jobs(due_now=True)
    result.refresh()

    assert (result.status, result.attempts, len(result.errors)) == (TaskResultStatus.FAILED, 2, 2)
    assert result.errors[0].exception_class is ValueError
    assert "ValueError: no luck" in result.errors[0].traceback
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value


def test_a_cancelled_job_has_failed(db: None) -> None:
    result = add.enqueue(1)
    operate.cancel("default", [UUID(result.id)])

    result.refresh()

    assert result.status == TaskResultStatus.FAILED
    assert all(issubclass(error.exception_class, BaseException) for error in result.errors)


def test_a_delayed_job_is_ready_in_djangos_words(db: None) -> None:
    result = add.using(run_after=timedelta(hours=1)).enqueue(1)

    assert add.get_result(result.id).status == TaskResultStatus.READY


def test_what_the_handler_returned_is_not_kept_where_nobody_wants_it(db: None) -> None:
    result = forget.enqueue(1)
    run_jobs()

    result.refresh()

    assert result.status == TaskResultStatus.SUCCESSFUL
    assert result.return_value is None


@pytest.mark.parametrize("bad", ["", "x", "123", "None", "\0", "é" * 36, 7, None, "0" * 31, [], b"1"])
def test_malformed_ids_are_not_found(db: None, bad: Any) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        add.get_result(bad)


@pytest.mark.parametrize("unknown", [uuid4(), uuid7(), UUID(int=0), UUID(int=2**128 - 1)])
def test_unknown_ids_are_not_found(db: None, unknown: UUID) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        task_backends["default"].get_result(str(unknown))


def test_another_tasks_job_is_a_mismatch(db: None) -> None:
    result = add.enqueue(1)

    with pytest.raises(TaskResultMismatch):
        fail.get_result(result.id)
    assert task_backends["default"].get_result(result.id).task == add


def test_a_job_of_an_unknown_task_is_not_found_with_a_reason(db: None) -> None:
    result = add.enqueue(1)
    bend("task_name = 'gone.tasks.task'")

    with pytest.raises(TaskResultDoesNotExist, match=r"this process knows no task 'gone.tasks.task'"):
        add.get_result(result.id)


def test_a_job_in_a_queue_that_is_no_longer_listed_can_be_read(db: None) -> None:
    result = add.enqueue(1)
    bend("queue_name = 'gone'")

    assert add.get_result(result.id).task == add


def test_results_and_enqueues_from_async_code(transactional_db: None) -> None:
    async def all_of_it() -> AnyTaskResult:
        result = await add.aenqueue(1, 2)
        assert await add.aget_result(result.id) == result
        with pytest.raises(TaskResultDoesNotExist):
            await add.aget_result(str(uuid4()))
        with pytest.raises(TaskResultMismatch):
            await fail.aget_result(result.id)
        many = await add.aenqueue_many([(1,), {"left": 2}])
        assert [r.args for r in many] == [[1], []]
        await result.arefresh()
        await sync_to_async(connections.close_all)()
        return result

    result = asyncio.run(all_of_it())

    assert result.status == TaskResultStatus.READY


def test_sync_and_async_handlers_run(db: None) -> None:
    one, other = add.enqueue(1, 2), add_later.enqueue(3, 4)

    run_jobs()

    assert add.get_result(one.id).return_value == 3
    assert add_later.get_result(other.id).return_value == 7


def test_the_context_knows_the_attempt_and_the_result(db: None) -> None:
    result = who_am_i.enqueue("x")

    run_jobs()
    result.refresh()

    assert result.return_value == ["x", result.id, 1, True, False]


def test_a_third_party_task_declared_with_djangos_own_decorator_runs_unchanged(db: None) -> None:
    result = third_party.enqueue(7)
    other = examples.third_party_with_context.enqueue()

    assert row(UUID(result.id), "queue_name, priority") == ("emails", 5)
    assert run_jobs().succeeded == 2
    assert third_party.get_result(result.id).return_value == 7
    assert examples.third_party_with_context.get_result(other.id).return_value == 1


@pytest.mark.skipif(django.VERSION[:2] == (6, 0), reason="Django 6.0's own decorator takes no options of backends")
def test_djangos_own_decorator_takes_our_options_and_refuses_unknown_ones() -> None:
    declared = django_task(max_attempts=3, timeout_seconds=5)(examples.add.func)

    assert (declared.max_attempts, declared.timeout_seconds) == (3, 5)
    with pytest.raises(TypeError, match=r"unknown option 'max_attemps' \(did you mean 'max_attempts'\?\)"):
        django_task(max_attemps=3)(examples.add.func)


def test_signals_are_sent_with_the_backend_as_sender(db: None) -> None:
    with (
        heard(task_signals.task_enqueued) as enqueued,
        heard(task_signals.task_started) as started,
        heard(task_signals.task_finished) as finished,
    ):
        result = add.enqueue(1)
        add.enqueue_many([(2,)])
        assert enqueued[0][0] is DjqueueBackend
        assert enqueued[0][1].id == result.id
        assert len(enqueued) == 2
        run_jobs()

    assert [(sender, r.status) for sender, r in started] == [(DjqueueBackend, TaskResultStatus.RUNNING)] * 2
    assert [(sender, r.status) for sender, r in finished] == [(DjqueueBackend, TaskResultStatus.SUCCESSFUL)] * 2
    assert finished[0][1].id == result.id


def test_a_receiver_that_fails_does_not_make_a_written_job_look_refused(
    db: None, caplog: pytest.LogCaptureFixture
) -> None:
    def break_down(**_: object) -> None:
        raise RuntimeError("the receiver is broken")

    task_signals.task_enqueued.connect(break_down)
    try:
        results = add.enqueue_many([(1,), (2,)])
    finally:
        task_signals.task_enqueued.disconnect(break_down)

    assert len(results) == 2
    assert "the receiver is broken" in caplog.text


def test_the_framework_writes_its_own_line_about_an_enqueue(db: None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", "django.tasks"), caplog.at_level("DEBUG", "django_tasks"):
        result = add.enqueue(1)

    assert f"Task id={result.id} path=tests.contract.examples.add enqueued backend=default" in caplog.text


@pytest.mark.parametrize("priority", [-101, 101, 1.5])
def test_a_priority_outside_the_range_is_refused(priority: Any) -> None:
    with pytest.raises(InvalidTask, match="priority must be a whole number between -100 and 100"):
        add.using(priority=priority)


@pytest.mark.parametrize("priority", [-100, 0, 100])
def test_a_priority_within_the_range_is_stored(db: None, priority: int) -> None:
    result = add.using(priority=priority).enqueue(1)

    assert row(UUID(result.id), "priority") == priority


@pytest.mark.parametrize("moment", [datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)])
def test_r18_the_ends_of_the_calendar_are_fine(db: None, moment: datetime) -> None:
    result = add.using(run_after=moment).enqueue(1)

    assert row(UUID(result.id), "run_at") == moment
    assert add.get_result(result.id).status == TaskResultStatus.READY


def test_a_naive_moment_is_refused_where_time_zones_are_used(db: None) -> None:
    with pytest.raises(InvalidTask, match="run_after must be an aware datetime"):
        add.using(run_after=datetime(2100, 1, 1))  # noqa: DTZ001


def test_a_queue_that_is_not_listed_is_refused_when_it_is_named_and_when_it_is_used(db: None) -> None:
    with pytest.raises(InvalidTask, match="Queue 'other' is not valid"):
        add.using(queue_name="other")
    with override_settings(TASKS={"default": {**TWO_BACKENDS["default"], "QUEUES": []}}):
        anywhere = add.using(queue_name="other")
        assert anywhere.enqueue(1).created
    with pytest.raises(InvalidTask, match="Queue 'other' is not valid"):
        anywhere.enqueue(1)


def test_functions_that_are_not_at_module_level_are_refused() -> None:
    def inner() -> None:
        """Do nothing."""

    for func in (inner, lambda: None, print):
        with pytest.raises(InvalidTask, match="module level"):
            django_task(func)


def test_a_task_that_takes_the_context_must_have_a_place_for_it() -> None:
    with pytest.raises(InvalidTask, match="does not have a first argument of 'context'"):
        django_task(takes_context=True)(examples.add.func)


def test_run_after_can_not_be_declared() -> None:
    with pytest.raises(TypeError, match="run_after"):
        django_task(run_after=datetime.now(UTC))(examples.add.func)


def test_calling_a_task_directly_runs_it_here() -> None:
    assert add.call(1, 2) == 3
    assert add_later.call(1, 2) == 3
    assert asyncio.run(add.acall(1, 2)) == 3
    assert asyncio.run(add_later.acall(1, 2)) == 3


def test_tasks_and_results_can_be_copied_and_pickled(db: None) -> None:
    task = add.using(priority=7, dedupe_key="k", tags=["a"])
    result = task.enqueue(1)

    for clone in (copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))):
        assert clone(task) == task
        assert clone(result) == result
    assert registry.get(add.module_path) == add


def test_a_task_goes_to_the_backend_that_the_call_names(db: None) -> None:
    with override_settings(TASKS=TWO_BACKENDS):
        result = add.using(backend="bulk", queue_name="bulk").enqueue(1)

        assert result.backend == "bulk"
        assert row(UUID(result.id), "queue_name, max_attempts") == ("bulk", 2)
        assert task_backends["bulk"].get_result(result.id).id == result.id


def test_a_task_that_workers_would_not_know_is_refused(db: None) -> None:
    dummy = {"BACKEND": f"{type(task_backends).__module__}.backends.dummy.DummyBackend", "QUEUES": ["bulk"]}
    with override_settings(TASKS={**TWO_BACKENDS, "elsewhere": dummy}):
        foreign = django_task(backend="elsewhere", queue_name="bulk")(examples.forget.func)
        with pytest.raises(InvalidTask, match="declared for another backend"):
            foreign.using(backend="bulk").enqueue(1)


WRONG_OPTIONS = {
    "default": {
        "BACKEND": "djqueue.backend.DjqueueBackend",
        "OPTIONS": {"lease_second": 30, "poll_seconds": "often", "max_attempts": 0},
    }
}


@override_settings(TASKS=WRONG_OPTIONS)
def test_wrong_options_break_no_import_and_all_are_told_by_the_check_and_at_use(db: None) -> None:
    add.using(priority=1)

    found = [message for message in checks.run_checks() if message.id == "djqueue.E001"]
    with pytest.raises(ConfigurationError) as caught:
        add.enqueue(1)

    assert len(found) == 3
    for words in ("did you mean 'lease_seconds'?", "poll_seconds: expected a number", "max_attempts: expected"):
        assert words in str(caught.value)
        assert sum(words in str(message) for message in found) == 1
