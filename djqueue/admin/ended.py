"""Jobs that ended: history, and dead letters with their way back."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse

from djqueue.admin import actions, editing, show, source
from djqueue.admin.actions import GONE, Answer
from djqueue.admin.base import as_uuid
from djqueue.admin.counting import among_newest
from djqueue.admin.filters import BlockingFilter, CauseFilter, OutcomeFilter, QueueFilter, TaskFilter
from djqueue.admin.jobpages import JobPage
from djqueue.admin.payload import errors_field, payload_field
from djqueue.models import DeadLetter, History, KeyBlock
from djqueue.store import letters, operate
from djqueue.store.letters import EditAnswer

REASON_SHOWN = 120
REQUEUED = Answer("queued again, with all their attempts", changed=True)
KEY_TAKEN = Answer("an unfinished job holds the same dedupe key")


class EndedPage(JobPage):
    """A table that grows; what has no index is looked for among its newest rows."""

    search_help_text = "An id, or exactly a task name or a dedupe key (among the newest 100,000)."

    job = show.job_column
    was_created = show.moment_column("created_at", "created")
    was_started = show.moment_column("started_at", "started")
    workers = show.list_column("worker_ids", "workers")
    args_shown = payload_field("args", "arguments")
    errors_shown = errors_field
    options_shown = payload_field("options", "options")

    def searchable(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The newest 100,000 rows."""
        return among_newest(queryset)


@admin.register(History)
class HistoryAdmin(EndedPage):
    """Jobs that succeeded or were cancelled."""

    payload = ("args", "result", "errors", "options")
    list_display = ("job", "queue_name", "outcome", "attempts", "was_finished", "was_created")
    list_filter = (OutcomeFilter, QueueFilter)
    fieldsets = (
        (None, {"fields": ("id", "task_name", ("queue_name", "outcome", "priority", "tenant_id"))}),
        ("When", {"fields": (("was_created", "was_started", "was_finished"),)}),
        ("Attempts", {"fields": (("attempts", "interruptions", "runs"), "workers")}),
        ("Keys", {"fields": ("dedupe_key", ("ordering_key", "lease_token"))}),
        ("Payload", {"fields": ("args_shown", "result_shown", "errors_shown", "options_shown")}),
    )

    was_finished = show.moment_column("finished_at", "finished")
    result_shown = payload_field("result", "result")


@admin.register(DeadLetter)
class DeadLetterAdmin(EndedPage):
    """Jobs that died."""

    payload = ("args", "errors", "progress", "checkpoint", "options")
    list_display = ("job", "queue_name", "why", "tries", "has_died")
    list_filter = (QueueFilter, TaskFilter, CauseFilter, BlockingFilter)
    actions = ("requeue", "discard")
    buttons = ("requeue", "discard")
    asks_reason = frozenset({"discard"})
    fieldsets = (
        (None, {"fields": ("id", "task_name", "reason", ("queue_name", "priority", "tenant_id"))}),
        ("When", {"fields": (("was_created", "was_started", "has_died"),)}),
        ("Attempts", {"fields": (("tries", "interruptions", "runs", "timeout_seconds"), "workers")}),
        (
            "Keys",
            {"fields": ("dedupe_key", ("ordering_key", "on_dead", "blocks"), ("lane", "lease_token", "fingerprint"))},
        ),
        (
            "Payload",
            {"fields": ("args_shown", "errors_shown", "progress_shown", "checkpoint_shown", "options_shown")},
        ),
    )

    tries = show.attempts_column
    has_died = show.moment_column("died_at", "died")
    progress_shown = payload_field("progress", "progress")
    checkpoint_shown = payload_field("checkpoint", "checkpoint")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows with the beginning of their reasons."""
        found: QuerySet[Any] = super().get_queryset(request).defer("reason").annotate(why=Left("reason", REASON_SHOWN))
        return found

    @admin.display(description="reason")
    def why(self, letter: Any) -> str:
        """Why it died, as far as it fits a list."""
        text: str = letter.why
        return f"{text}…" if len(text) == REASON_SHOWN else text

    @admin.display(description="blocks its key")
    def blocks(self, letter: Any) -> str:
        """Whether jobs behind its ordering key wait for what is done with it."""
        if letter.ordering_key is None:
            return show.EMPTY
        found = KeyBlock._default_manager.using(letter._state.db).filter(
            queue_name=letter.queue_name, ordering_key=letter.ordering_key, job_id=letter.pk
        )
        return "yes, until it is requeued or discarded" if found.exists() else "no"

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may requeue dead letters."""
        return request.user.has_perm("djqueue.requeue_deadletter")

    @admin.action(permissions=["requeue"], description="Requeue")
    def requeue(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Make dead letters jobs again."""
        return actions.run(self, request, queryset, "Requeue", _requeue)

    def has_discard_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may discard dead letters."""
        return request.user.has_perm("djqueue.discard_deadletter")

    @admin.action(permissions=["discard"], description="Discard (with a reason)")
    def discard(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """End dead letters for good; they stay in history as cancelled, with the reason."""
        reason = actions.reason(request)
        if not reason:
            self.message_user(request, "Discard: nothing changed. Expected a reason, got none.", messages.ERROR)
            return actions.back(self, request)

        def act(alias: str, ids: Sequence[UUID]) -> Mapping[UUID, Answer]:
            done = letters.discard(alias, ids, reason=reason, by=str(request.user))
            return {id_: Answer(f"discarded: {reason}", changed=True) if id_ in done else GONE for id_ in ids}

        return actions.run(self, request, queryset, "Discard", act)

    def has_edit_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may edit arguments, which nobody may who may not see them."""
        return request.user.has_perm("djqueue.edit_deadletter") and self.has_payload_permission(request)

    def get_urls(self) -> list[Any]:
        """Add the page on which arguments are edited."""
        edit = path("<uuid:id_>/edit/", self.admin_site.admin_view(self.edit_view), name="djqueue_deadletter_edit")
        return [edit, *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the letter, with the way to the editing page."""
        more: dict[str, Any] = {}
        if self.has_edit_permission(request) and as_uuid(object_id):
            more["djqueue_edit_url"] = self._edit_address(as_uuid(object_id))
        return super().change_view(request, object_id, form_url, {**more, **(extra_context or {})})

    def edit_view(self, request: HttpRequest, id_: UUID) -> HttpResponse:
        """Edit the arguments of a letter and requeue it."""
        if not self.has_edit_permission(request):
            raise PermissionDenied
        letter = DeadLetter.objects.using(source.alias()).defer("errors", "checkpoint").filter(pk=id_).first()
        if letter is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, str(id_))
        form = editing.make_form(request, letter)
        if request.method == "POST" and form.is_valid():
            return self._requeue_edited(request, letter, form.cleaned_data["arguments"])
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "original": letter,
            "title": "Edit the arguments and requeue",
            "form": form,
        }
        return TemplateResponse(request, "djqueue/admin/edit.html", context)

    def _requeue_edited(self, request: HttpRequest, letter: Any, args: str) -> HttpResponse:
        with transaction.atomic(using=source.alias()):
            answer = letters.requeue_edited(
                source.alias(), letter.pk, args, version=editing.version_now(letter), by=str(request.user)
            )
            said, level = EDITED[answer]
            actions.log(request, [letter], f"Edit and requeue: {said}.")
        self.message_user(request, f"Edit and requeue: {said}.", level)
        return HttpResponseRedirect(self.address_of(DeadLetter, letter.pk))

    def _edit_address(self, id_: UUID | None) -> str:
        return reverse("admin:djqueue_deadletter_edit", args=[id_], current_app=self.admin_site.name)


EDITED = {
    EditAnswer.REQUEUED: ("queued again with other arguments", messages.SUCCESS),
    EditAnswer.KEY_TAKEN: ("refused, an unfinished job holds the same dedupe key", messages.ERROR),
    EditAnswer.GONE: ("refused, requeued or discarded meanwhile", messages.ERROR),
}


def _requeue(alias: str, ids: Sequence[UUID]) -> Mapping[UUID, Answer]:
    answer = operate.requeue(alias, ids)
    done, refused = set(answer.ids), set(answer.refused)
    return {id_: REQUEUED if id_ in done else KEY_TAKEN if id_ in refused else GONE for id_ in ids}
