"""`djqueue.contrib.celery`: what Celery's options mean here, and what is refused with the way to do it."""

import inspect
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import celery
import pytest
from celery.app.task import Task as CeleryOwn

from djqueue.api import registry
from djqueue.compat import TaskResultStatus
from djqueue.contrib.celery import OF_CALL, OF_TASK, WITHOUT, shared_task
from djqueue.models import DeadLetter, Job
from djqueue.policy.retry import FixedRetry, RetryPolicy
from djqueue.testing import assert_enqueued, freeze, run_jobs
from tests.contract.celery_tasks import SEEN, add, break_down, clumsy, pay, send
from tests.contract.examples import add as plain

MOMENT = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SEEN.clear()


@pytest.mark.django_db
def test_a_task_is_called_delayed_and_applied() -> None:
    assert add(1, 2) == 3
    results = [add.delay(1, 2), add.delay(left=1, right=2)]
    results += [add.apply_async((1, 2)), add.apply_async(kwargs={"left": 1, "right": 2})]

    assert_enqueued(add, args=[1, 2], count=4)
    assert run_jobs().succeeded == 4
    for result in results:
        result.refresh()
        assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 3)


@pytest.mark.django_db
def test_options_of_a_call_become_those_of_a_job() -> None:
    add.apply_async((1, 2), countdown=60, queue="emails", priority=9, time_limit=7, expires=30)
    add.apply_async((1, 2), eta=MOMENT, expires=MOMENT + timedelta(hours=1))

    assert_enqueued(add, run_after=timedelta(seconds=60), queue_name="emails", count=1)
    assert_enqueued(add, run_after=MOMENT, count=1)
    first, second = Job.objects.order_by("seq")
    assert (first.priority, first.timeout_seconds, first.expires_at - first.run_at) == (9, 7, timedelta(seconds=30))
    assert second.expires_at == MOMENT + timedelta(hours=1)


@pytest.mark.django_db
def test_a_bound_task_asks_for_retries_and_succeeds() -> None:
    result = pay.delay(7, failures=2)

    run_jobs(due_now=True)

    result.refresh()
    assert (result.attempts, result.return_value) == (3, "paid 7")
    assert [(result.id, number, [7]) for number in range(3)] == SEEN


@pytest.mark.django_db
def test_the_countdown_of_a_retry_is_kept_and_its_cause_shown() -> None:
    pay.delay(7, failures=9)
    with freeze(MOMENT):
        run_jobs()
        [job] = Job.objects.all()
        assert job.run_at == MOMENT + timedelta(seconds=5)
    assert "Busy: the bank is closed" in job.errors[0]["message"]

    run_jobs(due_now=True)
    assert DeadLetter.objects.get().attempts == 3


@pytest.mark.django_db
def test_only_what_autoretry_names_is_tried_again() -> None:
    send.delay("busy")
    send.delay("other")
    break_down.delay()

    assert run_jobs().states == {"scheduled": 1, "dead": 2}


@pytest.mark.django_db
def test_a_job_under_its_name_of_celery_runs() -> None:
    pay.delay(7)
    Job.objects.update(task_name="shop.old.pay")

    assert run_jobs().succeeded == 1
    assert registry.get("shop.old.pay") is pay


def test_options_of_a_task_become_djqueues() -> None:
    assert (pay.max_attempts, pay.retry, pay.takes_context) == (3, FixedRetry(seconds=60), True)
    assert (send.max_attempts, send.queue_name) == (1_000, "emails")
    assert send.retry == RetryPolicy(base_seconds=2, cap_seconds=100)
    assert (add.max_attempts, add.retry, add.keep_result) == (4, FixedRetry(seconds=180), True)
    declared = shared_task(
        time_limit=9, rate_limit="10/m", ignore_result=True, expires=60, acks_late=True, djqueue={"atomic": True}
    )(plain.func)
    assert (declared.timeout_seconds, declared.rate_limit, declared.keep_result) == (9, "10/m", False)
    assert (declared.expires_after, declared.atomic) == (60, True)
    assert pickle.loads(pickle.dumps(pay)).func is pay.func


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"base": object}, "base has no counterpart: write what the base class does into the handler"),
        ({"acks_late": False}, "a job is always acked after its end"),
        ({"serializer": "pickle"}, "serializer: expected 'json', got 'pickle'"),
        ({"time_limit": 9, "soft_time_limit": 8}, "expected time_limit or soft_time_limit, got both"),
        ({"expires": MOMENT}, "expires: expected seconds or a timedelta"),
        ({"max_retrys": 1}, r"unknown option 'max_retrys' \(did you mean 'max_retries'\?\)"),
    ],
)
def test_what_has_no_counterpart_is_refused_where_it_is_declared(options: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        shared_task(**options)(plain.func)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"link": add},
            "apply_async: link has no counterpart: use djqueue.chain, or enqueue the next job in the handler",
        ),
        ({"task_id": "x"}, "task_id has no counterpart: ids are made by djqueue"),
        ({"countdown": 1, "eta": MOMENT}, "expected countdown or eta, got both"),
        ({"ignore_result": True}, "ignore_result belongs to the task"),
        ({"coutdown": 1}, r"unknown option 'coutdown' \(did you mean 'countdown'\?\)"),
    ],
)
def test_what_has_no_counterpart_is_refused_where_it_is_called(options: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        add.apply_async((1, 2), **options)


def test_a_bound_task_says_what_it_can_not_do() -> None:
    with pytest.raises(TypeError, match=r"self.retry\(args=…\) has no counterpart"):
        clumsy("args")
    with pytest.raises(AttributeError, match=r"self\.update_state has no counterpart here; self\.context is"):
        clumsy("update_state")
    with pytest.raises(RuntimeError, match=r"self\.request: expected to run as a job"):
        clumsy("request")
    with pytest.raises(TypeError, match="expected a function whose first argument is self, got"):
        shared_task(bind=True)(break_down.func)


def test_every_option_of_celerys_apply_async_is_known_or_refused_by_name() -> None:
    named = set(inspect.signature(CeleryOwn.apply_async).parameters) - {"self", "options", "producer"}

    assert named <= OF_CALL | set(WITHOUT)
    assert OF_TASK.isdisjoint(WITHOUT)
    assert celery.__version__ >= "5.4"
