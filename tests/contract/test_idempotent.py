"""`djqueue.testing.assert_idempotent`: it lets pass what is idempotent, and shows of the rest what it leaves behind."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import override_settings

from djqueue import JobContext, compat, task
from djqueue.testing import assert_idempotent
from testproject.shop.models import Counter, Order, Receipt
from testproject.shop.tasks import noop
from tests.contract.examples import add

DUMMY = {"BACKEND": f"{type(compat.task_backends).__module__}.backends.dummy.DummyBackend", "QUEUES": []}


@task()
def get_or_create(name: str) -> None:
    """Idempotent, by a unique constraint."""
    Counter.objects.get_or_create(name=name)


@task()
def create_or_pass(number: str) -> None:
    """Idempotent, by a unique constraint that refuses."""
    try:
        with transaction.atomic():
            Order.objects.create(number=number, customer_email="a@example.com", total=1)
    except IntegrityError:
        pass


@task()
def create(order_id: int) -> None:
    """Not idempotent."""
    Receipt.objects.create(order_id=order_id)


@task(atomic=True)
def create_atomically(order_id: int) -> None:
    """As if it were idempotent: the queue sees to it."""
    Receipt.objects.create(order_id=order_id)


@task()
def create_durably(order_id: int) -> None:
    """Not idempotent, in a transaction of its own."""
    with transaction.atomic(durable=True):
        Receipt.objects.create(order_id=order_id)


@task()
def look_then_create(order_id: int) -> None:
    """Idempotent, as long as nobody does the same at the same time."""
    if not Receipt.objects.filter(order_id=order_id).exists():
        Receipt.objects.create(order_id=order_id)


@task()
def look_under_a_lock_then_create(name: str, order_id: int) -> None:
    """Idempotent: the second attempt waits for the first."""
    with transaction.atomic():
        Counter.objects.select_for_update().get(name=name)
        if not Receipt.objects.filter(order_id=order_id).exists():
            Receipt.objects.create(order_id=order_id)


@task()
def refuse_the_second_time(number: str) -> None:
    """It harms nothing, but a job that runs again never ends well."""
    with transaction.atomic():
        Order.objects.create(number=number, customer_email="a@example.com", total=1)


@task(takes_context=True)
def write_down_the_attempt(context: JobContext, name: str) -> None:
    """Idempotent but for a column that says who was last."""
    Counter.objects.update_or_create(name=name, defaults={"value": context.lease_token})


@task()
def enqueue_another(number: int) -> None:
    """Not idempotent: each run enqueues a job."""
    noop.enqueue(number)


@task()
def enqueue_one(number: int) -> None:
    """Idempotent while the job waits."""
    noop.using(dedupe_key=f"noop:{number}").enqueue(number)


@task()
def fail() -> None:
    """Always fails."""
    raise RuntimeError("no luck")


IN_ONE_TRANSACTION = pytest.param(False, marks=pytest.mark.django_db, id="in one transaction")
WITH_REAL_COMMITS = pytest.param(True, marks=pytest.mark.django_db(transaction=True), id="with real commits")


@pytest.fixture(params=[IN_ONE_TRANSACTION, WITH_REAL_COMMITS])
def either(request: pytest.FixtureRequest) -> bool:
    """Both kinds of test; whether they commit."""
    return bool(request.param)


def test_what_the_database_keeps_unique_is_idempotent(either: bool) -> None:
    assert_idempotent(get_or_create, "a", tables=[Counter])
    assert_idempotent(create_or_pass, "n1", tables=[Order, "shop_counter"])

    assert Counter.objects.count() == int(either)  # of a TestCase nothing stays, else the effect of one run


def test_what_is_created_anew_each_time_is_not(either: bool) -> None:
    with pytest.raises(
        AssertionError, match=r"(?s)test_idempotent.create is not idempotent: .*shop_receipt:\n  \+ {.*"
    ) as t:
        assert_idempotent(create, 7, tables=[Counter, Receipt])

    said = str(t.value)
    assert ("run twice at once" if either else "run again after a crash between its effect and the ack") in said
    assert '"order_id": 7' in said
    assert "shop_counter" not in said
    assert "@task(atomic=True)" in said


def test_a_durable_block_is_no_hindrance(either: bool) -> None:
    with pytest.raises(AssertionError, match="create_durably is not idempotent"):
        assert_idempotent(create_durably, 7, tables=[Receipt])


def test_an_atomic_handler_passes_because_its_ack_is_part_of_its_transaction(either: bool) -> None:
    assert_idempotent(create_atomically, 7, tables=[Receipt])


def test_a_look_before_the_write_is_found_out_where_two_attempts_can_run_side_by_side(either: bool) -> None:
    if not either:
        assert_idempotent(look_then_create, 7, tables=[Receipt])
        return
    with pytest.raises(AssertionError, match="run twice at once, by one attempt with a stale token"):
        assert_idempotent(look_then_create, 7, tables=[Receipt])


def test_a_look_under_a_lock_is_fine(either: bool) -> None:
    Counter.objects.create(name="lock")

    assert_idempotent(look_under_a_lock_then_create, "lock", 7, tables=[Receipt])


def test_a_handler_that_fails_when_it_runs_again_is_found_out(either: bool) -> None:
    with pytest.raises(AssertionError, match=r"(?s)must succeed when it runs again after a crash.*IntegrityError"):
        assert_idempotent(refuse_the_second_time, "n1", tables=[Order])


def test_a_handler_that_always_fails_is_found_out(db: None) -> None:
    with pytest.raises(AssertionError, match=r"(?s)must succeed when it runs.*RuntimeError: no luck"):
        assert_idempotent(fail, tables=[Order])


def test_columns_may_be_left_out(db: None) -> None:
    with pytest.raises(AssertionError, match='"value"'):
        assert_idempotent(write_down_the_attempt, name="a", tables=[Counter])

    assert_idempotent(write_down_the_attempt, name="a", tables=[Counter], ignore_columns=["value"])


def test_jobs_that_a_handler_enqueues_count_as_effects(db: None) -> None:
    with pytest.raises(AssertionError, match=r"(?s)djqueue_job:\n  \+ .*shop.tasks.noop"):
        assert_idempotent(enqueue_another, 1, tables=["djqueue_job"])

    assert_idempotent(enqueue_one, 1, tables=["djqueue_job"])


@pytest.mark.parametrize("tables", [[], "shop_receipt"])
def test_at_least_one_table_is_named(tables: Any) -> None:
    with pytest.raises(ValueError, match="expected a list of models or names of tables, at least one"):
        assert_idempotent(create, 7, tables=tables)


def test_other_backends_have_nothing_to_test() -> None:
    with override_settings(TASKS={"default": DUMMY}):
        with pytest.raises(TypeError, match="expected a task of a djqueue backend, got one of DummyBackend"):
            assert_idempotent(add, 1, tables=[Receipt])
