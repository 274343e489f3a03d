"""Settings and summary figures of queues, and the closed or capped lanes."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

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
    history_days = models.PositiveSmallIntegerField(null=True, blank=True)
    summary_at = models.DateTimeField(null=True, editable=False)
    oldest_ready_at = models.DateTimeField(null=True, editable=False)
    ready = models.BigIntegerField(db_default=0, default=0, editable=False)
    scheduled = models.BigIntegerField(db_default=0, default=0, editable=False)
    parked = models.BigIntegerField(db_default=0, default=0, editable=False)
    leased = models.BigIntegerField(db_default=0, default=0, editable=False)

    class Meta:
        db_table = "djqueue_queue"
        required_db_vendor = "postgresql"
        permissions = [("pause_queue", "Can pause and resume queues")]

    def __str__(self) -> str:
        return str(self.name)


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
