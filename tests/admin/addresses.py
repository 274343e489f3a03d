"""Every address of djqueue's admin, as the URL patterns have them, with rows to fill them; none can be forgotten."""

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.db.models import Model
from django.urls import NoReverseMatch, URLPattern, reverse
from django.utils import timezone

from djqueue.models import BulkAct, CronFire, Limiter, Pause, Queue, Tenant, Worker
from djqueue.policy.gates import Gate, gate
from djqueue.store import limits
from tests.admin import rows

MODELS: list[type[Model]] = list(apps.get_app_config("djqueue").get_models())


def one_of_each(**texts: str) -> list[Model]:
    """A row for every page that is known here; texts for fields that hold text."""
    now = timezone.now()
    queue, tenant = texts.get("queue_name", "emails"), texts.get("tenant_id", "acme")
    named = {name: value for name, value in texts.items() if name in ("queue_name", "task_name", "tenant_id")}
    return [
        rows.make_scheduled_job(**named),
        rows.make_finished(**named),
        rows.make_dead_letter(**named),
        Queue.objects.create(name=queue),
        Worker.objects.create(id="w1"),
        rows.make_entry(),
        rows.make_group(),
        rows.make_replay(),
        rows.make_circuit(),
        CronFire.objects.create(name="nightly", fire_at=now, fired_at=now),
        Pause.objects.create(kind="tenant", name="acme", paused_until=now),
        BulkAct.objects.create(act="cancel", created_at=now, until=now),
        Limiter.objects.create(name=limits.of_key("partner"), label="key partner", declared_running=4),
        Tenant.objects.create(queue_name=queue, tenant_id=tenant, gate=gate(Gate.TENANT, tenant)),
    ]


def registered() -> dict[type[Model], Any]:
    """The pages of djqueue's models."""
    return {model: page for model, page in admin.site._registry.items() if model._meta.app_label == "djqueue"}


def addresses(objects: list[Model]) -> Iterator[tuple[str, str]]:
    """Yield every address with its name: those without an object, and those of the objects."""
    yield "index", reverse("admin:index")
    yield "app", reverse("admin:app_list", args=["djqueue"])
    by_model: dict[type[Model], list[Model]] = {}
    for obj in objects:
        by_model.setdefault(type(obj), []).append(obj)
    for model, page in registered().items():
        for pattern in page.get_urls():
            if isinstance(pattern, URLPattern) and pattern.name:
                yield from _filled(pattern, by_model.get(model, []))


def _filled(pattern: URLPattern, objects: list[Model]) -> Iterator[tuple[str, str]]:
    if not pattern.pattern.converters:
        yield pattern.name or "", reverse(f"admin:{pattern.name}")
        return
    for obj in objects:
        try:
            yield f"{pattern.name} of {obj._meta.model_name}", reverse(f"admin:{pattern.name}", args=[obj.pk])
        except NoReverseMatch:
            yield f"{pattern.name} by text", reverse(f"admin:{pattern.name}", args=["x"])
