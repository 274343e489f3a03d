"""`assert_enqueued` and its kin: what fits, and what a test is told when it is wrong."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from djqueue.testing import (
    aassert_enqueued,
    aassert_not_enqueued,
    arun_jobs,
    assert_enqueued,
    assert_not_enqueued,
    enqueued_jobs,
    run_jobs,
)
from testproject.shop.models import Receipt
from testproject.shop.tasks import call_partner, make_thumbnail, noop, send_receipt
from tests.contract.examples import add, add_later, count_receipts
from tests.processes import ROOT

MOMENT = datetime(2040, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)

in_transaction = pytest.mark.django_db


def told(task: Any = send_receipt, **wish: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_enqueued(task, **wish)
    return str(caught.value)


@in_transaction
def test_arguments_fit_whether_given_by_position_or_by_name_and_with_defaults() -> None:
    make_thumbnail.enqueue("a.png")
    make_thumbnail.enqueue(image="b.png", width=10)

    assert [job.args for job in assert_enqueued(make_thumbnail, args=["a.png"], count=1)] == [["a.png"]]
    assert_enqueued(make_thumbnail, kwargs={"width": 200, "image": "a.png"}, count=1)
    assert_enqueued(make_thumbnail, args=("b.png", 10), queue_name="images", count=1)
    assert_enqueued(make_thumbnail, count=2)
    assert_not_enqueued(make_thumbnail, args=["b.png"])
    assert_not_enqueued(noop)


@in_transaction
def test_what_the_worker_gives_before_the_arguments_does_not_count() -> None:
    call_partner.enqueue(7, failures=0)

    assert_enqueued(call_partner, args=[7], kwargs={"failures": 0})


@in_transaction
def test_tuples_fit_the_lists_that_they_become() -> None:
    noop.enqueue((1, 2))  # type: ignore[arg-type]

    assert_enqueued(noop, args=[(1, 2)])
    assert_enqueued(noop, args=[[1, 2]])


@in_transaction
def test_a_job_is_found_wherever_it_has_gone() -> None:
    add.enqueue(1, 2)
    add.enqueue(1, right="x")  # type: ignore[arg-type]
    run_jobs()

    assert [str(job.state) for job in assert_enqueued(add, count=2)] == ["succeeded", "scheduled"]
    assert len(enqueued_jobs()) == 2


@in_transaction
@pytest.mark.parametrize(
    ("given", "fits", "fails"),
    [
        (HOUR, HOUR, timedelta(minutes=59)),
        (HOUR, (timedelta(minutes=59), timedelta(minutes=61)), (timedelta(0), timedelta(minutes=59))),
        (MOMENT, MOMENT, MOMENT + HOUR),
        (MOMENT, (MOMENT - HOUR, MOMENT), (MOMENT + HOUR, MOMENT + 2 * HOUR)),
        (None, timedelta(0), HOUR),
    ],
)
def test_when_a_job_is_due_is_counted_from_its_enqueue_or_given(given: Any, fits: Any, fails: Any) -> None:
    noop.using(run_after=given).enqueue()

    assert_enqueued(noop, run_after=fits)
    assert_not_enqueued(noop, run_after=fails)
    assert "due at another time" in told(noop, run_after=fails)


@in_transaction
def test_a_job_that_has_ended_is_due_no_more() -> None:
    noop.enqueue()
    run_jobs()

    assert "it has ended, so it is due no more" in told(noop, run_after=timedelta(0))


@in_transaction
def test_a_failure_shows_what_there_is_and_in_what_it_differs() -> None:
    send_receipt.enqueue(7)
    send_receipt.using(run_after=HOUR).enqueue(order_id=8)

    said = told(args=[9], queue_name="default")

    assert said == (
        "assert_enqueued: expected at least 1 job of testproject.shop.tasks.send_receipt with (order_id=9) in queue "
        "'default', got 0.\n"
        "Of the task there are 2:\n"
        "  (order_id=7) queue=emails ready due at once\n"
        "      - order_id: expected 9, got 7; queue 'emails', expected 'default'\n"
        "  (order_id=8) queue=emails scheduled due after 1 h\n"
        "      - order_id: expected 9, got 8; queue 'emails', expected 'default'"
    )
    assert "expected 3 jobs of testproject.shop.tasks.send_receipt, got 2." in told(count=3)


@in_transaction
def test_a_failure_says_what_else_was_enqueued() -> None:
    assert told().endswith("Nothing was enqueued at all.")
    noop.enqueue_many([()] * 3)
    assert told().endswith("Nothing of the task was enqueued, but of: testproject.shop.tasks.noop (3).")


@in_transaction
def test_an_unwanted_job_is_shown() -> None:
    assert_not_enqueued()
    send_receipt.enqueue(7)

    with pytest.raises(
        AssertionError, match=r"expected no job of .*send_receipt, got 1:\n  \(order_id=7\) queue=emails"
    ):
        assert_not_enqueued(send_receipt)
    with pytest.raises(
        AssertionError, match=r"no job of any task, got 1:\n  testproject.shop.tasks.send_receipt \(0=7\)"
    ):
        assert_not_enqueued()


@in_transaction
def test_what_was_rolled_back_was_not_enqueued() -> None:
    with transaction.atomic():
        noop.enqueue()
        transaction.set_rollback(True)

    assert_not_enqueued()


@in_transaction
@pytest.mark.parametrize(
    ("task", "wish", "error", "said"),
    [
        (send_receipt.func, {}, TypeError, "expected a task.* got function; .* is the decorator missing"),
        (send_receipt, {"args": "7"}, TypeError, r"expected a list or tuple, got str; write args=\['7'\]"),
        (send_receipt, {"count": 0}, ValueError, "from 1, got 0; say assert_not_enqueued"),
        (send_receipt, {"run_after": 60}, TypeError, "expected a datetime or a timedelta"),
        (send_receipt, {"run_after": datetime(2040, 1, 1)}, ValueError, "with a time zone"),  # noqa: DTZ001
        (send_receipt, {"run_after": (HOUR, MOMENT)}, TypeError, "expected two datetimes or two timedeltas"),
    ],
)
def test_a_wish_that_can_not_be_meant_is_refused(
    task: Any, wish: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        assert_enqueued(task, **wish)


@in_transaction
def test_async_handlers_see_what_the_test_has_not_committed() -> None:
    Receipt.objects.create(order_id=1)

    result = count_receipts.enqueue()
    assert run_jobs().succeeded == 1

    result.refresh()
    assert result.return_value == 1


def test_pytests_plugin_imports_no_django() -> None:
    said = "import sys, djqueue.pytest_plugin; print(sorted(name for name in sys.modules if name.startswith('django')))"

    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, cwd=ROOT, check=True)

    assert done.stdout == "[]\n"


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_connection_left")
async def test_the_async_twins_do_the_same() -> None:
    await send_receipt.aenqueue(7)
    await add_later.aenqueue(1, 2)

    await aassert_enqueued(send_receipt, args=[7], count=1)
    assert (await arun_jobs()).succeeded == 2
    await aassert_not_enqueued(noop)
    assert await Receipt.objects.aget(order_id=7)
