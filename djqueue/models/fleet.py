"""Who works: workers that say they live, the leader lease, and minute statistics."""

from django.db import models
from django.db.models.functions import Now

from djqueue.models.fields import ListField, key_field


class Worker(models.Model):
    """A worker process that was seen lately. Information only: recovery never depends on it."""

    id = key_field(primary_key=True)
    supervisor_id = models.TextField(db_default="")
    host = models.TextField(db_default="")
    pid = models.IntegerField(db_default=0)
    version = models.TextField(db_default="")
    schema_version = models.IntegerField(db_default=1)
    started_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now())
    wants_news = models.BooleanField(db_default=True)
    stopping = models.BooleanField(db_default=False)
    slots = models.IntegerField(db_default=0)
    queues = ListField(db_default=[])
    task_names = ListField(db_default=[])
    tasks_hash = models.TextField(db_default="")

    class Meta:
        db_table = "djqueue_worker"
        required_db_vendor = "postgresql"
        default_permissions = ("view",)

    def __str__(self) -> str:
        return str(self.id)


class Leader(models.Model):
    """The leader lease: one row per duty; `term` grows with every new holder."""

    name = key_field(primary_key=True)
    holder = models.TextField(db_default="")
    term = models.BigIntegerField(db_default=0)
    until = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "djqueue_leader"
        required_db_vendor = "postgresql"
        default_permissions = ("view",)


class Stat(models.Model):
    """What ended in one minute, by queue, task and outcome."""

    id = models.BigAutoField(primary_key=True)
    minute = models.DateTimeField()
    queue_name = key_field()
    task_name = key_field()
    outcome = key_field()
    count = models.BigIntegerField(db_default=0)
    seconds = models.FloatField(db_default=0)
    histogram = ListField(element="bigint", db_default=[])

    class Meta:
        db_table = "djqueue_stat"
        required_db_vendor = "postgresql"
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(name="djqueue_stat_key", fields=["minute", "queue_name", "task_name", "outcome"])
        ]
