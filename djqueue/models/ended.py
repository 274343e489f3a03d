"""Where jobs go when they end: history (succeeded, cancelled) and dead letters."""

from django.db import models

from djqueue.models.fields import ListField, kept_index, key_field


class Finished(models.Model):
    """The columns that history and its overflow share."""

    id = models.UUIDField(primary_key=True, editable=False)
    finished_at = models.DateTimeField()
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    lease_token = models.BigIntegerField()
    attempts = models.SmallIntegerField()
    interruptions = models.IntegerField()
    runs = models.SmallIntegerField()
    priority = models.SmallIntegerField()
    outcome = models.TextField()
    queue_name = key_field()
    task_name = models.TextField()
    tenant_id = models.TextField()
    dedupe_key = key_field(null=True)
    ordering_key = key_field(null=True)
    worker_ids = ListField()
    args = models.JSONField()
    result = models.JSONField(null=True)
    errors = models.JSONField()
    options = models.JSONField()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.task_name} {self.id}"


class History(Finished):
    """A finished job. The table is partitioned by day of `finished_at`; `id` has an index, but no unique one."""

    class Meta:
        db_table = "djqueue_history"
        required_db_vendor = "postgresql"
        default_permissions = ("view",)
        verbose_name_plural = "history"
        indexes = [
            models.Index(fields=["queue_name", "finished_at"], name="djqueue_history_queue"),
            kept_index("djqueue_history_subject", "subject"),
            kept_index("djqueue_history_parent", "parent"),
        ]


class HistoryOverflow(Finished):
    """Finished jobs for whose day there was no partition; the pruner moves them to history."""

    class Meta:
        db_table = "djqueue_history_overflow"
        required_db_vendor = "postgresql"
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["queue_name", "finished_at"], name="djqueue_overflow_queue"),
            kept_index("djqueue_overflow_subject", "subject"),
            kept_index("djqueue_overflow_parent", "parent"),
        ]


class DeadLetter(models.Model):
    """A dead job with all that a requeue needs; kept until it is requeued or discarded."""

    id = models.UUIDField(primary_key=True, editable=False)
    seq = models.BigIntegerField()
    died_at = models.DateTimeField()
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    lease_token = models.BigIntegerField()
    timeout_seconds = models.FloatField(null=True)
    priority = models.SmallIntegerField()
    attempts = models.SmallIntegerField()
    max_attempts = models.SmallIntegerField()
    interruptions = models.IntegerField()
    runs = models.SmallIntegerField()
    reason = models.TextField()
    fingerprint = models.TextField(db_default="")
    """Which group of errors it belongs to; empty in rows of older workers."""
    queue_name = key_field()
    lane = key_field()
    task_name = models.TextField()
    tenant_id = models.TextField()
    dedupe_key = key_field(null=True)
    ordering_key = key_field(null=True)
    on_dead = models.TextField()
    worker_ids = ListField()
    args = models.JSONField()
    errors = models.JSONField()
    options = models.JSONField()
    progress = models.JSONField(null=True)
    checkpoint = models.JSONField(null=True)

    class Meta:
        db_table = "djqueue_dead_letter"
        required_db_vendor = "postgresql"
        default_permissions = ("view",)
        permissions = [
            ("requeue_deadletter", "Can requeue dead letters"),
            ("edit_deadletter", "Can edit arguments of dead letters and requeue them"),
            ("discard_deadletter", "Can discard dead letters"),
        ]
        indexes = [
            models.Index(fields=["queue_name", "died_at"], name="djqueue_dead_letter_queue"),
            models.Index(fields=["died_at", "id"], name="djqueue_dead_letter_died"),
            models.Index(fields=["fingerprint", "died_at", "id"], name="djqueue_dead_letter_cause"),
            kept_index("djqueue_dead_letter_subject", "subject"),
            kept_index("djqueue_dead_letter_parent", "parent"),
        ]

    def __str__(self) -> str:
        return f"{self.task_name} {self.id}"
