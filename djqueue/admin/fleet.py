"""The workers that were seen lately."""

from django.contrib import admin

from djqueue.admin import show
from djqueue.admin.base import PlainAdmin
from djqueue.models import Worker


@admin.register(Worker)
class WorkerAdmin(PlainAdmin):
    """Supervisors and workers, the latest seen first."""

    payload = ("task_names",)
    list_display = ("id", "host", "pid", "serves", "slots", "condition", "version", "was_started", "was_seen")
    ordering = ("-seen_at", "id")
    fieldsets = (
        (None, {"fields": ("id", "supervisor_id", ("host", "pid"), ("version", "schema_version"))}),
        ("When", {"fields": (("was_started", "was_seen"),)}),
        ("Work", {"fields": ("serves", ("slots", "condition", "news"), "knows")}),
    )

    was_started = show.moment_column("started_at", "started")
    was_seen = show.moment_column("seen_at", "seen")
    serves = show.list_column("queues", "queues")
    knows = show.list_column("task_names", "tasks")

    @admin.display(description="condition")
    def condition(self, worker: Worker) -> str:
        """Whether it still takes jobs."""
        return "stopping" if worker.stopping else "working"

    @admin.display(description="wants news")
    def news(self, worker: Worker) -> str:
        """Whether it has nothing to do and asked to be notified."""
        return "yes" if worker.wants_news else "no"
