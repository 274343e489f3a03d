"""Cron entries, with a form that refuses what can't fire and a preview of the next fires; and the fires that were.

Invariant: nothing fires because somebody saved. What changes when an entry fires clears its plan, and the leader
plans it anew from that moment on.
"""

from datetime import datetime
from typing import Any
from uuid import UUID
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
LEADERS = ["state", "preview", "fires_next", "last_error", "was_changed", "waits", "last_job"]
"""What nobody edits."""

REPLANNED = {"name", "schedule", "timezone", "enabled", "task_name"}


@admin.register(CronEntry)
class CronEntryAdmin(PlainAdmin):
    """Recurring jobs."""

    form = CronEntryForm
    list_display = ("name", "state", "schedule", "timezone", "task_name", "fires_next", "last_error")
    ordering = ("name",)
    fieldsets = (
        (None, {"fields": ("name", "enabled", "state")}),
        ("Job", {"fields": ("task_name", "args", "kwargs", "queue_name")}),
        (
            "When",
            {
                "fields": ("schedule", "timezone", "preview", "fires_next", "last_error", "was_changed"),
                "description": "Saving fires nothing: the next fire is the first one after that moment.",
            },
        ),
        (
            "How",
            {"fields": (("missed", "missed_max", "grace_seconds"), "overlap", "jitter_seconds", "waits", "last_job")},
        ),
    )

    fires_next = show.moment_column("next_fire_at", "next fire")
    was_changed = show.moment_column("changed_at", "changed")
    waits = show.moment_column("queued_fire_at", "fire that waits")

    @admin.display(description="state")
    def state(self, entry: CronEntry) -> str:
        """Whether it fires, and who says so."""
        if entry.removed_at is not None:
            return "removed from the code"
        return ("on" if entry.enabled else "paused") + (", from the code" if entry.in_code else "")

    @admin.display(description="last job")
    def last_job(self, entry: CronEntry) -> str:
        """The job of the last fire, wherever it stands now."""
        return job_link(self, entry.last_job_id)

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
        name, job, *others = self.fieldsets
        return [name, (job[0], {"fields": ("task_name", "args_shown", "queue_name")}), *others]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """What the leader writes; what the code owns; all of it for those who may not change it."""
        if obj is not None and not self.has_change_permission(request, obj):
            return flatten_fieldsets(self.get_fieldsets(request, obj))
        if getattr(obj, "in_code", False):
            return [name for name in flatten_fieldsets(self.get_fieldsets(request, obj)) if name != "enabled"]
        return LEADERS

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
        """Tell whether the user may delete entries; one that the code declares would come back."""
        if getattr(obj, "in_code", False) and getattr(obj, "removed_at", None) is None:
            return False
        return request.user.has_perm("djqueue.delete_cronentry")


@admin.register(CronFire)
class CronFireAdmin(PlainAdmin):
    """Each fire of an entry, the latest first."""

    list_display = ("id", "name", "due", "was_fired", "lateness", "outcome", "job")
    ordering = ("-id",)
    search_fields = ("=name",)
    search_help_text = "Exactly the name of an entry."
    fieldsets = ((None, {"fields": (("id", "name"), ("due", "was_fired", "lateness"), ("outcome", "job"))}),)

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
        return job_link(self, fire.job_id)

    @admin.display(description="late by")
    def lateness(self, fire: CronFire) -> str:
        """How long after its nominal time it happened."""
        return f"{(fire.fired_at - fire.fire_at).total_seconds():,.1f} s"


def job_link(page: PlainAdmin, job_id: UUID | None) -> str:
    """Return a link to a job, which is found wherever it stands."""
    return show.EMPTY if job_id is None else format_html('<a href="{}">{}</a>', page.address_of(Job, job_id), job_id)


def upcoming(expression: CronExpression, zone: ZoneInfo, now: datetime) -> list[tuple[str, str]]:
    """Return the next five fires after `now`, in UTC and in the zone; raise `ValueError` where there are none."""
    fires: list[tuple[str, str]] = []
    for _ in range(PREVIEWED):
        now = next_fire(expression, zone, now)
        fires.append((f"{now:%Y-%m-%d %H:%M}", f"{now.astimezone(zone):%Y-%m-%d %H:%M %Z}"))
    return fires
