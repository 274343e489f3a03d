"""How a task says when it is tried again, and what its exceptions mean: run through the steps of a worker."""

import urllib.error
from email.message import Message

import pytest
from django.db import connection

from djqueue import FixedRetry, RetryPolicy, task
from djqueue.compat import InvalidTask
from djqueue.testing import run_jobs

pytestmark = pytest.mark.django_db


class Broken(Exception):
    """A parent."""


class VeryBroken(Broken):
    """Its child."""


def _raise(name: str) -> None:
    message = Message()
    message["Retry-After"] = "500"
    raise {
        "Broken": Broken("broken"),
        "VeryBroken": VeryBroken("very broken"),
        "ValueError": ValueError("no"),
        "busy": urllib.error.HTTPError("http://partner.example", 503, "busy", message, None),
    }[name]


@task(max_attempts=3, dead_on=Broken, retry=FixedRetry(seconds=60))
def dies_of_broken(name: str) -> None:
    _raise(name)


@task(max_attempts=3, retry_on=[VeryBroken], retry=lambda attempt: attempt * 100)
def retries_very_broken(name: str) -> None:
    _raise(name)


@task(max_attempts=3, ignore_on=(Broken,))
def ignores_broken(name: str) -> None:
    _raise(name)


@task(max_attempts=3, retry=FixedRetry(seconds=1))
def asks_a_partner(name: str) -> None:
    _raise(name)


@task(max_attempts=3, retry=lambda attempt: 1 / 0)
def has_a_broken_policy(name: str) -> None:
    _raise(name)


def waits() -> list[int]:
    """The seconds that scheduled jobs still wait."""
    with connection.cursor() as cursor:
        cursor.execute("select round(extract(epoch from run_at - clock_timestamp())) from djqueue_job order by seq")
        return [int(row[0]) for row in cursor.fetchall()]


def test_exceptions_of_dead_on_are_permanent_and_subclasses_count() -> None:
    dies_of_broken.enqueue("VeryBroken")
    dies_of_broken.enqueue("ValueError")

    assert run_jobs().states == {"dead": 1, "scheduled": 1}
    assert waits() == [60]


def test_where_retry_on_names_some_all_others_are_permanent() -> None:
    retries_very_broken.enqueue("VeryBroken")
    retries_very_broken.enqueue("Broken")

    assert run_jobs().states == {"dead": 1, "scheduled": 1}
    assert waits() == [100]


def test_exceptions_of_ignore_on_end_the_job_as_cancelled() -> None:
    ignores_broken.enqueue("VeryBroken")

    assert run_jobs().states == {"cancelled": 1}


def test_a_partner_that_says_when_to_come_back_is_obeyed() -> None:
    asks_a_partner.enqueue("busy")

    run_jobs()

    assert waits() == [500]


def test_an_own_policy_that_fails_falls_back_to_the_default() -> None:
    has_a_broken_policy.enqueue("ValueError")

    assert run_jobs().states == {"scheduled": 1}


def test_a_job_runs_until_it_is_dead_where_waits_count_as_over() -> None:
    result = asks_a_partner.enqueue("busy")

    assert run_jobs(due_now=True).states == {"scheduled": 2, "dead": 1}
    assert len(asks_a_partner.get_result(result.id).errors) == 3


def test_the_timetable_of_a_tasks_retries_can_be_asked_for() -> None:
    assert [(w.attempt, w.longest) for w in retries_very_broken.retry_timetable()] == [(1, 100), (2, 200)]
    assert len(ignores_broken.using(max_attempts=1).retry_timetable()) == 0
    policy = RetryPolicy(base_seconds=10, jitter="equal")
    assert policy.wait(1) == (1, 10, 15, 20)


@pytest.mark.parametrize("name", ["retry_on", "dead_on", "ignore_on"])
def test_what_is_no_exception_class_is_refused(name: str) -> None:
    with pytest.raises(InvalidTask, match=f"{name}: expected exception classes, got 'Broken'"):
        task(**{name: ["Broken"]})(_raise)  # type: ignore[call-overload]
