"""Jobs: the list of all of them, and the page of an unfinished one, to start a waiting one early or cancel."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse

from djqueue.admin import actions, bulk, fragments, joblist, show, source
from djqueue.admin.actions import GONE, Answer
from djqueue.admin.filters import QueueFilter, StateFilter, TaskFilter
from djqueue.admin.jobpages import JobPage
from djqueue.admin.payload import errors_field, payload_field
from djqueue.models import Job
from djqueue.policy.search import Tab
from djqueue.states import State
from djqueue.store import operate, search, searchcount
from djqueue.store.operate import CancelAnswer

RETRIED = Answer("will start as soon as a worker is free", changed=True)
NOT_WAITING = {
    State.LEASED: Answer("running"),
    State.READY: Answer("ready already"),
    State.PARKED: Answer("parked"),
    State.SCHEDULED: Answer("scheduled anew meanwhile"),
}
CANCELS = {
    CancelAnswer.CANCELLED: Answer("cancelled", changed=True),
    CancelAnswer.ASKED: Answer("running and asked to stop", changed=True),
    CancelAnswer.GONE: GONE,
}


@admin.register(Job)
class JobAdmin(JobPage):
    """The live table."""

    payload = ("args", "errors", "progress", "checkpoint", "options")
    list_display = ("job", "queue_name", "state_words", "tries", "runs_at", "was_started")
    list_filter = (StateFilter, QueueFilter, TaskFilter)
    actions = ("retry_now", "cancel")
    buttons = ("retry_now", "cancel")
    fieldsets = (
        (None, {"fields": ("id", "task_name", ("queue_name", "state_words", "priority", "tenant_id"))}),
        ("When", {"fields": (("was_created", "runs_at", "was_started"), ("leased_until", "cancel_asked", "expires"))}),
        (
            "Attempts",
            {"fields": (("tries", "interruptions", "runs", "timeout_seconds", "alone"), ("leased_by", "workers"))},
        ),
        ("Keys", {"fields": ("dedupe_key", ("ordering_key", "on_dead"), ("lane", "parked_for", "lease_token"))}),
        (
            "Payload",
            {"fields": ("args_shown", "errors_shown", "progress_shown", "checkpoint_shown", "options_shown")},
        ),
    )

    job = show.job_column
    tries = show.attempts_column
    was_created = show.moment_column("created_at", "created")
    runs_at = show.moment_column("run_at", "runs from")
    was_started = show.moment_column("started_at", "started")
    leased_until = show.moment_column("lease_until", "leased until")
    expires = show.moment_column("expires_at", "expires")
    cancel_asked = show.moment_column("cancel_requested_at", "asked to cancel")
    workers = show.list_column("worker_ids", "workers")
    args_shown = payload_field("args", "arguments")
    errors_shown = errors_field
    progress_shown = payload_field("progress", "progress")
    checkpoint_shown = payload_field("checkpoint", "checkpoint")
    options_shown = payload_field("options", "options")

    @admin.display(description="state")
    def state_words(self, job: Job) -> str:
        """Where the job stands."""
        return show.state_of(job)

    @admin.display(description="runs alone")
    def alone(self, job: Job) -> str:
        """Whether it was there when a process was lost, and so runs alone until it ends in an ordinary way."""
        return "yes, it is a suspect" if job.suspect else "no"

    def get_urls(self) -> list[Any]:
        """Add the page that asks before many jobs are changed."""
        confirm = path("act/", self.admin_site.admin_view(self.bulk_view), name="djqueue_job_bulk")
        return [confirm, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Show jobs wherever they stand; what is posted are the actions of a job's own page."""
        if request.method == "POST":
            return super().changelist_view(request, extra_context)
        if not self.has_view_permission(request):
            raise PermissionDenied
        return fragments.cut(request, TemplateResponse(request, "djqueue/admin/jobs.html", self._list(request)))

    def bulk_view(self, request: HttpRequest) -> HttpResponse:
        """Ask, and then act on many jobs."""
        return bulk.confirm_view(self, request)

    def _list(self, request: HttpRequest) -> dict[str, Any]:
        wanted = joblist.asked(request.GET, may_see_payload=self.has_payload_permission(request))
        allowed = joblist.places(self, request)
        alias = source.alias()
        found = search.Page(hits=[])
        counted = None
        counts: dict[Tab, searchcount.Count] = {}
        if not wanted.error:
            found = search.page(alias, wanted.search, allowed, before=wanted.before, limit=joblist.PER_PAGE)
            if wanted.search.is_all:
                counts = searchcount.tabs(alias)
            else:
                counted = searchcount.count(alias, wanted.search, allowed)
        return {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Jobs",
            "media": self.media,
            "asked": wanted,
            "examples": joblist.EXAMPLES,
            "tabs": joblist.tabs(wanted, allowed, counts),
            "rows": list(joblist.rows(self, found.hits)),
            "said": joblist.said(wanted, found),
            "count": f"{joblist.in_words(counted)} match" if counted else "",
            "acts": bulk.choices(request, allowed, wanted.tab),
            "bulk_url": reverse("admin:djqueue_job_bulk", current_app=self.admin_site.name),
            "clear_url": wanted.address(q="") if wanted.tab else joblist.address(self),
            "first_url": wanted.address() if wanted.before != search.TOP else "",
            "next_url": wanted.address(before=str(found.after)) if found.after else "",
        }

    def has_retry_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may start waiting jobs early."""
        return request.user.has_perm("djqueue.retry_job")

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may cancel jobs."""
        return request.user.has_perm("djqueue.cancel_job")

    @admin.action(permissions=["retry"], description="Retry now")
    def retry_now(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Make scheduled jobs claimable at once."""
        return actions.run(self, request, queryset, "Retry now", _retry_now)

    @admin.action(permissions=["cancel"], description="Cancel")
    def cancel(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Cancel jobs that wait, and ask those that run to stop."""
        return actions.run(self, request, queryset, "Cancel", _cancel)


def _retry_now(alias: str, ids: Sequence[UUID]) -> Mapping[UUID, Answer]:
    done = set(operate.retry_now(alias, ids))
    others = Job.objects.using(alias).filter(pk__in=set(ids) - done).values_list("pk", "state")
    refused = {id_: NOT_WAITING[State(state)] for id_, state in others}
    return {id_: RETRIED if id_ in done else refused.get(id_, GONE) for id_ in ids}


def _cancel(alias: str, ids: Sequence[UUID]) -> Mapping[UUID, Answer]:
    return {id_: CANCELS[answer] for id_, answer in operate.cancel(alias, ids).items()}
