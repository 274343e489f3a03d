"""Error groups: what jobs die of, one row per cause, and what people may do about all of a cause at once."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from djqueue.admin import look, show, source
from djqueue.admin.actions import MOST_AT_ONCE, log
from djqueue.admin.base import PlainAdmin
from djqueue.admin.counting import MOST_COUNTED
from djqueue.admin.filters import GroupStateFilter
from djqueue.admin.payload import HIDDEN, let_see, may_see
from djqueue.models import DeadLetter, ErrorGroup
from djqueue.policy.causes import GroupState
from djqueue.store import deaths, letters
from djqueue.store.letters import Letters

MESSAGE_SHOWN = 200


@admin.register(ErrorGroup)
class ErrorGroupAdmin(PlainAdmin):
    """Causes of death."""

    list_display = ("cause", "condition", "deaths", "seen_first", "seen_last", "tasks_shown")
    list_filter = (GroupStateFilter,)
    ordering = ("-last_seen_at", "fingerprint")
    actions = ("requeue_all", "replay", "mute", "resolve", "reopen")
    fieldsets = (
        (None, {"fields": ("exception", "frame", "masked", "condition", "letters_now")}),
        ("Deaths", {"fields": (("deaths", "reopened"), ("seen_first", "seen_last", "told_last"))}),
        ("Whose", {"fields": ("tasks_shown", "tenants_shown", "versions_shown")}),
        ("Messages", {"fields": ("samples_shown", "fingerprint")}),
    )

    seen_first = show.moment_column("first_seen_at", "first seen")
    seen_last = show.moment_column("last_seen_at", "last seen")
    told_last = show.moment_column("announced_at", "last digest")
    tasks_shown = show.list_column("tasks", "tasks")
    tenants_shown = show.list_column("tenants", "tenants")
    versions_shown = show.list_column("versions", "versions")

    @admin.display(description="cause")
    def cause(self, group: Any) -> str:
        """The exception, and under it its message without what differs from job to job."""
        return format_html(
            '{}<br><span class="djqueue-id">{} in {}</span>', group.exception, group.masked[:MESSAGE_SHOWN], group.frame
        )

    @admin.display(description="state")
    def condition(self, group: Any) -> SafeString:
        """Whether somebody has dealt with it."""
        return look.badge(group.state)

    @admin.display(description="deaths")
    def deaths(self, group: Any) -> SafeString:
        """How many have died of it, requeued ones included, beside the worst of the page."""
        worst = getattr(group, "worst", group.count)
        return look.meter(group.count, max(worst, 1), f"{group.count:,}", "quiet" if group.state != "open" else "bad")

    def dress(self, request: HttpRequest, rows: list[Any]) -> None:
        """Add what the worst cause of the page has done, for scale."""
        worst = max((row.count for row in rows), default=0)
        for row in rows:
            row.worst = worst

    @admin.display(description="sample messages")
    def samples_shown(self, group: Any) -> str:
        """The first and the latest messages, for those who may see payloads."""
        if not may_see(group):
            return HIDDEN
        hook = source.redaction()
        name = group.tasks[0] if group.tasks else ""
        found = ((hook.text("message", name, str(text)),) for text in group.samples)
        return format_html_join("", '<pre class="djqueue-payload">{}</pre>', found) or show.EMPTY

    @admin.display(description="dead letters now")
    def letters_now(self, group: Any) -> str:
        """How many dead letters there are of it, and the way to them."""
        rows = DeadLetter.objects.using(source.alias()).filter(fingerprint=group.pk)
        count = rows[: MOST_COUNTED + 1].count()
        words = f"{MOST_COUNTED:,}+" if count > MOST_COUNTED else f"{count:,}"
        address = reverse("admin:djqueue_deadletter_changelist", current_app=self.admin_site.name)
        return format_html('<a href="{}?{}">{}</a>', address, urlencode({"cause": group.pk}), words)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the row, with a note on whether its samples may be shown."""
        found = super().get_object(request, object_id, from_field)
        if found is not None:
            let_see(found, self.has_payload_permission(request))
        return found

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may requeue dead letters."""
        return request.user.has_perm("djqueue.requeue_deadletter")

    def has_replay_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may start replays."""
        return request.user.has_perm("djqueue.run_replay")

    def has_triage_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may mute, resolve and reopen groups."""
        return request.user.has_perm("djqueue.triage_errorgroup")

    @admin.action(permissions=["requeue"], description="Requeue all dead letters now")
    def requeue_all(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Make all dead letters of these causes jobs again, at most 10,000 of each."""
        done = refused = 0
        for group in queryset:
            mine = others = 0
            for answer in letters.requeue_matching(source.alias(), Letters(fingerprint=group.pk), most=MOST_AT_ONCE):
                mine, others = mine + len(answer.ids), others + len(answer.refused)
            log(request, [group], f"Requeue: {mine:,} queued again, {others:,} refused.")
            done, refused = done + mine, refused + others
        text = f"Requeue: {done:,} queued again, with all their attempts."
        if refused:
            text += f" Refused: {refused:,} whose dedupe key an unfinished job holds."
        self.message_user(request, text, messages.WARNING if refused else messages.SUCCESS)

    @admin.action(permissions=["replay"], description="Replay at a rate…")
    def replay(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Go to the form that starts a replay of one cause."""
        groups = list(queryset[:2])
        if len(groups) != 1:
            self.message_user(request, "Replay: choose one cause, each has its own replay.", messages.ERROR)
            return None
        address = reverse("admin:djqueue_replay_add", current_app=self.admin_site.name)
        return HttpResponseRedirect(f"{address}?{urlencode({'fingerprint': groups[0].pk})}")

    @admin.action(permissions=["triage"], description="Mute")
    def mute(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Count on, but tell nobody."""
        self._set(request, queryset, GroupState.MUTED, "muted")

    @admin.action(permissions=["triage"], description="Resolve")
    def resolve(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Say that the cause is mended; the next death opens the group again."""
        self._set(request, queryset, GroupState.RESOLVED, "resolved")

    @admin.action(permissions=["triage"], description="Reopen")
    def reopen(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Take a mute or a resolve back."""
        self._set(request, queryset, GroupState.OPEN, "open")

    def _set(self, request: HttpRequest, groups: Iterable[Any], state: GroupState, words: str) -> None:
        rows = list(groups)
        with transaction.atomic(using=source.alias()):
            changed = deaths.set_state(source.alias(), [group.pk for group in rows], state)
            log(request, [group for group in rows if group.pk in changed], f"Now {words}.")
        text = f"{len(changed):,} now {words}."
        if len(changed) < len(rows):
            text += f" Refused: {len(rows) - len(changed):,} {words} already."
        self.message_user(request, text, messages.SUCCESS if changed else messages.WARNING)
