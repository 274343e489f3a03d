"""What a job is about and where it comes from: kept with it wherever it goes, found by an index."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from djqueue import task
from djqueue.api import current
from djqueue.compat import InvalidTask
from djqueue.exceptions import ArgumentsError
from djqueue.models import DeadLetter, History, Job
from djqueue.policy.ids import uuid7
from djqueue.policy.search import Search
from djqueue.store import search
from djqueue.testing import run_jobs
from testproject.shop.models import Order
from testproject.shop.tasks import noop, send_receipt
from tests.admin.test_plans import scanned
from tests.store.factories import ALIAS, PARTITION_FOR_ALL

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def tables(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(PARTITION_FOR_ALL)


@pytest.fixture
def order() -> Order:
    return Order.objects.create(number="A1", customer_email="a@example.org", total=Decimal(1))


@task()
def enqueue_another(fail: bool = False) -> None:
    """Enqueue a job, and perhaps fail."""
    noop.enqueue()
    if fail:
        raise ValueError("after that")


@task(max_attempts=1)
def die() -> None:
    """Fail for good."""
    raise ValueError("no")


@task()
async def say_which_job_runs() -> str:
    """Return the id of the job that runs, as a coroutine and the threads behind it see it."""
    return str(await sync_to_async(current.running_job.get)())


@task(subject=lambda number, **more: f"shop.order:{number}")
def about(number: int) -> None:
    """Do nothing with an order."""


@task(subject=lambda found: found)
def about_whatever(found: Any) -> None:
    """Do nothing."""


def subject_of(job: Any) -> Any:
    return job.options.get("subject")


def test_the_subject_of_a_call_is_written_as_model_and_key(order: Order) -> None:
    send_receipt.using(subject=order).enqueue(order.pk)

    assert subject_of(Job.objects.get()) == f"shop.order:{order.pk}"


def test_the_subject_of_a_task_is_a_function_of_the_arguments() -> None:
    about.enqueue(7)
    about.enqueue_many([(8,), {"number": 9}, (8,)])

    found = Job.objects.order_by("id").values_list("options", "args")
    assert sorted(options["subject"] for options, _ in found) == [f"shop.order:{n}" for n in (7, 8, 8, 9)]
    for options, args in found:
        number = args["kwargs"].get("number") or args["args"][0]
        assert options["subject"] == f"shop.order:{number}"


def test_many_jobs_with_several_subjects_are_written_all_or_none() -> None:
    with pytest.raises(ArgumentsError, match="subject: expected a model instance or text, got int"):
        about_whatever.enqueue_many([("a",), (7,)])

    assert Job.objects.count() == 0


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Order(), "expected a saved object"),
        (7, "expected a model instance or text, got int"),
        ("", "expected text, got an empty one"),
        ("x" * 301, "at most 300 characters"),
        ("a\0", "without NUL"),
    ],
)
def test_what_is_no_subject_is_refused_at_once(value: Any, said: str) -> None:
    with pytest.raises(InvalidTask, match=said):
        noop.using(subject=value)


def test_a_function_that_returns_none_means_no_subject() -> None:
    about_whatever.enqueue(None)

    assert Job.objects.get().options == {}


def test_a_subject_stays_with_the_job_to_its_end(order: Order) -> None:
    noop.using(subject=order).enqueue()
    die.using(subject=order, tags=["t"]).enqueue()
    run_jobs()

    assert subject_of(History.objects.get()) == f"shop.order:{order.pk}"
    assert DeadLetter.objects.get().options == {"tags": ["t"], "subject": f"shop.order:{order.pk}"}
    assert len(search.page(ALIAS, Search(subject=f"shop.order:{order.pk}")).hits) == 2


def test_a_job_that_a_handler_enqueues_knows_its_parent() -> None:
    parent = enqueue_another.enqueue()
    run_jobs()

    child = History.objects.exclude(pk=parent.id).get()
    assert child.options == {"parent": parent.id}
    assert [hit.id for hit in search.page(ALIAS, Search(parent=UUID(parent.id))).hits] == [child.pk]


def test_a_coroutine_knows_which_job_it_is() -> None:
    job = say_which_job_runs.enqueue()
    run_jobs()

    assert History.objects.get().result == job.id


def test_outside_of_handlers_there_is_no_parent() -> None:
    enqueue_another.enqueue()
    run_jobs()

    assert current.running_job.get() is None
    noop.enqueue()
    assert Job.objects.get().options == {}


@pytest.fixture
def many() -> Iterator[str]:
    """100,000 jobs in each table, of which three are about one object."""
    key = 'case when n % 40000 = 7 then \'{"subject": "shop.order:7"}\' else \'{"tags": ["a"]}\' end::jsonb'
    common = f"'q', 't', '', '{{}}', '[]', {key}"
    with connection.cursor() as cursor:
        cursor.execute(
            f"""insert into djqueue_job (id, queue_name, task_name, tenant_id, args, errors, options)
            select gen_random_uuid(), {common} from generate_series(1, 100000) n"""
        )
        cursor.execute(
            f"""insert into djqueue_history (id, finished_at, created_at, lease_token, attempts, interruptions, runs,
            priority, outcome, worker_ids, queue_name, task_name, tenant_id, args, errors, options)
            select gen_random_uuid(), now(), now(), 1, 1, 0, 1, 0, 'succeeded', '{{}}', {common}
            from generate_series(1, 100000) n"""
        )
        cursor.execute(
            f"""insert into djqueue_dead_letter (id, seq, died_at, created_at, lease_token, priority, attempts,
            max_attempts, interruptions, runs, reason, lane, on_dead, worker_ids, queue_name, task_name, tenant_id,
            args, errors, options)
            select gen_random_uuid(), n, now(), now(), 1, 0, 8, 8, 0, 1, 'r', '', 'skip', '{{}}', {common}
            from generate_series(1, 100000) n"""
        )
        cursor.execute("analyze djqueue_job; analyze djqueue_history; analyze djqueue_dead_letter")
    yield "shop.order:7"


@pytest.mark.slow
@pytest.mark.parametrize("statement", [search.LIVE_EXACT, search.HISTORY_EXACT, search.DEAD_EXACT])
@pytest.mark.parametrize("analysed", [True, False])
def test_the_jobs_of_an_object_are_found_by_their_index(many: str, statement: str, analysed: bool) -> None:
    params = search.params_of(Search(subject=many), search.TOP, None) | {"limit": 51}
    with connection.cursor() as cursor:
        if not analysed:
            cursor.execute("delete from pg_statistic where starelid = 'djqueue_job'::regclass")
        cursor.execute(f"explain (analyze, timing off, format json) {statement}", params)
        found = cursor.fetchone()[0]
    plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    assert sum(scanned(plan)) == 3


def test_ids_are_what_a_parent_is() -> None:
    token = current.running_job.set(uuid7())
    try:
        noop.enqueue_many([(1,), (2,)])
    finally:
        current.running_job.reset(token)

    assert len({job.options["parent"] for job in Job.objects.all()}) == 1
