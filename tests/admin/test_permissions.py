"""R20: whoever lacks a permission changes nothing, through whatever address or form."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pytest
from django.db.models import Model
from django.test import Client
from django.utils import timezone

from djqueue.models import CronEntry, CronFire, DeadLetter, History, Job, Queue, Worker
from tests.admin import rows
from tests.admin.conftest import Login
from tests.admin.pages import MODELS, act, add_to, list_of, page_of

TABLES: tuple[type[Model], ...] = (CronEntry, CronFire, DeadLetter, History, Job, Queue, Worker)
VIEWS = tuple(f"view_{model}" for model in MODELS)
QUEUE = {
    "name": "emails",
    "weight": "9",
    "history_days": "9",
    "paused_until_0": "2040-01-01",
    "paused_until_1": "00:00",
    "paused_reason": "mine",
}
ENTRY = {
    "name": "other",
    "enabled": "on",
    "task_name": "testproject.shop.tasks.noop",
    "args": "[]",
    "kwargs": "{}",
    "queue_name": "",
    "schedule": "0 5 * * *",
    "timezone": "UTC",
}
FORM = {**QUEUE, **ENTRY, "post": "yes", "priority": "50", "task_name": "testproject.shop.tasks.noop"}

ACTIONS: list[tuple[str, Callable[[], Model]]] = [
    ("retry_now", rows.make_scheduled_job),
    ("cancel", rows.make_job),
    ("cancel", rows.make_running_job),
    ("requeue", rows.make_dead_letter),
    ("pause", lambda: Queue.objects.create(name="emails")),
    ("resume", lambda: Queue.objects.create(name="emails", paused_until=rows.LAST_MOMENT)),
    ("delete_selected", rows.make_job),
    ("delete_selected", rows.make_dead_letter),
    ("delete_selected", rows.make_finished),
    ("delete_selected", rows.make_entry),
    ("delete_selected", lambda: Queue.objects.create(name="emails")),
]
PERMISSIONS = {
    "retry_now": "retry_job",
    "cancel": "cancel_job",
    "requeue": "requeue_deadletter",
    "pause": "pause_queue",
    "resume": "pause_queue",
}
WRITES = ("add_queue", "change_queue", "add_cronentry", "change_cronentry", "delete_cronentry")


def one_of_each() -> list[Model]:
    """A row for every page."""
    now = timezone.now()
    return [
        rows.make_scheduled_job(),
        rows.make_finished(),
        rows.make_dead_letter(),
        Queue.objects.create(name="emails"),
        Worker.objects.create(id="w1"),
        rows.make_entry(),
        CronFire.objects.create(name="nightly", fire_at=now, fired_at=now),
    ]


def everything() -> list[dict[str, Any]]:
    """All rows of all tables."""
    return list(chain.from_iterable(table._default_manager.order_by("pk").values() for table in TABLES))


def requests(client: Client, objects: list[Model]) -> Iterator[tuple[str, Any]]:
    """Everything that somebody could send to change something."""
    for obj in objects:
        model = str(obj._meta.model_name)
        yield f"change {model}", client.post(page_of(obj), {**FORM, "id": str(obj.pk)})
        yield f"delete {model}", client.post(page_of(obj, "delete"), FORM)
        yield f"add {model}", client.post(add_to(model), {**FORM, "name": "new"})
        for action in {name for name, _ in ACTIONS}:
            data = {"action": action, "index": "0", "_selected_action": [str(obj.pk)], "post": "yes"}
            yield f"{action} {model}", client.post(list_of(model), data)
            yield f"{action} all {model}", client.post(list_of(model), {**data, "select_across": "1"})
        yield f"edit list of {model}", client.post(list_of(model), {"form-0-id": str(obj.pk), "_save": "1", **FORM})


@pytest.mark.parametrize("permissions", [(), VIEWS, (*VIEWS, "view_payload")])
def test_r20_who_may_only_look_changes_nothing_by_any_address_or_action(
    login: Login, permissions: tuple[str, ...]
) -> None:
    client = login(*permissions)
    objects = one_of_each()
    before = everything()

    for what, response in requests(client, objects):
        assert response.status_code in (200, 302, 403), what
        assert everything() == before, what


def test_r20_who_has_no_permission_sees_no_page(login: Login) -> None:
    client = login()

    for obj in one_of_each():
        for address in (list_of(str(obj._meta.model_name)), page_of(obj), page_of(obj, "history")):
            assert client.get(address).status_code == 403, address


@pytest.mark.parametrize(("action", "make"), ACTIONS)
def test_r20_an_action_needs_its_own_permission(login: Login, action: str, make: Callable[[], Model]) -> None:
    needed = PERMISSIONS.get(action)
    others = [name for name in {*PERMISSIONS.values(), *WRITES} if name not in (needed, "delete_cronentry")]
    client = login(*VIEWS, *others)
    obj = make()
    before = everything()

    act(client, action, [obj], post="yes")

    assert everything() == before
    assert f'value="{action}"' not in client.get(list_of(str(obj._meta.model_name))).content.decode()


@pytest.mark.parametrize(("action", "make"), [pair for pair in ACTIONS if pair[0] in PERMISSIONS])
def test_r20_an_action_works_with_its_own_permission_alone(
    login: Login, action: str, make: Callable[[], Model]
) -> None:
    client = login(*VIEWS, PERMISSIONS[action])
    obj = make()
    before = everything()

    act(client, action, [obj])

    assert everything() != before


@pytest.mark.parametrize("model", ["job", "history", "deadletter", "worker", "cronfire"])
def test_r20_not_even_a_superuser_adds_changes_or_deletes_rows_of_the_queue(login: Login, model: str) -> None:
    client = login("*")
    obj = next(obj for obj in one_of_each() if obj._meta.model_name == model)
    before = everything()

    answers = [
        client.post(add_to(model), FORM),
        client.post(page_of(obj), FORM),
        client.post(page_of(obj, "delete"), {"post": "yes"}),
    ]

    assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert everything() == before


def test_r20_who_may_change_queues_but_not_pause_them_pauses_none(login: Login) -> None:
    client = login("view_queue", "change_queue", "add_queue")
    queue = Queue.objects.create(name="emails")

    client.post(page_of(queue), QUEUE)
    client.post(add_to("queue"), {**QUEUE, "name": "images"})

    queue.refresh_from_db()
    assert (queue.weight, queue.paused_until, queue.paused_reason, queue.paused_by) == (9, None, "", "")
    assert Queue.objects.get(name="images").paused_until is None


def test_r20_who_may_only_pause_changes_no_other_setting(login: Login) -> None:
    client = login("view_queue", "pause_queue")
    queue = Queue.objects.create(name="emails", weight=2)

    assert client.post(page_of(queue), QUEUE).status_code == 403
    queue.refresh_from_db()
    assert queue.weight == 2


def test_a_visitor_without_an_account_is_sent_to_the_login(tables: None) -> None:
    assert Client().get(list_of("job")).status_code == 302
