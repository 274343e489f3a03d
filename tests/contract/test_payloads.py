"""Versions of payloads from the enqueue to the handler: upgraded before each attempt, telling where that fails."""

import json
import pickle
from typing import Any

import pytest
from django.db import connection

from djqueue.compat import TaskResultStatus
from djqueue.store import letters
from djqueue.testing import run_jobs
from tests.contract import versioned
from tests.contract.versioned import SEEN, bill

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SEEN.clear()


def written_as(version: int | None, *args: Any, **kwargs: Any) -> str:
    """Enqueue a job as the code of an earlier (or later) version has; return its id."""
    id_ = bill.enqueue(order_id=7, cents=1).id
    options = "{}" if version is None else json.dumps({"version": version})
    with connection.cursor() as cursor:
        cursor.execute(
            "update djqueue_job set args = %s, options = %s where id = %s",
            [json.dumps({"args": args, "kwargs": kwargs}), options, id_],
        )
    return id_


def options_of(id_: str, table: str = "djqueue_job") -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute(f"select options::text from {table} where id = %s", [id_])
        found: dict[str, Any] = json.loads(cursor.fetchone()[0])
    return found


def test_the_version_stands_with_the_job_and_version_1_does_not() -> None:
    assert options_of(bill.enqueue(order_id=7, cents=1).id) == {"version": 3}


@pytest.mark.parametrize(
    ("version", "args", "kwargs"),
    [(None, [7], {"total": "9.90"}), (2, [], {"order_id": 7, "total": "9.90"}), (3, [], {"order_id": 7, "cents": 990})],
)
def test_a_job_of_any_earlier_version_reaches_the_handler_as_it_is_now(
    version: int | None, args: list[Any], kwargs: dict[str, Any]
) -> None:
    id_ = written_as(version, *args, **kwargs)

    assert run_jobs().succeeded == 1
    assert SEEN == [{"order_id": 7, "cents": 990}]
    assert bill.get_result(id_).kwargs == kwargs


def test_a_job_under_a_former_name_is_upgraded_too() -> None:
    id_ = written_as(None, 7, total="9.90")
    with connection.cursor() as cursor:
        cursor.execute("update djqueue_job set task_name = 'shop.old.bill' where id = %s", [id_])

    assert run_jobs().succeeded == 1
    assert SEEN == [{"order_id": 7, "cents": 990}]


def test_a_failing_upgrade_is_permanent_and_says_which_step_failed() -> None:
    id_ = written_as(2, order_id=7, total="a lot")

    run_jobs(due_now=True)

    result = bill.get_result(id_)
    assert (result.status, result.attempts, SEEN) == (TaskResultStatus.FAILED, 1, [])
    with connection.cursor() as cursor:
        cursor.execute("select reason from djqueue_dead_letter where id = %s", [id_])
        (reason,) = cursor.fetchone()
    assert "versioned.bill: upgrades[2]: the upgrade of the arguments failed with ValueError: could not" in reason
    assert "mend it and requeue" in reason


def test_a_version_that_is_none_kills_that_job_alone() -> None:
    id_ = written_as(None, 7, total="9.90")
    with connection.cursor() as cursor:
        cursor.execute("""update djqueue_job set options = '{"version": "three"}' where id = %s""", [id_])

    assert run_jobs().states == {"dead": 1}


def test_run_jobs_names_a_version_that_is_newer_than_the_code() -> None:
    written_as(4, order_id=7, euros=9)

    with pytest.raises(LookupError, match=r"expected version 3 of tests.contract.versioned.bill or .* version 4"):
        run_jobs()


def test_a_duplicate_that_replaces_the_arguments_replaces_their_version() -> None:
    id_ = written_as(2, order_id=7, total="9.90")

    assert bill.using(on_conflict="replace").enqueue(order_id=8, cents=5).changed
    assert options_of(id_) == {"version": 3}

    id_ = written_as(2, order_id=7, total="9.90")
    assert bill.using(on_conflict="reschedule").enqueue(order_id=8, cents=5).changed
    assert options_of(id_) == {"version": 2}


def test_edited_arguments_of_a_dead_letter_have_the_version_that_they_were_checked_against() -> None:
    id_ = written_as(2, order_id=7, total="a lot")
    run_jobs()

    letters.requeue_edited("default", bill.get_result(id_).id, '{"args": [], "kwargs": {}}', version=3)  # type: ignore[arg-type]

    assert options_of(id_)["version"] == 3


def test_a_task_with_upgrades_crosses_process_borders() -> None:
    assert pickle.loads(pickle.dumps(versioned.bill)).upgrades is bill.upgrades
