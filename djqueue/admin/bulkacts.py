"""The page of acts on many jobs: how far each is, what it has refused, and a button that stops it."""

from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from djqueue.admin import fragments, joblist, look, show, source
from djqueue.admin.actions import log
from djqueue.admin.base import PlainAdmin
from djqueue.admin.bulk import KINDS, may
from djqueue.models import BulkAct
from djqueue.policy.words import span
from djqueue.store import bulk
from djqueue.store.bulk import Act


@admin.register(BulkAct)
class BulkActAdmin(PlainAdmin):
    """Acts on many jobs, and how far they are."""

    payload = ("wanted",)
    list_display = ("what", "state_shown", "progress", "query", "created_by", "was_created", "was_finished")
    list_display_links = ("what",)
    ordering = ("-id",)
    actions = ("stop",)
    change_form_template = "djqueue/admin/act.html"
    fieldsets = (
        (None, {"fields": ("what", "state_shown", "progress", "took", "error")}),
        ("Asked for", {"fields": ("query", "reason", ("created_by", "was_created", "was_finished"))}),
        ("Refused", {"fields": ("refused_shown", "refused_named")}),
    )

    was_created = show.moment_column("created_at", "started")
    was_finished = show.moment_column("finished_at", "ended")

    @admin.display(description="act")
    def what(self, act: Any) -> str:
        """What was done."""
        return KINDS[Act(act.act)].label if act.act in list(Act) else str(act.act)

    @admin.display(description="state")
    def state_shown(self, act: Any) -> SafeString:
        """Whether it still runs."""
        return look.badge(act.state, {"running": "busy", "finished": "ok", "stopped": "bad"}.get(act.state, ""))

    @admin.display(description="progress")
    def progress(self, act: Any) -> SafeString:
        """How many of how many, those that were refused included."""
        number = act.done + sum(act.refused.values())
        return look.meter(number, max(act.total, number, 1), f"{number:,} of {max(act.total, number):,}")

    @admin.display(description="took")
    def took(self, act: Any) -> str:
        """From its start to its last batch."""
        return span((act.stepped_at - act.created_at).total_seconds()) if act.stepped_at else show.EMPTY

    @admin.display(description="refused")
    def refused_shown(self, act: Any) -> str:
        """How many were left as they are, by why."""
        parts = (f"{number:,} {bulk.REFUSED_WORDS.get(word, word)}" for word, number in act.refused.items())
        return "; ".join(parts) or show.EMPTY

    @admin.display(description="for example")
    def refused_named(self, act: Any) -> SafeString | str:
        """The first of them."""
        address = joblist.address(self)
        found = ((f"{address}?q=id:{id_}", id_, bulk.REFUSED_WORDS.get(why, why)) for id_, why in act.refused_ids)
        return format_html_join("", '<a href="{}">{}</a> {}<br>', found) or show.EMPTY

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Show how far it is, with a button that stops it."""
        context = {"djqueue_may_stop": self.has_stop_permission(request), **(extra_context or {})}
        answer: Any = fragments.cut(request, super().change_view(request, object_id, form_url, context))
        return answer

    def has_stop_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may stop acts: whoever may do one of them."""
        return any(may(request, act) for act in Act)

    @admin.action(permissions=["stop"], description="Stop")
    def stop(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Do no more of it; what it has done stays."""
        mine = [act for act in queryset if act.act in list(Act) and may(request, Act(act.act))]
        with transaction.atomic(using=source.alias()):
            done = bulk.stop(source.alias(), [act.pk for act in mine], error=f"stopped by {request.user}")
            log(request, [act for act in mine if act.pk in done], "Stopped.")
        self.message_user(
            request,
            f"Stop: {len(done):,} stopped." + ("" if done else " Refused: ended already, or not yours to stop."),
            messages.SUCCESS if done else messages.WARNING,
        )
        return HttpResponseRedirect(self.address_of(BulkAct, mine[0].pk)) if len(mine) == 1 else None
