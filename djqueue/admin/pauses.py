"""Pauses of tasks and tenants: what is paused, until when, by whom and why; pause another one, resume."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminTextInputWidget
from django.db import transaction
from django.db.models import DateTimeField, Model, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.safestring import SafeString

from djqueue.admin import look, show, source
from djqueue.admin.actions import log
from djqueue.admin.base import PlainAdmin
from djqueue.admin.moments import MomentField, MomentWidget
from djqueue.models import Pause
from djqueue.store import pauses
from djqueue.store.pauses import Kind

MOST_NAME = {Kind.TASK: 300, Kind.TENANT: 200}


class OnePauseForm(forms.ModelForm):  # type: ignore[type-arg]
    """What is to be paused, until when and why."""

    kind = forms.ChoiceField(choices=[(str(Kind.TASK), "task"), (str(Kind.TENANT), "tenant")])

    class Meta:
        model = Pause
        fields = ("kind", "name", "paused_until", "reason")
        widgets = {"name": AdminTextInputWidget(), "reason": AdminTextInputWidget()}
        help_texts = {"name": "The dotted path of a task, or a tenant's id.", "paused_until": "A moment ahead."}

    def clean(self) -> dict[str, Any]:
        """Keep to the limits of names, to tasks that there are, and to moments ahead."""
        found: dict[str, Any] = super().clean() or {}
        kind, name, until = found.get("kind"), found.get("name", ""), found.get("paused_until")
        if kind and len(name) > MOST_NAME[Kind(kind)]:
            self.add_error("name", f"Expected at most {MOST_NAME[Kind(kind)]} characters, got {len(name)}.")
        if kind == Kind.TASK and name and name not in source.task_names():
            self.add_error("name", "Expected a task that this project has.")
        if until is not None and until <= pauses.from_now(source.alias(), 0):
            self.add_error("paused_until", "Expected a moment ahead.")
        return found


@admin.register(Pause)
class PauseAdmin(PlainAdmin):
    """Tasks and tenants that may not start."""

    form = OnePauseForm
    formfield_overrides = {DateTimeField: {"form_class": MomentField, "widget": MomentWidget}}
    list_display = ("name", "kind", "condition", "until", "paused_by", "reason")
    ordering = ("kind", "name", "pk")
    actions = ("resume",)
    fieldsets = ((None, {"fields": ("kind", "name", "condition", "until", "paused_by", "reason", "since")}),)
    add_fieldsets = ((None, {"fields": ("kind", "name", "paused_until", "reason")}),)

    until = show.moment_column("paused_until", "paused until")
    since = show.moment_column("paused_at", "paused at")

    @admin.display(description="state")
    def condition(self, pause: Any) -> SafeString:
        """Whether it holds, and whether what was ready is set aside already."""
        if pause.paused_until <= pause.now:
            return look.badge("over", "quiet")
        return look.badge("paused", "warn") if pause.swept else look.badge("being set aside", "busy")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows, each with the database's now."""
        found: QuerySet[Any] = super().get_queryset(request).annotate(now=Now())
        return found

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Ask for what is needed, or show all."""
        return self.add_fieldsets if obj is None else self.fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """A pause is made and lifted, never edited."""
        return [] if obj is None else super().get_readonly_fields(request, obj)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Pause; what the form made is replaced by the row that the store has written."""
        alias = source.alias()
        user = str(request.user)
        pauses.pause(alias, Kind(obj.kind), obj.name, obj.paused_until, reason=obj.reason, by=user)
        obj.pk = Pause.objects.using(alias).get(kind=obj.kind, name=obj.name).pk

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # type: ignore[override]
        """Tell whether the user may pause tasks and tenants."""
        return request.user.has_perm("djqueue.change_pauses")

    def has_resume_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may resume tasks and tenants."""
        return request.user.has_perm("djqueue.change_pauses")

    @admin.action(permissions=["resume"], description="Resume")
    def resume(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Let these tasks and tenants go on; what was set aside is back within seconds."""
        chosen = list(queryset)
        with transaction.atomic(using=source.alias()):
            log(request, chosen, "Resumed.")
            done = [each for each in chosen if pauses.resume(source.alias(), Kind(each.kind), each.name)]
        self.message_user(request, f"Resume: {len(done):,} resumed.", messages.SUCCESS)
