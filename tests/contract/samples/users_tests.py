"""A user's tests, of every kind that Django and pytest-django have. `tests.contract.test_testing` runs them as a user
would, in processes of their own: without migrations, with a kept database, in parallel, beside a SQLite database."""

from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.db import connections, transaction
from django.test import TestCase, TransactionTestCase

from djqueue.compat import TaskResultStatus
from djqueue.exceptions import TransactionError
from djqueue.pytest_plugin import Clocks, Jobs
from djqueue.testing import (
    aassert_enqueued,
    arun_jobs,
    assert_enqueued,
    assert_idempotent,
    assert_not_enqueued,
    freeze,
    run_jobs,
    travel,
)
from testproject.shop.models import Order, Receipt
from testproject.shop.tasks import call_partner, send_receipt

DAY = timedelta(days=1)


def order(number: str = "1") -> Order:
    """Take an order, as a view would."""
    with transaction.atomic():
        taken = Order.objects.create(number=number, customer_email="customer@example.com", total="9.90")
        send_receipt.enqueue(taken.pk)
    return taken


class InOneTransaction(TestCase):
    """Nothing of this is ever committed."""

    databases = {"default", "other"}

    @classmethod
    def setUpTestData(cls) -> None:
        """A job from before the test; its savepoint is the class's."""
        cls.early = call_partner.enqueue(1, failures=0)

    def test_an_order_gets_its_receipt(self) -> None:
        taken = order()

        assert run_jobs().succeeded == 2
        assert Receipt.objects.get().order_id == taken.pk

    def test_failures_are_retried_as_by_a_worker(self) -> None:
        result = call_partner.enqueue(2, failures=2)

        run_jobs(due_now=True)

        result.refresh()
        assert (result.status, result.attempts) == (TaskResultStatus.SUCCESSFUL, 3)

    def test_what_was_enqueued_is_known_before_it_runs(self) -> None:
        taken = order()

        assert_enqueued(send_receipt, args=[taken.pk], queue_name="emails", count=1)
        assert_not_enqueued(send_receipt, args=[taken.pk + 1])

    def test_time_passes_for_the_database_alone(self) -> None:
        call_partner.using(run_after=DAY).enqueue(2, failures=0)
        assert run_jobs().succeeded == 1
        assert_enqueued(call_partner, args=[2], kwargs={"failures": 0}, run_after=DAY)

        with travel(DAY):
            assert run_jobs().succeeded == 1

    def test_the_receipt_is_written_once_whatever_happens(self) -> None:
        assert_idempotent(send_receipt, order().pk + 1, tables=[Receipt])

    async def test_async_tests_run_in_the_same_transaction(self) -> None:
        await send_receipt.aenqueue(7)

        await aassert_enqueued(send_receipt, args=[7])
        assert (await arun_jobs()).succeeded == 2
        assert await Receipt.objects.aget(order_id=7)

    def test_on_commit_is_not_needed(self) -> None:
        with self.captureOnCommitCallbacks() as callbacks:
            order()

        assert callbacks == []
        assert run_jobs().succeeded == 2

    def test_the_transactions_of_the_test_case_on_both_databases_are_no_mistake(self) -> None:
        with transaction.atomic(using="other"):
            assert call_partner.enqueue(3).created


class WithCommits(TransactionTestCase):
    """Everything commits, and is flushed after the test."""

    databases = {"default", "other"}

    def test_an_order_gets_its_receipt(self) -> None:
        order()

        assert run_jobs().succeeded == 1
        assert Receipt.objects.count() == 1

    def test_the_clock_stands_still(self) -> None:
        with freeze() as clock:
            call_partner.using(run_after=DAY).enqueue(2, failures=0)
            assert_enqueued(call_partner, run_after=clock.now + DAY)
            clock.move(DAY)
            assert run_jobs().succeeded == 1

    def test_nothing_is_left_of_the_test_before(self) -> None:
        order()

        assert run_jobs().attempts == 1

    def test_a_transaction_on_the_other_database_only_is_refused(self) -> None:
        with transaction.atomic(using="other"), pytest.raises(TransactionError):
            call_partner.enqueue(3)

    def test_djqueue_has_no_tables_in_a_database_that_is_not_postgresql(self) -> None:
        tables = set(connections["other"].introspection.table_names())

        assert "shop_order" in tables
        assert not {name for name in tables if name.startswith("djqueue_") and name in HOT}


HOT = {"djqueue_job", "djqueue_history"}


@pytest.mark.django_db
def test_with_the_db_mark() -> None:
    order()

    assert run_jobs().succeeded == 1


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_with_the_transactional_mark() -> None:
    order()

    assert run_jobs().succeeded == 1


def test_with_the_db_fixture(db: None) -> None:
    order()

    assert run_jobs().succeeded == 1


def test_with_the_fixtures(djqueue_jobs: Jobs, djqueue_clock: Clocks) -> None:
    order()
    call_partner.using(run_after=DAY).enqueue(2, failures=0)

    djqueue_jobs.assert_enqueued(send_receipt, count=1)
    assert djqueue_jobs.run().succeeded == 1
    djqueue_clock.travel(DAY)
    assert djqueue_jobs.run().succeeded == 1


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
async def test_with_async_fixtures(djqueue_jobs: Jobs) -> None:
    await send_receipt.aenqueue(7)

    await djqueue_jobs.aassert_enqueued(send_receipt, args=[7])
    assert (await djqueue_jobs.arun()).succeeded == 1
    await sync_to_async(connections.close_all)()
