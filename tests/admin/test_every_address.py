"""R20: whoever may only look changes nothing, nothing changes on GET, and no text of a row is markup: over every
address and every action that there is, new ones included."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.db.models import Model
from django.test import Client

from djqueue.models import BulkAct, CronFire, Limiter, Pause, Queue, Tenant, Worker
from tests.admin import rows
from tests.admin.addresses import MODELS, addresses, one_of_each, registered
from tests.admin.conftest import Login
from tests.admin.pages import list_of, page_of, text_of

FORM = {
    # Whatever some page may ask for; a form takes what it knows.
    "name": "new", "weight": "9", "history_days": "9", "paused_until_0": "2040-01-01", "paused_until_1": "00:00",
    "paused_reason": "mine", "enabled": "on", "task_name": rows.TASK, "args": "[]", "kwargs": "{}",
    "queue_name": "emails",
    "schedule": "0 5 * * *", "timezone": "UTC", "missed": "run_once", "overlap": "allow", "grace_seconds": "60",
    "jitter_seconds": "0", "priority": "50", "arguments": '{"args": [8], "kwargs": {}}', "queue": "images",
    "reason": "because", "confirmed": "yes", "all": "1", "to_queue": "images", "to_priority": "9", "per_second": "1",
    "canary": "1", "stop_ratio": "1", "fingerprint": "", "max_running": "1", "rate": "1", "minutes": "60",
    "typed": "emails",
    "confirm": "emails", "priority-priority": "9", "queue-queue": "images", "reschedule-run_at": "10m", "post": "yes",
    "until": "2h", "action": "", "index": "0", "select_across": "0",
}  # fmt: skip
ACTS = ("retry", "cancel", "requeue", "discard", "queue", "priority", "reschedule")


def everything() -> list[dict[str, Any]]:
    """All rows of all tables, and the log."""
    return list(chain.from_iterable(model._default_manager.order_by("pk").values() for model in [*MODELS, LogEntry]))


def sent(client: Client, objects: list[Model]) -> Iterator[tuple[str, Any]]:
    """Everything that somebody could send to change something: each form to each address, each action to each list."""
    for name, address in addresses(objects):
        yield name, client.post(address, FORM)
    for act in ACTS:
        for name, address in addresses(objects):
            if name.endswith(("_alter of job", "_bulk")):
                yield f"{act} to {name}", client.post(address, {**FORM, "act": act})
    for model, page in registered().items():
        found = [obj for obj in objects if type(obj) is model]
        for action in {*(page.actions or ()), "delete_selected"}:
            for across in "01":
                form = {**FORM, "action": str(action), "select_across": across}
                form |= {"_selected_action": [str(obj.pk) for obj in found]}  # type: ignore[dict-item]
                yield f"{action} of {model.__name__}", client.post(list_of(str(model._meta.model_name)), form)


def views() -> list[str]:
    """The permissions to look, all of them."""
    return [f"view_{model._meta.model_name}" for model in registered()]


@pytest.mark.parametrize("more", [(), ("view_payload",)])
def test_r20_who_may_only_look_changes_nothing_by_any_address_or_action(login: Login, more: tuple[str, ...]) -> None:
    client = login(*views(), *more)
    objects = one_of_each()
    rows.make_job()
    before = everything()

    for name, response in sent(client, objects):
        assert response.status_code in (200, 302, 400, 403, 404, 405), name
    after = everything()
    if after != before:  # find the one to blame
        for name, _ in sent(client, objects):
            assert everything() == after, name
    assert after == before


def test_r20_who_has_no_permission_sees_no_page_of_the_queue(login: Login) -> None:
    client = login()
    objects = one_of_each()

    for name, address in addresses(objects):
        if name != "index":
            assert client.get(address).status_code in (302, 403, 404, 405), name
            assert rows.TASK not in client.get(address).content.decode(), name


def test_r20_not_even_a_superuser_changes_anything_by_looking(login: Login) -> None:
    client = login("*")
    objects = one_of_each()
    before = everything()

    for name, address in addresses(objects):
        for query in ("", FORM):
            response = client.get(address, query)
            assert response.status_code in (200, 302, 400, 403, 404, 405), name
            assert everything() == before, name


def test_every_action_that_a_superuser_can_send_is_answered(login: Login) -> None:
    """The same forms that change nothing for others do something here: so the test above is not empty."""
    client = login("*")
    objects = one_of_each()
    before = everything()

    for name, response in sent(client, objects):
        assert response.status_code in (200, 302, 400, 403, 404, 405), name

    assert everything() != before
    assert LogEntry.objects.exists()


# ------------------------------------------------------------------------------------------------ rubbish

EVIL = "<script>alert(1)</script>\"'&<b>\u202egnirts\u2066 \\ud800 {{ x }} {% y %}"
"""A script, quotes, marks that turn the direction around, a surrogate as JSON escapes it, a template's syntax."""

RAW = re.compile(r"<script>alert|<b>\u202e|gnirts\u2066 \\ud800 (?!\{\{ x \}\})")


def fill_with_rubbish() -> list[Model]:
    """Rows whose every text is rubbish, whose moments are the last and the first ones, whose arguments are large."""
    large = {"args": [EVIL * 15_000], "kwargs": {EVIL: {EVIL: [EVIL, None, 1e308, -1]}}}
    names = {"queue_name": EVIL[:90], "task_name": EVIL, "tenant_id": EVIL, "ordering_key": EVIL}
    options = {"tags": [EVIL], "subject": EVIL, "parent": EVIL, EVIL: EVIL}
    keys = "attempt run at started_at worker kind exception message traceback seconds"
    errors = [dict.fromkeys(keys.split(), EVIL)]
    kept = {**names, "args": large, "errors": errors, "options": options}
    with connection.cursor() as cursor:
        cursor.execute("create table far_off partition of djqueue_history for values from ('9000-01-01') to (maxvalue)")
    last = {"created_at": rows.LAST_MOMENT, "started_at": rows.FIRST_MOMENT}
    objects: list[Model] = [
        rows.make_job(**kept, **last, run_at=rows.LAST_MOMENT, dedupe_key=EVIL, on_dead="skip", progress={EVIL: EVIL}),
        rows.make_job(
            **{**kept, "ordering_key": None}, state="parked", parked_for=f"task:{EVIL}", run_at=rows.FIRST_MOMENT
        ),
        rows.make_running_job(
            **{**kept, "ordering_key": None}, leased_by="w1", checkpoint={EVIL: EVIL}, worker_ids=[EVIL]
        ),
        rows.make_finished(**kept, **last, finished_at=rows.LAST_MOMENT, result={EVIL: EVIL}, dedupe_key=EVIL),
        rows.make_dead_letter(**kept, **last, died_at=rows.LAST_MOMENT, reason=EVIL, fingerprint=EVIL, dedupe_key=EVIL),
        rows.make_group(
            fingerprint=EVIL,
            exception=EVIL,
            frame=EVIL,
            masked=EVIL,
            tasks=[EVIL],
            tenants=[EVIL],
            versions=[EVIL],
            samples=[EVIL],
        ),
        rows.make_replay(
            reason=EVIL, created_by=EVIL, queue_name=EVIL, task_name=EVIL, fingerprint=EVIL, created_at=rows.LAST_MOMENT
        ),
        rows.make_entry(
            name=EVIL, schedule=EVIL, timezone=EVIL, task_name=EVIL, last_error=EVIL, next_fire_at=rows.LAST_MOMENT
        ),
        Queue.objects.create(
            name=EVIL[:90],
            paused_until=rows.LAST_MOMENT,
            paused_reason=EVIL,
            paused_by=EVIL,
            oldest_ready_at=rows.FIRST_MOMENT,
        ),
        Worker.objects.create(
            id=EVIL, host=EVIL, queues=[EVIL], task_names=[EVIL], version=EVIL, seen_at=rows.LAST_MOMENT
        ),
        BulkAct.objects.create(
            act=EVIL,
            query=EVIL,
            reason=EVIL,
            error=EVIL,
            created_by=EVIL,
            created_at=rows.FIRST_MOMENT,
            until=rows.LAST_MOMENT,
            refused={EVIL: 7},
            refused_ids=[[EVIL, EVIL]],
            finished_at=rows.LAST_MOMENT,
        ),
        rows.make_circuit(name=EVIL[:90]),
        CronFire.objects.create(name=EVIL, fire_at=rows.LAST_MOMENT, fired_at=rows.FIRST_MOMENT),
        Pause.objects.create(kind="tenant", name=EVIL, paused_until=rows.LAST_MOMENT, reason=EVIL, paused_by=EVIL),
        Limiter.objects.create(name=EVIL[:90], label=EVIL, paused_until=rows.LAST_MOMENT, paused_reason=EVIL),
        Tenant.objects.create(queue_name=EVIL[:90], tenant_id=EVIL, gate="t1", max_running=1, tier=EVIL),
    ]
    assert {type(each) for each in objects} == set(registered()), "a page without rubbish"
    fill_texts(list(registered()))
    return objects


def fill_texts(models: list[type[Model]]) -> None:
    """Put rubbish into plain text columns that the above has left empty, where the database lets it."""
    for model in models:
        for field in model._meta.local_concrete_fields:
            if field.get_internal_type() == "TextField" and not field.primary_key and field.name not in ("lane",):
                table, column = model._meta.db_table, field.column
                sql = f"update {table} set {column} = %s where {column} is null or {column} = ''"
                with connection.cursor() as cursor:
                    cursor.execute("savepoint s")
                    try:
                        cursor.execute(sql, [EVIL])
                    except Exception:
                        cursor.execute("rollback to savepoint s")


def test_rubbish_in_every_text_leaves_every_page_whole_and_escaped(login: Login) -> None:
    client = login("*")
    objects = fill_with_rubbish()
    seen = 0

    for name, address in addresses(objects):
        response = client.get(address, follow=True)
        if response.status_code in (403, 404, 405):
            continue
        page = text_of(response)
        assert not RAW.search(page), (name, RAW.search(page))
        assert page.rstrip().endswith("</html>"), name
        seen += 1
    for query in (
        "?state=ready",
        "?state=running",
        "?state=parked",
        "?state=dead",
        "?state=succeeded",
        "?q=%3Cscript%3E",
    ):
        page = text_of(client.get(list_of("job") + query))
        assert not RAW.search(page), query
        assert page.rstrip().endswith("</html>"), query

    assert seen > 40


def test_rubbish_is_shown_and_not_left_out(login: Login) -> None:
    client = login("*")
    job = fill_with_rubbish()[0]

    for page in (text_of(client.get(list_of("job"))), text_of(client.get(page_of(job)))):
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.replace("<wbr>", "")
        assert "\\ud800" in page


@pytest.mark.parametrize("text", [EVIL, "\u202e", "a" * 5_000, "id:\u202e", 'q:"', "args.<b>:1", "%", "\\"])
def test_rubbish_that_is_searched_for_is_escaped(login: Login, text: str) -> None:
    page = text_of(login("*").get(list_of("job"), {"q": text, "state": text, "before": text, "queue": text}))

    assert not RAW.search(page)


def test_every_page_that_is_registered_has_a_row_here(tables: None) -> None:
    assert {type(each) for each in one_of_each()} == set(registered())


def test_models_of_the_app_are_all_looked_at() -> None:
    assert len(MODELS) == len(list(apps.get_app_config("djqueue").get_models())) > 15
