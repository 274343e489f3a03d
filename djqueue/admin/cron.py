"""Cron entries, with a form that refuses what can't fire and a preview of the next fires; and the fires that were.

Invariant: nothing fires because somebody saved. What changes when an entry fires clears its plan, and the leader
plans it anew from that moment on.
"""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets
from django.db.models import Model, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join

from djqueue.admin import show, source
from djqueue.admin.base import PlainAdmin
from djqueue.admin.cronform import CronEntryForm
from djqueue.admin.payload import HIDDEN
from djqueue.models import CronEntry, CronFire, Job
from djqueue.policy.cron import CronExpression, next_fire
from djqueue.policy.cronwords import in_words

PREVIEWED = 5
REPLANNED = {"name", "schedule", "timezone", "enabled", "task_name"}


@admin.register(CronEntry)
class CronEntryAdmin(PlainAdmin):
    """Recurring jobs."""

    form = CronEntryForm
    list_display = ("name", "enabled", "schedule", "timezone", "task_name", "fires_next", "last_error")
    ordering = ("name",)
    fieldsets = (
        (None, {"fields": ("name", "enabled")}),
        ("Job", {"fields": ("task_name", "args", "kwargs", "queue_name")}),
        (
            "When",
            {
                "fields": ("schedule", "timezone", "preview", "fires_next", "last_error", "was_changed"),
                "description": "Saving fires nothing: the next fire is the first one after that moment.",
            },
        ),
    )

    fires_next = show.moment_column("next_fire_at", "next fire")
    was_changed = show.moment_column("changed_at", "changed")

    @admin.display(description="next fires")
    def preview(self, entry: Any) -> str:
        """The schedule in words, and its next five fires from the database's now, in UTC and in the entry's zone."""
        if entry.pk is None:
            return "Shown after saving; save it switched off to look first."
        try:
            expression = CronExpression.parse(entry.schedule, entry.name)
            fires = upcoming(expression, ZoneInfo(entry.timezone), entry.now)
        except (ValueError, KeyError, OSError) as fault:
            return f"None: {fault}"
        return format_html(
            '{}<table class="djqueue-fires"><tr><th>UTC</th><th>{}</th></tr>{}</table>',
            in_words(expression, entry.timezone),
            entry.timezone,
            format_html_join("", "<tr><td>{}</td><td>{}</td></tr>", fires),
        )

    @admin.display(description="arguments")
    def args_shown(self, entry: CronEntry) -> str:
        """Arguments are payload to those who can't edit them."""
        return HIDDEN

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows, each with the database's now."""
        found: QuerySet[Any] = super().get_queryset(request).annotate(now=Now())
        return found

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Hide the arguments from those who may neither change them nor see payloads."""
        if self.has_change_permission(request, obj) or self.has_payload_permission(request) or obj is None:
            return self.fieldsets
        name, job, when = self.fieldsets
        return [name, (job[0], {"fields": ("task_name", "args_shown", "queue_name")}), when]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """What the leader writes; all of it for those who may not change it."""
        if obj is None or self.has_change_permission(request, obj):
            return ["preview", "fires_next", "last_error", "was_changed"]
        return flatten_fieldsets(self.get_fieldsets(request, obj))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Write what was changed and nothing else: the leader writes the plan meanwhile."""
        if not change:
            obj.save(using=source.alias())
            return
        changed = set(form.changed_data)
        if not changed:
            return
        # An entry in error may have an overdue plan; mending it must not fire that.
        if changed & REPLANNED or obj.last_error:
            obj.next_fire_at, obj.last_error = None, ""
            changed |= {"next_fire_at", "last_error"}
        obj.save(using=source.alias(), update_fields={*changed, "changed_at"})

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # type: ignore[override]
        """Tell whether the user may add entries."""
        return request.user.has_perm("djqueue.add_cronentry")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Tell whether the user may change entries."""
        return request.user.has_perm("djqueue.change_cronentry")

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Tell whether the user may delete entries."""
        return request.user.has_perm("djqueue.delete_cronentry")


@admin.register(CronFire)
class CronFireAdmin(PlainAdmin):
    """Each fire of an entry, the latest first."""

    list_display = ("id", "name", "due", "was_fired", "job")
    ordering = ("-id",)
    search_fields = ("=name",)
    search_help_text = "Exactly the name of an entry."
    fieldsets = ((None, {"fields": (("id", "name"), ("due", "was_fired"), "job")}),)

    due = show.moment_column("fire_at", "due")
    was_fired = show.moment_column("fired_at", "fired")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find by the exact name."""
        name = search_term.strip()
        return (queryset.filter(name=name) if name else queryset), False

    @admin.display(description="job")
    def job(self, fire: CronFire) -> str:
        """The job, wherever it stands now."""
        if fire.job_id is None:
            return show.EMPTY
        return format_html('<a href="{}">{}</a>', self.address_of(Job, fire.job_id), fire.job_id)


def upcoming(expression: CronExpression, zone: ZoneInfo, now: datetime) -> list[tuple[str, str]]:
    """Return the next five fires after `now`, in UTC and in the zone; raise `ValueError` where there are none."""
    fires: list[tuple[str, str]] = []
    for _ in range(PREVIEWED):
        now = next_fire(expression, zone, now)
        fires.append((f"{now:%Y-%m-%d %H:%M}", f"{now.astimezone(zone):%Y-%m-%d %H:%M %Z}"))
    return fires
