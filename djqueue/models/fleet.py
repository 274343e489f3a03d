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
    memory_bytes = models.BigIntegerField(null=True)
    """What its process has in memory, as of the last heartbeat; NULL where the system does not tell."""
    jobs_per_minute = models.FloatField(null=True)
    """Jobs that it has ended, over the last minute or so."""
    looked_seconds = models.FloatField(null=True)
    """How long before `seen_at` it has last looked for jobs with success, or was fully busy, or about to end."""
    ordered = models.TextField(db_default="", default="")
    """`restart`: end after what runs, another takes its place; `stop`: the whole supervisor does, as after SIGTERM."""
    ordered_by = models.TextField(db_default="", default="")

    class Meta:
        db_table = "djqueue_worker"
        required_db_vendor = "postgresql"
        default_permissions = ("view",)
        permissions = [("order_worker", "Can ask workers to stop or to restart")]

    def __str__(self) -> str:
        return str(self.id)


class CodeVersion(models.Model):
    """A version of the code that workers ran, and when one was seen first: the deploys, as marks in charts."""

    version = key_field(primary_key=True)
    first_seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "djqueue_code_version"
        required_db_vendor = "postgresql"
        default_permissions = ()


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
    wait_histogram = ListField(element="bigint", db_default=[])
    """How long the attempts waited between `run_at` and their start, in the same buckets."""

    class Meta:
        db_table = "djqueue_stat"
        required_db_vendor = "postgresql"
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(name="djqueue_stat_key", fields=["minute", "queue_name", "task_name", "outcome"])
        ]
