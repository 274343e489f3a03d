"""What people do to many jobs at once, and how far that is."""

from django.db import models


class BulkAct(models.Model):
    """An act on all jobs that match a search; worked off in batches by the leader of the workers."""

    id = models.BigAutoField(primary_key=True)
    created_at = models.DateTimeField()
    created_by = models.TextField(db_default="", default="")
    act = models.TextField()
    """`retry`, `cancel`, `requeue`, `discard`, `queue` or `priority`."""
    query = models.TextField(db_default="", default="")
    """The search as it was typed."""
    wanted = models.JSONField(db_default={}, default=dict)
    """The search as it is understood, chosen ids, and the new queue or priority."""
    reason = models.TextField(db_default="", default="")
    until = models.DateTimeField()
    """Jobs that were enqueued later are left alone."""
    state = models.TextField(db_default="running", default="running")
    """`running`, `finished` or `stopped`."""
    total = models.BigIntegerField(db_default=0, default=0)
    done = models.BigIntegerField(db_default=0, default=0)
    refused = models.JSONField(db_default={}, default=dict)
    """How many were left as they are, by why."""
    refused_ids = models.JSONField(db_default=[], default=list)
    """The first of them: pairs of id and why."""
    cursor_id = models.UUIDField(null=True)
    """The walk goes on below this id."""
    error = models.TextField(db_default="", default="")
    stepped_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "djqueue_bulk_act"
        required_db_vendor = "postgresql"
        default_permissions = ("view",)
        verbose_name = "bulk act"
        constraints = [
            models.CheckConstraint(
                name="djqueue_bulk_act_state", condition=models.Q(state__in=["running", "finished", "stopped"])
            )
        ]
        indexes = [
            models.Index(fields=["id"], name="djqueue_bulk_act_running", condition=models.Q(state="running")),
        ]

    def __str__(self) -> str:
        return f"{self.act} {self.pk}"
