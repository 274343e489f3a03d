"""Circuits: the dependencies that jobs call, whether they may, and what people may do about it.

Looking changes nothing. Whatever is done by hand goes through the store, under the row's lock, and is logged.
"""

from collections.abc import Callable, Iterable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.admin.widgets import AdminTextInputWidget
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from djqueue import circuitconf
from djqueue.admin import actions, look, show, source
from djqueue.admin.actions import log
from djqueue.admin.base import PlainAdmin
from djqueue.circuitconf import CircuitOptions
from djqueue.models import Circuit
from djqueue.policy import durations
from djqueue.store import circuits
from djqueue.store.circuits import View

ALWAYS = "always"
WORDS = {"half_open": "half-open", "ramp": "closing"}
KINDS = {"ramp": "warn"}
BY_HAND = ("open_for", "open_reason")
SETTINGS = {f"set_{name}": name for name in circuitconf.KNOWN}
"""The form's fields by name: a column of the row may have the name of a setting."""


class CircuitForm(forms.ModelForm):  # type: ignore[type-arg]
    """Settings that go before those of the code, and opening it by hand."""

    open_for = forms.CharField(
        required=False,
        label="Open it for",
        widget=AdminTextInputWidget(),
        help_text=f"For example 15m or 2h, after which it probes; “{ALWAYS}”: until somebody closes it.",
    )
    open_reason = forms.CharField(required=False, label="Because", max_length=500, widget=AdminTextInputWidget())

    class Meta:
        model = Circuit
        fields: tuple[str, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        found = self.instance.overrides if self.instance.pk else {}
        for field, name in SETTINGS.items():
            if field in self.fields:
                self.fields[field].initial = found.get(name)

    def clean_open_for(self) -> str:
        """Refuse what is no duration."""
        text: str = self.cleaned_data["open_for"].strip()
        if text and text != ALWAYS:
            try:
                durations.parse(text)
            except ValueError as fault:
                raise forms.ValidationError(f"Open it for: {fault}, or {ALWAYS!r}.") from None
        return text

    def overrides(self) -> dict[str, Any]:
        """Return the settings that are given here."""
        given = {name: self.cleaned_data.get(field) for field, name in SETTINGS.items()}
        return {name: value for name, value in given.items() if value is not None}


def _setting_field(name: str) -> forms.Field:
    """A number within the limits of the setting; empty: as the code says."""
    low, high = circuitconf.LIMITS[name]
    kind = forms.IntegerField if name in circuitconf.WHOLE else forms.FloatField
    default = getattr(CircuitOptions(), name)
    help_text = f"{low:g} to {high:,.12g}. Empty: as the settings say ({default:g} where they say nothing)."
    return kind(required=False, min_value=low, max_value=high, label=name.replace("_", " "), help_text=help_text)  # type: ignore[arg-type]


for _field, _name in SETTINGS.items():
    CircuitForm.base_fields[_field] = CircuitForm.declared_fields[_field] = _setting_field(_name)


@admin.register(Circuit)
class CircuitAdmin(PlainAdmin):
    """Circuits."""

    form = CircuitForm
    list_display = ("name", "state_shown", "since", "until", "recent", "why", "changed_by")
    ordering = ("name",)
    actions = ("open_for_a_quarter", "open_always", "close", "reset")
    fieldsets = (
        (None, {"fields": ("name", "state_shown", ("since", "until"), "why", "changed_by", "recent")}),
        ("So far", {"fields": (("calls", "failures", "opened", "held_back"),)}),
        ("Open it by hand", {"fields": BY_HAND}),
        ("Settings that go before those of the code", {"fields": tuple(SETTINGS), "classes": ("collapse",)}),
    )

    since = show.moment_column("changed_at", "since")
    until = show.moment_column("open_until", "open until")

    @admin.display(description="state")
    def state_shown(self, circuit: Any) -> str:
        """Where it stands."""
        return look.badge(WORDS.get(circuit.state, circuit.state), KINDS.get(circuit.state, ""))

    @admin.display(description="why")
    def why(self, circuit: Any) -> str:
        """Why it is not closed."""
        return circuit.reason if circuit.state != "closed" and circuit.reason else show.EMPTY

    @admin.display(description="recent calls")
    def recent(self, circuit: Any) -> str:
        """How the calls of its window went, as of its last report."""
        calls = sum(int(bucket[1]) for bucket in circuit.window)
        failures = sum(int(bucket[2]) for bucket in circuit.window)
        return f"{failures:,} of {calls:,} failed" if calls else show.EMPTY

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Leave out what the user may not do."""
        known, figures, by_hand, settings = self.fieldsets
        more = [by_hand] if self.has_operate_permission(request) else []
        return [known, figures, *more, *([settings] if self._may_set(request) else [])]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """What the workers write."""
        writable = {*BY_HAND, *SETTINGS}
        return [name for name in flatten_fieldsets(self.get_fieldsets(request, obj)) if name not in writable]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Return a form without the fields that the user has no right to: what is sent in them counts for nothing."""
        shown = set(flatten_fieldsets(self.get_fieldsets(request, obj)))
        left_out = [name for name in (*BY_HAND, *SETTINGS) if name not in shown]
        attributes: dict[str, Any] = dict.fromkeys(left_out)
        return super().get_form(
            request, obj, change, **{**kwargs, "form": type("CircuitForm", (CircuitForm,), attributes), "fields": []}
        )

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Write the settings, and open it if that is asked for; the rest of the row belongs to the workers."""
        changed = set(form.changed_data)
        if changed & set(SETTINGS):
            circuits.override(source.alias(), obj.pk, form.overrides())
        if form.cleaned_data.get("open_for"):
            text = form.cleaned_data["open_for"]
            seconds = None if text == ALWAYS else durations.parse(text)
            reason = form.cleaned_data.get("open_reason") or "opened by hand"
            _force(obj.pk, seconds, reason, str(request.user))

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Tell whether the user may change anything of a circuit."""
        return self._may_set(request) or self.has_operate_permission(request)

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may open, close and reset circuits."""
        return request.user.has_perm("djqueue.operate_circuit")

    def _may_set(self, request: HttpRequest) -> bool:
        return request.user.has_perm("djqueue.change_circuit")

    @admin.action(permissions=["operate"], description="Open for a quarter of an hour")
    def open_for_a_quarter(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Let no job start; then probe."""
        reason = actions.reason(request) or f"opened by {request.user}"
        self._do(request, queryset, "opened", lambda name: _force(name, 900, reason, str(request.user)))

    @admin.action(permissions=["operate"], description="Open until somebody closes it")
    def open_always(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Let no job start."""
        reason = actions.reason(request) or f"opened by {request.user}"
        self._do(request, queryset, "opened", lambda name: _force(name, None, reason, str(request.user)))

    @admin.action(permissions=["operate"], description="Close, and let jobs start more and more")
    def close(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Close it without probes, at the ramp."""
        by = str(request.user)
        self._do(request, queryset, "closing", lambda name: circuits.close(source.alias(), name, _settings(), by=by))

    @admin.action(permissions=["operate"], description="Reset: let all jobs start at once")
    def reset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Close it at once and forget what was counted."""
        by = str(request.user)
        self._do(request, queryset, "closed", lambda name: circuits.reset(source.alias(), name, _settings(), by=by))

    def _do(self, request: HttpRequest, rows: Iterable[Any], words: str, act: Callable[[str], View | None]) -> None:
        done = []
        for circuit in rows:
            with transaction.atomic(using=source.alias()):
                if act(circuit.pk) is not None:
                    log(request, [circuit], f"Circuit {words}.")
                    done.append(circuit)
        self.message_user(request, f"{len(done):,} {words}.", messages.SUCCESS if done else messages.WARNING)


def _force(name: str, seconds: float | None, reason: str, by: str) -> View | None:
    return circuits.force_open(source.alias(), name, _settings(), seconds=seconds, reason=reason, by=by)


def _settings() -> Any:
    return source.options().circuits
