"""R20: lists cost the same whatever the tables hold, and show no payload."""

import re
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from djqueue.admin import counting
from djqueue.models import CronFire, Queue, Worker
from djqueue.policy.ids import uuid7
from tests.admin import rows
from tests.admin.conftest import Login
from tests.admin.pages import MODELS, list_of, text_of

PAYLOAD = re.compile(r'"(args|kwargs_|result|errors|options|checkpoint|progress|task_names)"')


def fill(count: int) -> None:
    """So many rows for every list."""
    for number in range(count):
        rows.make_job()
        rows.make_scheduled_job()
        rows.make_running_job()
        rows.make_finished()
        rows.make_dead_letter()
        rows.make_entry(name=f"entry {number} of {count}")
        Queue.objects.create(name=f"queue {number} of {count}")
        Worker.objects.create(id=f"worker {number} of {count}", queues=["emails"], task_names=[rows.TASK])
        CronFire.objects.create(name=f"{count}", fire_at=timezone.now(), fired_at=timezone.now(), job_id=uuid4())


def queries_of(client: Client, address: str) -> list[str]:
    """The statements behind a page."""
    with CaptureQueriesContext(connection) as found:
        text_of(client.get(address))
    return [query["sql"] for query in found]


@pytest.mark.parametrize("model", MODELS)
def test_r20_a_list_takes_the_same_number_of_queries_for_one_row_and_for_many(login: Login, model: str) -> None:
    client = login("*")
    fill(1)
    few = queries_of(client, list_of(model))
    fill(20)

    many = queries_of(client, list_of(model))

    assert len(many) == len(few)


@pytest.mark.parametrize("model", [model for model in MODELS if model != "job"])
def test_r20_no_list_counts_without_a_limit(login: Login, model: str) -> None:
    client = login("*")
    fill(2)

    counts = [sql for sql in queries_of(client, list_of(model)) if sql.startswith("SELECT COUNT(")]

    assert len(counts) == 1
    assert f"LIMIT {counting.MOST_COUNTED + 1}" in counts[0]


@pytest.mark.parametrize("model", ["job", "history", "deadletter", "worker"])
@pytest.mark.parametrize("query", ["", "?queue=emails", "?q=testproject.shop.tasks.send_receipt"])
def test_r20_no_list_reads_a_payload_column(login: Login, model: str, query: str) -> None:
    client = login("*")
    fill(2)

    statements = queries_of(client, list_of(model) + (query if model != "worker" else ""))

    assert not [sql for sql in statements if PAYLOAD.search(sql)]


def test_a_list_says_how_many_rows_there_are_at_least(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST_COUNTED", 60)
    client = login("view_deadletter")
    for _ in range(61):
        rows.make_dead_letter()

    first = text_of(client.get(list_of("deadletter")))
    last = text_of(client.get(list_of("deadletter") + "?p=2"))

    assert "60+ dead letters" in " ".join(first.split())
    assert first.count("field-job") == 50
    assert last.count("field-job") == 10


def test_a_list_counts_few_rows_exactly(login: Login) -> None:
    client = login("view_deadletter")
    for _ in range(3):
        rows.make_dead_letter()

    assert "3 dead letters" in " ".join(text_of(client.get(list_of("deadletter"))).split())


@pytest.mark.parametrize("separators", [True, False])
def test_a_bounded_count_is_legible_with_and_without_thousand_separators(
    login: Login, settings: Any, monkeypatch: pytest.MonkeyPatch, separators: bool
) -> None:
    settings.USE_THOUSAND_SEPARATOR = separators
    monkeypatch.setattr(counting, "MOST_COUNTED", 1_234)
    monkeypatch.setattr(counting.BoundedPaginator, "count", counting.AtLeast(1_234))

    page = " ".join(text_of(login("*").get(list_of("deadletter"))).split())

    assert ("1,234 dead letters" if separators else "1,234+ dead letters") in page


def test_a_job_is_found_by_its_id(login: Login) -> None:
    client = login("view_job")
    wanted, other = rows.make_job(), rows.make_job()

    page = text_of(client.get(f"{list_of('job')}?q={wanted.pk}"))

    assert str(wanted.pk) in page
    assert str(other.pk) not in page


def test_history_without_an_index_is_searched_among_the_newest_only(
    login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "NEWEST", 2)
    client = login("view_history")
    old, *new = [rows.make_finished(outcome="cancelled", id=id_) for id_ in sorted(uuid7() for _ in range(3))]
    address = list_of("history")

    by_outcome = text_of(client.get(f"{address}?outcome=cancelled"))
    by_task = text_of(client.get(f"{address}?q={rows.TASK}"))
    by_id = text_of(client.get(f"{address}?q={old.pk}"))

    for page in (by_outcome, by_task):
        assert str(old.pk) not in page
        assert all(str(job.pk) in page for job in new)
    assert str(old.pk) in by_id


def test_a_list_keeps_its_order_whatever_the_address_asks(login: Login) -> None:
    client = login("view_history")
    rows.make_finished()

    asked = queries_of(client, list_of("history") + "?o=2.-3")

    orders = [sql.partition("ORDER BY ")[2] for sql in asked if 'FROM "djqueue_history"' in sql and "ORDER BY" in sql]
    assert orders == ['"djqueue_history"."id" DESC']


@pytest.mark.parametrize("query", ["args__args__0__startswith=c", "errors__0__message=x", "task_name__contains=a"])
def test_r20_a_list_cannot_be_asked_about_columns_it_does_not_show(login: Login, query: str) -> None:
    client = login("view_history")
    rows.make_finished()

    assert client.get(f"{list_of('history')}?{query}").status_code == 400


def test_facets_which_count_every_choice_are_off(login: Login) -> None:
    client = login("view_history")
    rows.make_finished()

    counts = [
        sql for sql in queries_of(client, list_of("history") + "?_facets=True") if sql.startswith("SELECT COUNT(")
    ]

    assert len(counts) == 1
