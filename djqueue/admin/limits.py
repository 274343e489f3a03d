"""Limits and tenants: what may run at once, how often, who has how much of a queue; and what people set instead.

Invariant: numbers are written through the store, which tells waiting workers; nothing here counts more than live
leases, of which there are no more than slots.
"""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.admin.widgets import AdminTextInputWidget
from django.db import transaction
from django.db.models import Model, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from djqueue.admin import look, pauseform, show, source
from djqueue.admin.actions import log
from djqueue.admin.base import PlainAdmin
from djqueue.admin.pauseform import PauseForm
from djqueue.models import Limiter, Tenant
from djqueue.policy.gates import queue_gate
from djqueue.policy.words import amount, span
from djqueue.rates import Rate
from djqueue.store import figures, limits, tenants

OWN = ("max_running", "rate", "burst")
KINDS = {"k": "at once", "r": "rate", "q": "queue"}
MOST_TOP = 10


@admin.register(Limiter)
class LimiterAdmin(PlainAdmin):
    """Concurrency and rate limits, and how full they are."""

    list_display = ("__str__", "kind", "running", "starts", "condition", "task_name")
    ordering = ("name",)
    action_form = PauseForm
    actions = ("pause", "resume")
    fieldsets = (
        (None, {"fields": ("label", "kind", "task_name", "condition")}),
        ("As declared", {"fields": (("declared_running", "declared_rate", "declared_burst"),)}),
        (
            "Set here",
            {
                "fields": (OWN,),
                "description": "Where they are set, these count instead. The rate is starts per second.",
            },
        ),
    )

    @admin.display(description="kind")
    def kind(self, limiter: Limiter) -> str:
        """What it limits."""
        return KINDS.get(limiter.name[:1], show.EMPTY)

    @admin.display(description="running, of at most")
    def running(self, limiter: Any) -> SafeString | str:
        """How many jobs it holds, beside how many it lets run."""
        most = limiter.declared_running if limiter.max_running is None else limiter.max_running
        if most is None:
            return show.EMPTY
        return look.meter(limiter.held, max(most, 1), f"{limiter.held:,} of {most:,}", _fill(limiter.held, most))

    @admin.display(description="starts")
    def starts(self, limiter: Limiter) -> str:
        """How many may start, on average and at once."""
        rate = limiter.declared_rate if limiter.rate is None else limiter.rate
        burst = limiter.declared_burst if limiter.burst is None else limiter.burst
        if rate is None:
            return show.EMPTY
        text = f"{amount(rate)} per second" if rate >= 1 else f"{amount(rate * 60)} per minute"
        return text + (f", {amount(burst)} at once" if burst and burst > 1 else "")

    @admin.display(description="state")
    def condition(self, limiter: Any) -> SafeString:
        """Whether it lets jobs through."""
        if limiter.paused_until is not None and limiter.paused_until > limiter.now:
            until, why = show.moment(limiter.paused_until), limiter.paused_reason
            badge = look.badge("paused", "warn")
            return format_html('{}<span class="djqueue-id">until {} <bdi>{}</bdi></span>', badge, until, why)
        most = limiter.declared_running if limiter.max_running is None else limiter.max_running
        if most is not None and getattr(limiter, "held", 0) >= most:
            return look.badge("full", "warn")
        return look.badge("open", "ok")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows, each with the database's now."""
        found: QuerySet[Any] = super().get_queryset(request).annotate(now=Now())
        return found

    def dress(self, request: HttpRequest, rows: list[Any]) -> None:
        """Add how many jobs each holds."""
        held: dict[str, int] = {}
        for queue, gate, _, count in figures.leases(source.alias()):
            name = gate or queue_gate(queue)
            held[name] = held.get(name, 0) + count
        for row in rows:
            row.held = held.get(row.name, 0)

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """What workers write."""
        writable = OWN if self.has_change_permission(request, obj) else ()
        return [name for name in flatten_fieldsets(self.get_fieldsets(request, obj)) if name not in writable]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Set the numbers; empty ones are as declared."""
        rate = None if obj.rate is None else Rate(per_second=obj.rate, burst=obj.burst or max(1.0, obj.rate))
        limits.set_limit(source.alias(), obj.name, label=obj.label, running=obj.max_running, rate=rate)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Tell whether the user may set, pause and resume limits."""
        return request.user.has_perm("djqueue.change_limiter")

    @admin.action(permissions=["change"], description="Pause")
    def pause(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Let nothing through for a while; a longer pause stays."""
        said, length, reason = pauseform.asked(request)
        rows, alias = list(queryset), source.alias()
        with transaction.atomic(using=alias):
            names = [row.name for row in rows]
            done = set(limits.pause(alias, names, seconds=length.total_seconds(), reason=reason))
            why = f" {reason}" if reason else ""
            log(request, [row for row in rows if row.name in done], f"Paused for {said}.{why}")
        self._tell(request, f"paused for {said}", len(done), len(rows), "paused for longer already")

    @admin.action(permissions=["change"], description="Resume")
    def resume(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Let jobs through again, within the limit."""
        rows, alias = list(queryset), source.alias()
        with transaction.atomic(using=alias):
            done = set(limits.resume(alias, [row.name for row in rows]))
            log(request, [row for row in rows if row.name in done], "Resumed.")
        self._tell(request, "resumed", len(done), len(rows), "not paused")

    def _tell(self, request: HttpRequest, said: str, done: int, asked: int, why: str) -> None:
        text = f"{done:,} {said}."
        if done < asked:
            text += f" Refused: {asked - done:,} {why}."
        self.message_user(request, text, messages.SUCCESS if done == asked else messages.WARNING)


class TenantForm(forms.ModelForm):  # type: ignore[type-arg]
    """What may be set for a tenant of a queue."""

    class Meta:
        model = Tenant
        fields = ("queue_name", "tenant_id", "max_running", "weight", "tier")
        widgets = {"tenant_id": AdminTextInputWidget(), "tier": AdminTextInputWidget()}
        help_texts = {
            "max_running": "Jobs at once at the most. Empty: as the queue says for all tenants.",
            "weight": "Its share beside that of the others, in a fair queue. Empty: as its tier says, or 1.",
            "tier": "A name that the queue's settings give a weight.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "queue_name" in self.fields:
            names = [(name, name) for name in source.queue_names()]
            self.fields["queue_name"] = forms.ChoiceField(choices=names, label="Queue")
            self.fields["tenant_id"].required = True


@admin.register(Tenant)
class TenantAdmin(PlainAdmin):
    """Tenants by queue: who runs how much, what they may."""

    form = TenantForm
    list_display = ("who", "queue_name", "share", "max_running", "weight", "tier", "mean", "was_used")
    ordering = ("queue_name", "gate")
    search_fields = ("=tenant_id",)
    search_help_text = "Exactly the id of a tenant."
    fieldsets = (
        (None, {"fields": ("queue_name", "tenant_id")}),
        ("Set here", {"fields": (("max_running", "weight", "tier"),)}),
    )

    was_used = show.moment_column("used_at", "last ended")

    @admin.display(description="tenant")
    def who(self, tenant: Tenant) -> SafeString:
        """Whose jobs."""
        return format_html("<bdi>{}</bdi>", tenant.tenant_id)

    @admin.display(description="running, of the queue's")
    def share(self, tenant: Any) -> SafeString:
        """How many of its jobs run, beside all that run in the queue."""
        return look.meter(tenant.held, max(tenant.all_held, 1), f"{tenant.held:,} of {tenant.all_held:,}")

    @admin.display(description="mean run time")
    def mean(self, tenant: Tenant) -> str:
        """How long one of its jobs takes, the later ones counting more."""
        return show.EMPTY if tenant.mean_seconds is None else span(tenant.mean_seconds)

    def summary(self, request: HttpRequest) -> SafeString | str:
        """Show who runs most at this moment, across all queues."""
        held: dict[str, int] = {}
        for _, gate, tenant, count in figures.leases(source.alias()):
            if not gate and tenant:
                held[tenant] = held.get(tenant, 0) + count
        top, whole = sorted(held.items(), key=lambda pair: (-pair[1], pair[0])), sum(held.values())
        rows = [
            (format_html("<bdi>{}</bdi>", tenant), look.meter(count, whole, f"{count:,} of {whole:,}"))
            for tenant, count in top[:MOST_TOP]
        ]
        if not rows:
            return ""
        heads = ["tenant", "running, of all tenants"]
        return format_html('<section class="djq-card">{}</section>', look.table(heads, rows, "Top tenants"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Leave out the rows of the queues themselves."""
        return super().get_queryset(request).exclude(gate="")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find by the exact id."""
        id_ = search_term.strip()
        if not id_:
            return queryset, False
        # No column holds a NUL, and PostgreSQL refuses to look for one.
        return (queryset.none() if "\0" in id_ else queryset.filter(tenant_id=id_)), False

    def dress(self, request: HttpRequest, rows: list[Any]) -> None:
        """Add how many jobs run."""
        held: dict[tuple[str, str], int] = {}
        whole: dict[str, int] = {}
        for queue, gate, tenant, count in figures.leases(source.alias()):
            if not gate:
                held[queue, tenant] = held.get((queue, tenant), 0) + count
                whole[queue] = whole.get(queue, 0) + count
        for row in rows:
            row.held, row.all_held = held.get((row.queue_name, row.tenant_id), 0), whole.get(row.queue_name, 0)

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Whose row it is stays; the rest may be set."""
        if obj is None:
            return []
        if self.has_change_permission(request, obj):
            return ["queue_name", "tenant_id"]
        return flatten_fieldsets(self.get_fieldsets(request, obj))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Set it through the store; a row that there is already is the one that is changed."""
        alias = source.alias()
        tenants.set_tenant(
            alias, obj.queue_name, obj.tenant_id, max_running=obj.max_running, weight=obj.weight, tier=obj.tier
        )
        found = Tenant.objects.using(alias).get(queue_name=obj.queue_name, tenant_id=obj.tenant_id)
        obj.pk, obj._state.adding = found.pk, False

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # type: ignore[override]
        """Tell whether the user may give a tenant settings."""
        return request.user.has_perm("djqueue.add_tenant")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Tell whether the user may change a tenant's settings."""
        return request.user.has_perm("djqueue.change_tenant")


def _fill(held: int, most: int) -> str:
    return "warn" if held >= most else "busy"
