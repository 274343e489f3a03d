"""R20: each act has a permission of its own, does nothing without it, and leaves a log entry that says why.

The tables name every action and every address that changes something; one that is new and not in them fails here.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.messages import get_messages
from django.db.models import Model
from django.test import Client
from django.urls import URLPattern, reverse
from django.utils import timezone

from djqueue.models import BulkAct, Limiter, Pause, Queue, Tenant, Worker
from djqueue.policy.gates import Gate, gate
from djqueue.store import limits
from tests.admin import rows, worst
from tests.admin.addresses import MODELS, one_of_each, registered
from tests.admin.conftest import Login
from tests.admin.pages import list_of, page_of
from tests.admin.test_every_address import FORM, everything, views

Make = Callable[[], Model]
ENTRY = {"task_name": "testproject.shop.tasks.noop", "missed_max": "1"}
WHY = "because it must be"


def queue(**fields: Any) -> Model:
    return Queue.objects.create(name="emails", **fields)


def tenant() -> Model:
    return Tenant.objects.create(queue_name="emails", tenant_id="acme", gate=gate(Gate.TENANT, "acme"))


def limiter(**fields: Any) -> Model:
    return Limiter.objects.create(name=limits.of_key("partner"), label="key partner", declared_running=4, **fields)


def group(**fields: Any) -> Model:
    """A cause with a dead letter."""
    found = rows.make_group(**fields)
    rows.make_dead_letter(fingerprint=found.fingerprint)
    return found


def act_on_many() -> Model:
    return BulkAct.objects.create(act="cancel", created_at=timezone.now(), until=timezone.now())


def pause() -> Model:
    return Pause.objects.create(kind="tenant", name="acme", paused_until=rows.LAST_MOMENT)


def worker() -> Model:
    return Worker.objects.create(id="w1", supervisor_id="s1", seen_at=timezone.now())


ACTIONS: dict[tuple[str, str], tuple[str, Make]] = {
    ("bulkact", "stop"): ("cancel_job", act_on_many),
    ("circuit", "open_for_a_quarter"): ("operate_circuit", rows.make_circuit),
    ("circuit", "open_always"): ("operate_circuit", rows.make_circuit),
    ("circuit", "close"): ("operate_circuit", lambda: rows.make_circuit(state="open")),
    ("circuit", "reset"): ("operate_circuit", lambda: rows.make_circuit(state="open")),
    ("cronentry", "run_now"): ("run_cronentry", rows.make_entry),
    ("cronentry", "pause"): ("change_cronentry", rows.make_entry),
    ("cronentry", "resume"): ("change_cronentry", lambda: rows.make_entry(enabled=False)),
    ("deadletter", "requeue"): ("requeue_deadletter", rows.make_dead_letter),
    ("deadletter", "discard"): ("discard_deadletter", rows.make_dead_letter),
    ("worker", "restart"): ("order_worker", worker),
    ("worker", "stop"): ("order_worker", worker),
    ("errorgroup", "requeue_all"): ("requeue_deadletter", group),
    ("errorgroup", "mute"): ("triage_errorgroup", group),
    ("errorgroup", "resolve"): ("triage_errorgroup", group),
    ("errorgroup", "reopen"): ("triage_errorgroup", lambda: group(state="muted")),
    ("job", "retry_now"): ("retry_job", rows.make_scheduled_job),
    ("job", "cancel"): ("cancel_job", rows.make_job),
    ("limiter", "pause"): ("change_limiter", limiter),
    ("limiter", "resume"): ("change_limiter", lambda: limiter(paused_until=rows.LAST_MOMENT)),
    ("pause", "resume"): ("change_pauses", pause),
    ("queue", "pause"): ("pause_queue", queue),
    ("queue", "resume"): ("pause_queue", lambda: queue(paused_until=rows.LAST_MOMENT)),
    ("replay", "pause"): ("run_replay", rows.make_replay),
    ("replay", "resume"): ("run_replay", lambda: rows.make_replay(state="paused")),
    ("replay", "stop"): ("run_replay", rows.make_replay),
}
"""What an action on a list needs besides the permission to look, and a row that it changes."""

ONLY_LEADS_ON = {("errorgroup", "replay")}
"""Actions that lead to a form and change nothing themselves."""

FORMS: dict[str, tuple[tuple[str, ...], Make | None, dict[str, str]]] = {
    "job_bulk": (("cancel_job",), None, {"act": "cancel", "q": "queue:emails", "queue": "", "until": ""}),
    "job_copy": (("duplicate_job", "view_payload"), rows.make_job, {"arguments": '{"args": [8], "kwargs": {}}'}),
    "job_alter": (("edit_job",), rows.make_job, {"act": "queue"}),
    "history_copy": (("duplicate_job", "view_payload"), rows.make_finished, {}),
    "deadletter_copy": (("duplicate_job", "view_payload"), rows.make_dead_letter, {}),
    "deadletter_edit": (("edit_deadletter", "view_payload", "requeue_deadletter"), rows.make_dead_letter, {}),
    "orphans": (("cancel_job",), None, {"task": "old.gone"}),
    "queue_purge": (("purge_queue",), queue, {"name": "emails"}),
    "queue_change": (("change_queue",), queue, {"name": "emails"}),
    "queue_add": (("add_queue", "change_queue"), None, {}),
    "circuit_change": (("change_circuit",), rows.make_circuit, {"set_failure_ratio": "0.7"}),
    "cronentry_add": (("add_cronentry",), None, {**ENTRY, "name": "other"}),
    "cronentry_change": (("change_cronentry",), rows.make_entry, {**ENTRY, "name": "nightly"}),
    "cronentry_delete": (("delete_cronentry",), rows.make_entry, {}),
    "limiter_change": (("change_limiter",), limiter, {}),
    "tenant_add": (("add_tenant",), None, {"tenant_id": "acme"}),
    "tenant_change": (("change_tenant",), tenant, {"weight": "7"}),
    "pause_add": (("change_pauses",), None, {"kind": "tenant", "name": "acme"}),
    "replay_add": (("run_replay",), rows.make_dead_letter, {}),
}
"""Addresses whose forms change something: the permissions, a row, and what the form wants besides the usual."""

ONLY_SHOWS = {"overview", "doctor", "history_arguments", "job_arguments", "deadletter_arguments", "history_alter"}
ONLY_SHOWS |= {"deadletter_alter", "replay_change", "bulkact_change"}
"""Addresses that change nothing, whoever asks. So does what follows, unless it stands above."""

BY_DJANGO = ("_changelist", "_history", "_add", "_delete", "_change")


def names_of_addresses() -> set[str]:
    return {
        str(pattern.name).removeprefix("djqueue_")
        for page in registered().values()
        for pattern in page.get_urls()
        if isinstance(pattern, URLPattern) and pattern.name
    }


def tables_of_the_queue() -> list[Any]:
    """All rows, without the log: Django writes there as well that a form changed nothing."""
    return [list(model._default_manager.order_by("pk").values()) for model in MODELS]


def prepare(make: Make | None) -> Model | None:
    """The row of an act, beside those that acts on many would find."""
    if make is not queue:
        Queue.objects.get_or_create(name="emails")
    obj = make() if make is not None else None
    rows.make_job()
    rows.make_job(state="parked", parked_for="task:old.gone", task_name="old.gone")
    return obj


def send_action(client: Client, model: str, action: str, obj: Model) -> None:
    form = {"action": action, "index": "0", "_selected_action": [str(obj.pk)], "reason": WHY, "post": "yes"}
    client.post(list_of(model), {**FORM, **form})


def send_form(client: Client, name: str, obj: Model | None, form: dict[str, str]) -> Any:
    args = [obj.pk] if obj is not None and not name.endswith("_add") else []
    return client.post(reverse(f"admin:djqueue_{name}", args=args), {**FORM, "reason": WHY, **form})


def test_every_action_stands_in_the_table() -> None:
    found = {
        (str(model._meta.model_name), str(action if isinstance(action, str) else action.__name__))
        for model, page in registered().items()
        for action in page.actions or ()
    }
    assert found == set(ACTIONS) | ONLY_LEADS_ON


def test_every_address_stands_in_the_table() -> None:
    others = names_of_addresses() - set(FORMS) - ONLY_SHOWS
    assert {name for name in others if not name.endswith(BY_DJANGO)} == set()
    assert set(FORMS) | ONLY_SHOWS <= names_of_addresses()


@pytest.mark.parametrize(("model", "action"), ACTIONS)
def test_r20_an_action_does_nothing_without_its_own_permission(login: Login, model: str, action: str) -> None:
    needed, make = ACTIONS[model, action]
    client = login(*{*worst.permissions()} - {needed})
    obj = make()
    before = everything()

    send_action(client, model, action, obj)

    assert everything() == before


@pytest.mark.parametrize(("model", "action"), ACTIONS)
def test_r20_an_action_does_its_work_with_its_own_permission_alone_and_logs_why(
    login: Login, model: str, action: str
) -> None:
    needed, make = ACTIONS[model, action]
    client = login(*views(), needed)
    obj = make()
    before = type(obj)._default_manager.filter(pk=obj.pk).values().first(), everything()

    send_action(client, model, action, obj)

    entries = list(LogEntry.objects.all())
    after = type(obj)._default_manager.filter(pk=obj.pk).values().first(), everything()
    assert after != before
    assert entries
    assert any(WHY in entry.change_message for entry in entries), [entry.change_message for entry in entries]


@pytest.mark.parametrize("name", FORMS)
def test_r20_a_form_does_nothing_without_any_one_of_its_permissions(login: Login, name: str) -> None:
    needed, make, form = FORMS[name]
    obj = prepare(make)
    client = login(*{*worst.permissions()} - {needed[0]})
    before = tables_of_the_queue()

    send_form(client, name, obj, form)

    assert tables_of_the_queue() == before


@pytest.mark.parametrize("name", FORMS)
def test_r20_a_form_does_its_work_with_its_permissions_alone_and_is_logged(login: Login, name: str) -> None:
    needed, make, form = FORMS[name]
    obj = prepare(make)
    client = login(*views(), *needed)
    before = tables_of_the_queue()

    answer = send_form(client, name, obj, form)

    told = [str(each) for each in get_messages(answer.wsgi_request)]
    assert tables_of_the_queue() != before, told + re.findall(r"(?s)errorlist.*?</ul>", answer.content.decode())
    assert LogEntry.objects.exists()


@pytest.mark.parametrize("model", [str(each._meta.model_name) for each in registered()])
def test_r20_view_permission_of_one_model_shows_that_model_only(login: Login, model: str) -> None:
    client = login(f"view_{model}")
    objects = one_of_each()

    for obj in objects:
        name = str(obj._meta.model_name)
        for address in (list_of(name), page_of(obj)):
            status = client.get(address).status_code
            assert (status == 200) == (name == model), (address, status)
