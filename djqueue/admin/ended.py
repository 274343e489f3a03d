"""Jobs that ended: history, and dead letters with their way back."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse

from djqueue.admin import actions, show
from djqueue.admin.actions import GONE, Answer
from djqueue.admin.counting import among_newest
from djqueue.admin.filters import OutcomeFilter, QueueFilter
from djqueue.admin.jobpages import JobPage
from djqueue.admin.payload import errors_field, payload_field
from djqueue.models import DeadLetter, History
from djqueue.store import operate

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
    list_filter = (QueueFilter,)
    actions = ("requeue",)
    buttons = ("requeue",)
    fieldsets = (
        (None, {"fields": ("id", "task_name", "reason", ("queue_name", "priority", "tenant_id"))}),
        ("When", {"fields": (("was_created", "was_started", "has_died"),)}),
        ("Attempts", {"fields": (("tries", "interruptions", "runs", "timeout_seconds"), "workers")}),
        ("Keys", {"fields": ("dedupe_key", ("ordering_key", "on_dead"), ("lane", "lease_token", "fingerprint"))}),
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

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may requeue dead letters."""
        return request.user.has_perm("djqueue.requeue_deadletter")

    @admin.action(permissions=["requeue"], description="Requeue")
    def requeue(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Make dead letters jobs again."""
        return actions.run(self, request, queryset, "Requeue", _requeue)


def _requeue(alias: str, ids: Sequence[UUID]) -> Mapping[UUID, Answer]:
    answer = operate.requeue(alias, ids)
    done, refused = set(answer.ids), set(answer.refused)
    return {id_: REQUEUED if id_ in done else KEY_TAKEN if id_ in refused else GONE for id_ in ids}
