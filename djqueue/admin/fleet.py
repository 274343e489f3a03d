"""The workers that were seen lately."""

from django.contrib import admin

from djqueue.admin import show
from djqueue.admin.base import PlainAdmin
from djqueue.models import Worker


@admin.register(Worker)
class WorkerAdmin(PlainAdmin):
    """Supervisors and workers, the latest seen first."""

    payload = ("task_names",)
    list_display = ("id", "host", "pid", "serves", "slots", "stopping", "version", "was_started", "was_seen")
    ordering = ("-seen_at", "id")
    fieldsets = (
        (None, {"fields": ("id", "supervisor_id", "host", "pid", "version", "schema_version")}),
        ("When", {"fields": ("was_started", "was_seen")}),
        ("Work", {"fields": ("serves", "slots", "wants_news", "stopping", "knows")}),
    )

    was_started = show.moment_column("started_at", "started")
    was_seen = show.moment_column("seen_at", "seen")
    serves = show.list_column("queues", "queues")
    knows = show.list_column("task_names", "tasks")
