"""Queues: their settings at run time, their figures as of a few seconds ago, pause and resume."""

from datetime import timedelta
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

from djqueue.admin import overview, show, source
from djqueue.admin.actions import log
from djqueue.admin.base import PlainAdmin
from djqueue.admin.moments import MomentField, MomentWidget
from djqueue.models import Queue
from djqueue.store import operate

PAUSE = timedelta(hours=1)
PAUSE_FIELDS = ("paused_until", "paused_reason")
MOST_DAYS = 3_650
MOST_NAME = 100


class QueueForm(forms.ModelForm):  # type: ignore[type-arg]
    """What may be set at run time."""

    class Meta:
        model = Queue
        fields = ("name", "weight", "target_seconds", "paused_until", "paused_reason", "history_days")
        widgets = {"name": AdminTextInputWidget(), "paused_reason": AdminTextInputWidget()}
        help_texts = {
            "paused_until": "No job of this queue is claimed before. Empty: not paused.",
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
    list_display = ("name", "weight", "paused", "ready", "scheduled", "parked", "leased", "oldest_ready", "counted")
    ordering = ("name",)
    actions = ("pause_for_an_hour", "resume")
    fieldsets = (
        (None, {"fields": ("name", "weight", "target_seconds", "history_days")}),
        ("Pause", {"fields": (*PAUSE_FIELDS, "paused_by")}),
        ("Figures", {"fields": ("counted", ("ready", "scheduled", "parked", "leased"), "oldest_ready")}),
    )

    oldest_ready = show.moment_column("oldest_ready_at", "oldest ready")
    counted = show.moment_column("summary_at", "counted at")

    @admin.display(description="paused until")
    def paused(self, queue: Any) -> str:
        """Until when no job is claimed, if that is ahead."""
        return show.moment(queue.paused_until) if _is_paused(queue) else show.EMPTY

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
        return [live, *super().get_urls()]

    def overview_view(self, request: HttpRequest) -> HttpResponse:
        """Show the live part of the overview."""
        if not overview.is_allowed(request):
            raise PermissionDenied
        return overview.view(request, self.admin_site.name)

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Show the moment of a pause as text to those who may not change it: Django's own display can't show all."""
        settings, pause, figures = self.fieldsets
        if obj is None:
            return [settings]
        if not self._may_pause(request, obj):
            pause = ("Pause", {"fields": ("paused_until_shown", "paused_reason", "paused_by")})
        return [settings, pause, figures]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """What the queue and the leader write, and what the user may not change."""
        if obj is None:
            return []
        writable: set[str] = (
            {"weight", "target_seconds", "history_days"} if self.has_change_permission(request, obj) else set()
        )
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

    @admin.action(permissions=["pause"], description="Pause for an hour")
    def pause_for_an_hour(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Claim nothing from these queues for an hour; a longer pause stays."""
        queues = list(queryset)
        fitting = [queue for queue in queues if not (_is_paused(queue) and queue.paused_until > queue.now + PAUSE)]
        for queue in fitting:
            with transaction.atomic(using=source.alias()):
                operate.pause(source.alias(), queue.name, queue.now + PAUSE, by=str(request.user))
                log(request, [queue], "Paused for an hour.")
        _tell(self, request, "Pause", "paused for an hour", fitting, "paused for longer already", queues)

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
