"""Settings and summary figures of queues, pauses of tasks and tenants, and the closed or capped lanes."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import Now

from djqueue.models.fields import key_field


class Queue(models.Model):
    """A queue's settings at run time, and figures that the leader writes every few seconds."""

    name = key_field(primary_key=True)
    weight = models.PositiveSmallIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(1000)],
        help_text="Share of a worker's attention, 1 to 1,000. Empty: as settings or command line say.",
    )
    paused_until = models.DateTimeField(null=True, blank=True, help_text="No job of this queue is claimed before.")
    paused_reason = models.TextField(blank=True, default="", db_default="")
    paused_by = models.TextField(blank=True, default="", db_default="")
    target_seconds = models.FloatField(
        null=True,
        blank=True,
        validators=[MinValueValidator(0.1), MaxValueValidator(31_536_000)],
        help_text="The queue is late when its oldest ready job has waited longer. Empty: 300 seconds.",
    )
    max_running = models.PositiveIntegerField(null=True, blank=True)
    rate_limit = models.TextField(blank=True, default="", db_default="")
    tenant_max_running = models.PositiveIntegerField(null=True, blank=True)
    history_days = models.PositiveSmallIntegerField(null=True, blank=True)
    ageing_seconds = models.FloatField(
        null=True,
        blank=True,
        validators=[MinValueValidator(0.001), MaxValueValidator(31_536_000)],
        help_text="A job that has waited so long counts as one priority higher. Empty: as the settings say.",
    )
    summary_at = models.DateTimeField(null=True, editable=False)
    oldest_ready_at = models.DateTimeField(null=True, editable=False)
    ready = models.BigIntegerField(db_default=0, default=0, editable=False)
    scheduled = models.BigIntegerField(db_default=0, default=0, editable=False)
    retrying = models.BigIntegerField(db_default=0, default=0, editable=False)
    """Of the scheduled ones, those that wait for another attempt."""
    parked = models.BigIntegerField(db_default=0, default=0, editable=False)
    leased = models.BigIntegerField(db_default=0, default=0, editable=False)

    class Meta:
        db_table = "djqueue_queue"
        required_db_vendor = "postgresql"
        permissions = [
            ("pause_queue", "Can pause and resume queues"),
            ("purge_queue", "Can cancel all that waits in a queue"),
        ]

    def __str__(self) -> str:
        return str(self.name)


class Pause(models.Model):
    """A task or a tenant none of whose jobs may start before a moment. (Queues have it in their own row.)"""

    id = models.BigAutoField(primary_key=True)
    kind = key_field()
    name = key_field()
    paused_until = models.DateTimeField()
    reason = models.TextField(db_default="", default="")
    paused_by = models.TextField(db_default="", default="")
    paused_at = models.DateTimeField(db_default=Now())
    swept = models.BooleanField(db_default=False, default=False)
    """All jobs that were ready when it was said are set aside."""

    class Meta:
        db_table = "djqueue_pause"
        required_db_vendor = "postgresql"
        default_permissions = ("view",)
        permissions = [("change_pauses", "Can pause and resume tasks and tenants")]
        constraints = [
            models.UniqueConstraint(name="djqueue_pause_key", fields=["kind", "name"]),
            models.CheckConstraint(name="djqueue_pause_kind", condition=models.Q(kind__in=["task", "tenant"])),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Lane(models.Model):
    """A closed or capped lane, or a closed gate; open lanes have no row."""

    id = models.BigAutoField(primary_key=True)
    queue_name = key_field()
    lane = key_field()
    closed_until = models.DateTimeField(null=True)
    reason = models.TextField(db_default="", default="")
    max_running = models.IntegerField(null=True)

    class Meta:
        db_table = "djqueue_lane"
        required_db_vendor = "postgresql"
        constraints = [models.UniqueConstraint(name="djqueue_lane_key", fields=["queue_name", "lane"])]

    def __str__(self) -> str:
        return f"{self.queue_name} {self.lane}"
