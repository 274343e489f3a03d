"""Replays of dead letters: start one, watch it, hold it, let it go on, end it."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.admin.widgets import AdminTextInputWidget
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from djqueue.admin import charts, fragments, look, show, source
from djqueue.admin.actions import log
from djqueue.admin.base import PlainAdmin
from djqueue.models import Replay
from djqueue.store import replay
from djqueue.store.letters import Letters
from djqueue.store.replay import Wanted

WISHES = ("fingerprint", "queue_name", "task_name", "per_second", "canary", "stop_ratio")


class ReplayForm(forms.ModelForm):  # type: ignore[type-arg]
    """What a replay is asked to do."""

    class Meta:
        model = Replay
        fields = WISHES
        widgets = {name: AdminTextInputWidget() for name in WISHES[:3]}
        help_texts = {
            "fingerprint": "Dead letters of this cause. Empty: of all.",
            "queue_name": "Dead letters of this queue. Empty: of all.",
            "task_name": "Dead letters of this task. Empty: of all.",
            "per_second": "How many are requeued in a second: above 0, up to 10,000.",
            "canary": "How many go first, alone; the others follow when it is known how they went. 0: none.",
            "stop_ratio": "The replay stops when a larger share than this has failed: 0 to 1.",
        }

    def clean_per_second(self) -> float:
        """Keep to the limits."""
        rate: float = self.cleaned_data["per_second"]
        if not (math.isfinite(rate) and 0 < rate <= 10_000):
            raise forms.ValidationError(f"Expected above 0 and up to 10,000, got {rate:g}.")
        return rate

    def clean_canary(self) -> int:
        """Keep to the limits."""
        jobs: int = self.cleaned_data["canary"]
        if not 0 <= jobs <= 10_000:
            raise forms.ValidationError(f"Expected 0 to 10,000 jobs, got {jobs:,}.")
        return jobs

    def clean_stop_ratio(self) -> float:
        """Keep to the limits."""
        ratio: float = self.cleaned_data["stop_ratio"]
        if not 0 <= ratio <= 1:
            raise forms.ValidationError(f"Expected 0 to 1, got {ratio:g}.")
        return ratio


@admin.register(Replay)
class ReplayAdmin(PlainAdmin):
    """Runs over dead letters, driven by the leader of the workers."""

    form = ReplayForm
    list_display = ("__str__", "condition", "progress", "went", "chosen", "per_second", "started", "reason")
    change_form_template = "djqueue/admin/replay.html"
    ordering = ("-id",)
    actions = ("pause", "resume", "stop")
    fieldsets = (
        ("Which dead letters", {"fields": ("fingerprint", "queue_name", "task_name")}),
        ("How", {"fields": ("per_second", "canary", "stop_ratio")}),
    )
    known = (
        "Progress",
        {
            "fields": (
                ("condition", "reason"),
                "progress",
                "went",
                ("started", "ticked", "ended", "created_by"),
            )
        },
    )

    started = show.moment_column("created_at", "started")
    ticked = show.moment_column("ticked_at", "last step")
    ended = show.moment_column("finished_at", "ended")

    @admin.display(description="which")
    def chosen(self, run: Any) -> str:
        """What it replays."""
        parts = (("cause", run.fingerprint[:8]), ("queue", run.queue_name), ("task", run.task_name))
        return ", ".join(f"{what} {value}" for what, value in parts if value) or "all dead letters"

    @admin.display(description="state")
    def condition(self, run: Any) -> SafeString:
        """Whether it goes on."""
        return look.badge(run.state, "busy" if run.state == "running" else "")

    @admin.display(description="progress")
    def progress(self, run: Any) -> SafeString:
        """How many of how many are queued again or were passed by."""
        done = run.requeued + run.refused
        return look.meter(done, max(run.total, done, 1), f"{done:,} of {max(run.total, done):,}")

    @admin.display(description="how they went")
    def went(self, run: Any) -> SafeString:
        """How many have succeeded and how many failed, of those that are known."""
        said = f"{run.succeeded:,} succeeded, {run.failed:,} failed"
        said += f", {run.refused:,} passed by" if run.refused else ""
        parts = charts.bar([(run.succeeded, "ok"), (run.failed, "bad")], max(run.requeued, 1), said)
        return format_html('<span class="djq-meter">{}<span class="djq-meter-text">{}</span></span>', parts, said)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Show how far it is, with buttons for those who may hold it."""
        allowed = self.get_actions(request)
        buttons = [
            {"action": name, "label": getattr(self, name).short_description}
            for name in ("pause", "resume", "stop")
            if name in allowed
        ]
        context = {"djqueue_buttons": buttons, **(extra_context or {})}
        answer: Any = fragments.cut(request, super().change_view(request, object_id, form_url, context))
        return answer

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Progress is shown of what has been started."""
        return self.fieldsets if obj is None else [self.known, *self.fieldsets]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """A replay that has been started stays as it is."""
        return [] if obj is None else flatten_fieldsets(self.get_fieldsets(request, obj))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Start it over what matches now."""
        chosen = Letters(
            fingerprint=obj.fingerprint or None, queue_name=obj.queue_name or None, task_name=obj.task_name or None
        )
        wanted = Wanted(
            letters=chosen,
            per_second=obj.per_second,
            canary=obj.canary,
            stop_ratio=obj.stop_ratio,
            by=str(request.user),
        )
        obj.pk = replay.create(source.alias(), wanted)
        obj._state.adding = False

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # type: ignore[override]
        """Tell whether the user may start replays."""
        return self.has_run_permission(request)

    def has_run_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may start, pause, resume and stop replays."""
        return request.user.has_perm("djqueue.run_replay")

    @admin.action(permissions=["run"], description="Pause")
    def pause(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Requeue no more until it is resumed."""
        reason = f"paused by {request.user}"
        self._do(request, queryset, "paused", lambda alias, ids: replay.pause(alias, ids, reason=reason))

    @admin.action(permissions=["run"], description="Resume")
    def resume(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Go on with what was paused."""
        self._do(request, queryset, "resumed", replay.resume)

    @admin.action(permissions=["run"], description="Stop for good")
    def stop(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Requeue no more."""
        reason = f"stopped by {request.user}"
        self._do(request, queryset, "stopped", lambda alias, ids: replay.stop(alias, ids, reason=reason))

    def _do(
        self, request: HttpRequest, runs: Iterable[Any], words: str, act: Callable[[str, Sequence[int]], set[int]]
    ) -> None:
        rows = list(runs)
        with transaction.atomic(using=source.alias()):
            done = act(source.alias(), [run.pk for run in rows])
            log(request, [run for run in rows if run.pk in done], f"Replay {words}.")
        refused = [str(run) for run in rows if run.pk not in done]
        text = f"{len(done):,} {words}."
        if refused:
            text += f" Refused, for the state that they are in: {', '.join(refused)}."
        self.message_user(request, text, messages.WARNING if refused else messages.SUCCESS)
