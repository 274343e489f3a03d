"""Cron entries, with a form that refuses what can't fire and a preview of the next fires; and the fires that were.

Invariant: nothing fires because somebody saved. What changes when an entry fires clears its plan, and the leader
plans it anew from that moment on.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.contrib import admin, messages
from django.contrib.admin.utils import flatten_fieldsets
from django.db import transaction
from django.db.models import Model, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from djqueue.admin import cronlook, cronrun, look, show, source
from djqueue.admin.actions import log
from djqueue.admin.base import PlainAdmin
from djqueue.admin.cronform import CronEntryForm
from djqueue.admin.payload import HIDDEN
from djqueue.models import CronEntry, CronFire, Job
from djqueue.policy.cron import CronExpression, next_fire
from djqueue.policy.cronwords import in_words
from djqueue.store import cronedit

PREVIEWED = 5
ERROR_SHOWN = 200
LEADERS = ["state", "preview", "fires_next", "last_error", "was_changed", "waits", "last_job"]
"""What nobody edits."""

REPLANNED = {"name", "schedule", "timezone", "enabled", "task_name"}


@admin.register(CronEntry)
class CronEntryAdmin(PlainAdmin):
    """Recurring jobs."""

    form = CronEntryForm
    list_display = ("name", "condition", "said", "timezone", "task_shown", "planned", "last_runs")
    ordering = ("name",)
    search_fields = ("=name",)
    search_help_text = "Exactly the name of an entry."
    actions = ("run_now", "pause", "resume")
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

    @admin.display(description="state")
    def condition(self, entry: CronEntry) -> SafeString:
        """Whether it fires, as a badge; and why it can't."""
        if entry.last_error:
            badge = look.badge("can't fire", "bad")
            return format_html('{}<span class="djqueue-id">{}</span>', badge, entry.last_error[:ERROR_SHOWN])
        said = self.state(entry).split(", ")
        badge = look.badge(said[0], {"on": "ok", "paused": "warn"}.get(said[0], "quiet"))
        return format_html('{}<span class="djqueue-id">{}</span>', badge, "".join(said[1:]))

    @admin.display(description="when")
    def said(self, entry: CronEntry) -> SafeString | str:
        """The schedule in words, and under them as it was written."""
        try:
            words = in_words(CronExpression.parse(entry.schedule, entry.name), entry.timezone)
        except (ValueError, KeyError, OSError):
            return format_html("<code>{}</code>", entry.schedule)
        return format_html('{}<br><code class="djqueue-id">{}</code>', words, entry.schedule)

    @admin.display(description="task")
    def task_shown(self, entry: CronEntry) -> str:
        """What it enqueues."""
        return show.dotted(entry.task_name)

    @admin.display(description="next fire")
    def planned(self, entry: Any) -> SafeString | str:
        """When it fires next, and by how much that is overdue."""
        return cronlook.planned(entry)

    @admin.display(description="last runs")
    def last_runs(self, entry: Any) -> SafeString | str:
        """Its last twenty runs, the latest at the right, and the way to all of them."""
        address = look.address("djqueue_cronfire_changelist", site=self.admin_site.name, q=entry.name)
        return look.link(address, entry.strip) if entry.strip else show.EMPTY

    def dress(self, request: HttpRequest, rows: list[Any]) -> None:
        """Add the last runs."""
        found = cronlook.strips(source.alias(), [row.name for row in rows])
        for row in rows:
            row.strip = found.get(row.name, "")

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
            "<p>{}</p>{}{}",
            in_words(expression, entry.timezone),
            look.table(["UTC", entry.timezone], fires, "Next fires"),
            cronlook.changes(expression, ZoneInfo(entry.timezone), entry.now),
        )

    @admin.display(description="arguments")
    def args_shown(self, entry: CronEntry) -> str:
        """Arguments are payload to those who can't edit them."""
        return HIDDEN

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find by the exact name."""
        return by_name(queryset, search_term), False

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

    def has_run_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may let entries fire now."""
        return request.user.has_perm("djqueue.run_cronentry")

    @admin.action(permissions=["run"], description="Run now")
    def run_now(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Enqueue a job of each entry now, whatever its schedule says; the plan stays as it is."""
        done, refused = [], []
        for entry in queryset:
            try:
                with transaction.atomic(using=source.alias()):
                    job = cronrun.run_now(entry.name)
                    log(request, [entry], f"Run now: job {job}.")
                done.append(entry.name)
            except cronrun.CannotRun as fault:
                refused.append(f"{entry.name}: {fault}")
        text = f"Run now: {len(done):,} enqueued."
        if refused:
            text += f" Refused: {'; '.join(refused)}."
        self.message_user(request, text, messages.WARNING if refused else messages.SUCCESS)

    @admin.action(permissions=["change"], description="Pause")
    def pause(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Let these entries fire no more until they are resumed."""
        self._switch(request, queryset, on=False)

    @admin.action(permissions=["change"], description="Resume")
    def resume(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Let these entries fire again, from the next time after now."""
        self._switch(request, queryset, on=True)

    def _switch(self, request: HttpRequest, entries: Iterable[Any], *, on: bool) -> None:
        said, rows = "resumed" if on else "paused", list(entries)
        changing = [entry for entry in rows if entry.enabled is not on]
        with transaction.atomic(using=source.alias()):
            for entry in changing:
                cronedit.switch(source.alias(), entry.name, on=on)
            log(request, changing, f"{said.capitalize()}.")
        text = f"{len(changing):,} {said}."
        if len(changing) < len(rows):
            text += f" Refused: {len(rows) - len(changing):,} {said} already."
        self.message_user(request, text, messages.SUCCESS if changing else messages.WARNING)

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
        return by_name(queryset, search_term), False

    @admin.display(description="job")
    def job(self, fire: CronFire) -> str:
        """The job, wherever it stands now."""
        return job_link(self, fire.job_id)

    @admin.display(description="late by")
    def lateness(self, fire: CronFire) -> str:
        """How long after its nominal time it happened."""
        return f"{(fire.fired_at - fire.fire_at).total_seconds():,.1f} s"


def by_name(rows: QuerySet[Any], typed: str) -> QuerySet[Any]:
    """Return the rows with exactly the name that was typed; all of them where none was."""
    name = typed.strip()
    if not name:
        return rows
    # No column holds a NUL, and PostgreSQL refuses to look for one.
    return rows.none() if "\0" in name else rows.filter(name=name)


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
