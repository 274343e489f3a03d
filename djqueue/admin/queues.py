"""Queues: their settings at run time, their figures as of a few seconds ago, pause and resume."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.admin.widgets import AdminTextInputWidget
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import DateTimeField, Model, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from djqueue.admin import budgets, charts, look, overview, pauseform, purging, show, source
from djqueue.admin.actions import log
from djqueue.admin.base import PlainAdmin
from djqueue.admin.moments import MomentField, MomentWidget
from djqueue.admin.pauseform import PauseForm
from djqueue.models import Queue
from djqueue.policy import health, words
from djqueue.rates import Rate
from djqueue.store import figures, forecast, operate

PAUSE_FIELDS = ("paused_until", "paused_reason")
SETTINGS = (
    "weight",
    "target_seconds",
    "max_running",
    "rate_limit",
    "tenant_max_running",
    "ageing_seconds",
    "history_days",
)
MOST_DAYS = 3_650
MOST_NAME = 100


class QueueForm(forms.ModelForm):  # type: ignore[type-arg]
    """What may be set at run time."""

    class Meta:
        model = Queue
        fields = ("name", *SETTINGS, *PAUSE_FIELDS)
        widgets = {name: AdminTextInputWidget() for name in ("name", "paused_reason", "rate_limit")}
        help_texts = {
            "paused_until": "No job of this queue is claimed before. Empty: not paused.",
            "max_running": "Jobs at once at the most, in all workers together. Empty: as the settings say.",
            "rate_limit": "Starts, for example 100/m or 5/s. Empty: as the settings say.",
            "tenant_max_running": "Jobs of one tenant at once at the most. Empty: as the settings say.",
            "history_days": "How long finished jobs are kept; 0 is about a minute. Empty: as the settings say.",
        }

    def clean_name(self) -> str:
        """Refuse a name that has a row, wherever djqueue's tables are."""
        name: str = self.cleaned_data["name"]
        if len(name) > MOST_NAME:
            raise forms.ValidationError(f"Expected at most {MOST_NAME} characters, got {len(name)}.")
        if Queue.objects.using(source.alias()).filter(pk=name).exists():
            raise forms.ValidationError("This queue has settings already: change those.")
        return name

    def clean_rate_limit(self) -> str:
        """Refuse what is no rate."""
        text: str = self.cleaned_data["rate_limit"].strip()
        if text:
            try:
                Rate.parse(text)
            except ValueError as fault:
                raise forms.ValidationError(str(fault)) from None
        return text

    def clean_history_days(self) -> int | None:
        """Keep to the limits of the setting."""
        days: int | None = self.cleaned_data["history_days"]
        if days is not None and days > MOST_DAYS:
            raise forms.ValidationError(f"Expected at most {MOST_DAYS:,} days, got {days:,}.")
        return days


@admin.register(Queue)
class QueueAdmin(PlainAdmin):
    """Settings and figures of queues."""

    form = QueueForm
    formfield_overrides = {DateTimeField: {"form_class": MomentField, "widget": MomentWidget}}
    list_display = (
        "name", "condition", "ready_now", "oldest", "running", "later", "ended", "drains", "weight",
    )  # fmt: skip
    ordering = ("name",)
    action_form = PauseForm
    actions = ("pause", "resume")
    change_form_template = "djqueue/admin/queue.html"
    fieldsets = (
        (None, {"fields": ("name", ("weight", "target_seconds"))}),
        ("Limits", {"fields": (("max_running", "rate_limit", "tenant_max_running"),)}),
        ("Times", {"fields": (("ageing_seconds", "history_days"),)}),
        ("Pause", {"fields": (*PAUSE_FIELDS, "paused_by")}),
        (
            "Figures",
            {"fields": ("counted", ("ready", "scheduled", "parked", "leased"), "oldest_ready", "retry_budget")},
        ),
    )

    oldest_ready = show.moment_column("oldest_ready_at", "oldest ready")
    counted = show.moment_column("summary_at", "counted at")
    retry_budget = budgets.column

    @admin.display(description="state")
    def condition(self, queue: Any) -> SafeString:
        """How it does, as a badge; of a pause until when, by whom and why."""
        badge = overview.queue_state(overview.queue_facts(queue.seen, queue.fleet), queue.fleet.workers)
        if not _is_paused(queue):
            return badge
        why = ": ".join(part for part in (queue.paused_by, queue.paused_reason) if part)
        until = show.moment(queue.paused_until)
        return format_html('{}<span class="djqueue-id">until {} <bdi>{}</bdi></span>', badge, until, why)

    @admin.display(description="running")
    def running(self, queue: Queue) -> str:
        """How many are in the hands of workers."""
        return f"{queue.leased:,}"

    @admin.display(description="for later")
    def later(self, queue: Queue) -> str:
        """How many are scheduled, and how many of them are parked."""
        return f"{queue.scheduled:,}" + (f", {queue.parked:,} parked" if queue.parked else "")

    @admin.display(description="ready")
    def ready_now(self, queue: Any) -> SafeString:
        """How many can start now, and the way to them."""
        address = look.address("djqueue_job_changelist", site=self.admin_site.name, queue=queue.name, state="ready")
        return look.link(address, f"{queue.ready:,}")

    @admin.display(description="oldest ready, of target")
    def oldest(self, queue: Any) -> SafeString | str:
        """How long the oldest ready job has been waiting, beside how long it may."""
        facts = overview.queue_facts(queue.seen, queue.fleet)
        if facts.oldest_seconds is None:
            return show.EMPTY
        kind = "bad" if health.is_late(facts) else "busy" if facts.paused_seconds is None else "quiet"
        target = health.target_of(facts)
        return look.meter(
            facts.oldest_seconds, target, f"{words.span(facts.oldest_seconds)} of {words.span(target)}", kind
        )

    @admin.display(description="ended, last hour")
    def ended(self, queue: Any) -> SafeString:
        """What ended in each minute of the last hour."""
        return charts.sparkline(queue.ended, f"ended in the last hour: {words.count(sum(queue.ended), 'attempt')}")

    @admin.display(description="drains in")
    def drains(self, queue: Any) -> str:
        """How long the ready jobs take at the present pace."""
        return overview.drains_in(overview.queue_facts(queue.seen, queue.fleet), queue.forecast)

    def dress(self, request: HttpRequest, rows: list[Any]) -> None:
        """Add figures, what ended lately and who works."""
        alias = source.alias()
        seen = {row.name: row for row in figures.queues(alias)}
        fleet = figures.fleet(alias)
        forecasts = {each.name: each.forecast for each in forecast.queues(alias)}
        ended = figures.ended(alias, 60, 60).by_queue
        for row in rows:
            row.seen = seen.get(row.name) or figures.QueueRow.unknown(row.name)
            row.fleet, row.forecast, row.ended = fleet, forecasts.get(row.name), ended.get(row.name, [0] * 60)

    @admin.display(description="paused until")
    def paused_until_shown(self, queue: Queue) -> str:
        """The moment as it stands in the row, for those who may not change it."""
        return show.moment(queue.paused_until)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows, each with the database's now."""
        found: QuerySet[Any] = super().get_queryset(request).annotate(now=Now())
        return found

    def get_urls(self) -> list[Any]:
        """Add the live part of the overview."""
        live = path("overview/", self.admin_site.admin_view(self.overview_view), name="djqueue_overview")
        purge = path("<path:name>/purge/", self.admin_site.admin_view(self.purge_view), name="djqueue_queue_purge")
        return [live, purge, *super().get_urls()]

    def purge_view(self, request: HttpRequest, name: str) -> HttpResponse:
        """Empty a queue, once its name is typed."""
        if not self.has_purge_permission(request):
            raise PermissionDenied
        queue = self.get_object(request, name)
        if queue is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, name)  # type: ignore[attr-defined,no-any-return]
        return purging.view(self, request, queue)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the queue, with the way to emptying it for those who may."""
        context = {"djqueue_may_purge": self.has_purge_permission(request), **(extra_context or {})}
        return super().change_view(request, object_id, form_url, context)

    def has_purge_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may cancel all that waits in a queue."""
        return request.user.has_perm("djqueue.purge_queue") and self.has_view_permission(request)

    def overview_view(self, request: HttpRequest) -> HttpResponse:
        """Show the live part of the overview."""
        if not overview.is_allowed(request):
            raise PermissionDenied
        return overview.view(request, self.admin_site.name)

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Show the moment of a pause as text to those who may not change it: Django's own display can't show all."""
        settings, limits, times, pause, figures = self.fieldsets
        if obj is None:
            return [settings, limits, times]
        if not self._may_pause(request, obj):
            pause = ("Pause", {"fields": ("paused_until_shown", "paused_reason", "paused_by")})
        return [settings, limits, times, pause, figures]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """What the queue and the leader write, and what the user may not change."""
        if obj is None:
            return []
        writable: set[str] = set(SETTINGS) if self.has_change_permission(request, obj) else set()
        if self._may_pause(request, obj):
            writable.update(PAUSE_FIELDS)
        return [name for name in flatten_fieldsets(self.get_fieldsets(request, obj)) if name not in writable]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Write what was changed and nothing else: the leader writes the figures meanwhile."""
        changed = set(form.changed_data)
        if changed & set(PAUSE_FIELDS):
            obj.paused_by = str(request.user) if obj.paused_until else ""
            changed.add("paused_by")
        if not change:
            obj.save(using=source.alias(), force_insert=True)
        elif changed:
            obj.save(using=source.alias(), update_fields=changed)

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # type: ignore[override]
        """Tell whether the user may give a queue settings."""
        return request.user.has_perm("djqueue.add_queue")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Tell whether the user may change a queue's settings."""
        return request.user.has_perm("djqueue.change_queue")

    def has_pause_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may pause and resume queues."""
        return request.user.has_perm("djqueue.pause_queue")

    @admin.action(permissions=["pause"], description="Pause")
    def pause(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Claim nothing from these queues for a while; a longer pause stays."""
        said, span, reason = pauseform.asked(request)
        queues = list(queryset)
        fitting = [queue for queue in queues if not (_is_paused(queue) and queue.paused_until > queue.now + span)]
        for queue in fitting:
            with transaction.atomic(using=source.alias()):
                operate.pause(source.alias(), queue.name, queue.now + span, reason=reason, by=str(request.user))
                log(request, [queue], f"Paused for {said}." + (f" {reason}" if reason else ""))
        _tell(self, request, "Pause", f"paused for {said}", fitting, "paused for longer already", queues)

    @admin.action(permissions=["pause"], description="Resume")
    def resume(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Claim from these queues again."""
        queues = list(queryset)
        fitting = [queue for queue in queues if _is_paused(queue)]
        for queue in fitting:
            with transaction.atomic(using=source.alias()):
                operate.pause(source.alias(), queue.name, None)
                log(request, [queue], "Resumed.")
        _tell(self, request, "Resume", "resumed", fitting, "not paused", queues)

    def _may_pause(self, request: HttpRequest, obj: Model | None) -> bool:
        return self.has_change_permission(request, obj) and self.has_pause_permission(request)


def _is_paused(queue: Any) -> bool:
    return queue.paused_until is not None and queue.paused_until > queue.now


def _tell(
    page: PlainAdmin, request: HttpRequest, name: str, done: str, fitting: list[Any], why: str, queues: list[Any]
) -> None:
    refused = [queue.name for queue in queues if queue not in fitting]
    text = f"{name}: {len(fitting):,} {done}."
    if refused:
        text += f" Refused: {len(refused):,} {why} ({', '.join(refused)})."
    page.message_user(request, text, messages.WARNING if refused else messages.SUCCESS)
