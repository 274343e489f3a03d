"""Workers: who they are, how busy, since when; the jobs in their hands; and asking them to restart or to stop.

Invariant: nothing here ends a process. An order stands in the worker's row; its supervisor obeys with the next
heartbeat, as gracefully as a signal would.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from djqueue.admin import doctor, look, orphans, show, source
from djqueue.admin.actions import log
from djqueue.admin.base import PlainAdmin
from djqueue.models import Job, Leader, Worker
from djqueue.policy import words
from djqueue.states import State
from djqueue.store import workers
from djqueue.store.workers import Order

SILENT = timedelta(seconds=90)
"""A worker that was not seen for so long is not counted as living."""

MOST_JOBS = 200
ORDERED = {Order.RESTART: "asked to restart", Order.STOP: "asked to stop"}


@admin.register(Worker)
class WorkerAdmin(PlainAdmin):
    """Worker processes, the latest seen first."""

    payload = ("task_names",)
    list_display = ("who", "condition", "busy", "pace", "memory", "serves", "version_shown", "was_started")
    ordering = ("-seen_at", "id")
    actions = ("restart", "stop")
    fieldsets = (
        (None, {"fields": ("id", "condition", ("host", "pid", "memory"), ("version", "schema_version"))}),
        ("Work", {"fields": ("jobs_now", ("pace", "slots", "news"), "serves", "knows")}),
        ("When", {"fields": (("was_started", "was_seen"),)}),
        ("Whose", {"fields": ("supervisor_id", ("ordered", "ordered_by"))}),
    )

    was_started = show.moment_column("started_at", "started")
    was_seen = show.moment_column("seen_at", "seen")
    serves = show.list_column("queues", "queues")
    knows = show.list_column("task_names", "tasks")

    @admin.display(description="worker")
    def who(self, worker: Any) -> SafeString:
        """Host and process, and under them the id."""
        leads = format_html(" {}", look.badge("leader", "busy")) if worker.leads else ""
        return format_html(
            '{}:{}{}<br><span class="djqueue-id">{}</span>', worker.host, worker.pid, leads, worker.pk[:13]
        )

    @admin.display(description="state")
    def condition(self, worker: Any) -> SafeString:
        """Whether it works, and what is asked of it."""
        if worker.now - worker.seen_at > SILENT:
            seen = show.moment(worker.seen_at)
            return format_html('{}<span class="djqueue-id">seen {}</span>', look.badge("silent", "bad"), seen)
        if worker.ordered:
            badge = look.badge(ORDERED.get(worker.ordered, worker.ordered), "warn")
            return format_html('{}<span class="djqueue-id">by <bdi>{}</bdi></span>', badge, worker.ordered_by)
        return look.badge("stopping", "warn") if worker.stopping else look.badge("working", "ok")

    @admin.display(description="slots in use")
    def busy(self, worker: Any) -> SafeString:
        """How many jobs it holds, beside its slots."""
        return look.meter(worker.held, max(worker.slots, worker.held), f"{worker.held} of {worker.slots}")

    @admin.display(description="jobs/min")
    def pace(self, worker: Worker) -> str:
        """What it has ended in the last minute or so."""
        return show.EMPTY if worker.jobs_per_minute is None else f"{worker.jobs_per_minute:,.0f}"

    @admin.display(description="memory")
    def memory(self, worker: Worker) -> str:
        """What its process has in memory."""
        return show.EMPTY if worker.memory_bytes is None else words.size(worker.memory_bytes)

    @admin.display(description="version")
    def version_shown(self, worker: Worker) -> SafeString:
        """The version of the code that it runs."""
        return format_html("<code>{}</code>", worker.version[:40])

    @admin.display(description="wants news")
    def news(self, worker: Worker) -> str:
        """Whether it has nothing to do and asked to be notified."""
        return "yes" if worker.wants_news else "no"

    @admin.display(description="jobs now")
    def jobs_now(self, worker: Any) -> SafeString | str:
        """The jobs in its hands, those first that have run longest."""
        held = Job.objects.using(source.alias()).filter(state=State.LEASED.value, leased_by=worker.pk)
        jobs = held.annotate(now=Now()).only("id", "task_name", "queue_name", "started_at", "attempts", "max_attempts")
        rows = [self._job_row(job) for job in jobs.order_by("started_at")[:MOST_JOBS]]
        return look.table(["job", "queue", "attempt", "has run for"], rows, "Jobs now") if rows else "none"

    def _job_row(self, job: Any) -> list[object]:
        ran = "about to start" if job.started_at is None else words.span((job.now - job.started_at).total_seconds())
        link = look.link(self.address_of(Job, job.pk), show.dotted(job.task_name))
        return [link, job.queue_name, show.attempts_column(self, job), ran]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows, each with the database's now."""
        found: QuerySet[Any] = super().get_queryset(request).annotate(now=Now())
        return found

    def dress(self, request: HttpRequest, rows: list[Any]) -> None:
        """Add how many jobs each holds, and who leads."""
        held = workers.held(source.alias(), [row.pk for row in rows])
        leaders = set(Leader.objects.using(source.alias()).filter(until__gt=Now()).values_list("holder", flat=True))
        told: set[str] = set()
        for row in rows:
            row.held = held.get(row.pk, 0)
            # The supervisor leads, not one of its workers: the first one shown stands for it.
            row.leads = row.supervisor_id in leaders and row.supervisor_id not in told
            told.add(row.supervisor_id)

    def get_urls(self) -> list[Any]:
        """Add the page of tasks that no worker knows, and the doctor's."""
        own = [
            path("orphans/", self.admin_site.admin_view(self.orphans_view), name="djqueue_orphans"),
            path("doctor/", self.admin_site.admin_view(self.doctor_view), name="djqueue_doctor"),
        ]
        return [*own, *super().get_urls()]

    def orphans_view(self, request: HttpRequest) -> HttpResponse:
        """Show tasks that no worker knows, and let their jobs be cancelled."""
        if not request.user.has_perm("djqueue.view_job"):
            raise PermissionDenied
        return orphans.view(self, request)

    def doctor_view(self, request: HttpRequest) -> HttpResponse:
        """Show what is wrong around the queue."""
        if not self.has_order_permission(request):
            raise PermissionDenied
        return doctor.view(self, request)

    def has_order_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may ask workers to restart or to stop."""
        return request.user.has_perm("djqueue.order_worker")

    @admin.action(permissions=["order"], description="Ask to restart")
    def restart(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Let each end after what it runs; its supervisor starts another."""
        self._order(request, queryset, Order.RESTART, "to end after what they run; others take their place")

    @admin.action(permissions=["order"], description="Ask to stop, with the whole supervisor")
    def stop(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Let their supervisors stop, as after SIGTERM."""
        self._order(request, queryset, Order.STOP, "to stop, with all workers of their supervisors")

    def _order(self, request: HttpRequest, those: Iterable[Any], order: Order, said: str) -> None:
        rows = list(those)
        with transaction.atomic(using=source.alias()):
            asked = workers.order(source.alias(), [row.pk for row in rows], order, by=str(request.user))
            log(request, [row for row in rows if row.pk in asked], f"Asked to {order}.")
        text = f"{words.count(len(asked), 'worker')} asked {said}."
        if len(asked) < len(rows):
            text += f" Refused: {len(rows) - len(asked)} asked before, or gone."
        self.message_user(request, text, messages.SUCCESS if asked else messages.WARNING)
