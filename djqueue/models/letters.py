"""What is known of the causes of death, and the runs that bring dead letters back a few at a time."""

from django.db import models

from djqueue.models.fields import key_field


class Death(models.Model):
    """A death that is not counted in its group yet: written by the statement that makes the dead letter, emptied by the
    leader within a second. Appending waits for nobody, so that thousands who die of one cause don't queue for one row.
    """

    id = models.BigAutoField(primary_key=True)
    died_at = models.DateTimeField()
    job_id = models.UUIDField()
    queue_name = models.TextField()
    task_name = models.TextField()
    tenant_id = models.TextField()
    reason = models.TextField()
    fingerprint = models.TextField()
    exception = models.TextField()
    frame = models.TextField()
    message = models.TextField()
    version = models.TextField()

    class Meta:
        db_table = "djqueue_death"
        required_db_vendor = "postgresql"
        default_permissions = ()


class ErrorGroup(models.Model):
    """All deaths with one fingerprint: one cause, as far as one can tell."""

    fingerprint = key_field(primary_key=True)
    state = models.TextField(db_default="open", default="open")
    """`open`, `muted` (counted, never announced) or `resolved` (open again with the next death)."""
    exception = models.TextField()
    frame = models.TextField()
    masked = models.TextField()
    count = models.BigIntegerField(db_default=0, default=0)
    reopened = models.IntegerField(db_default=0, default=0)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    tasks = models.JSONField(db_default=[], default=list)
    tenants = models.JSONField(db_default=[], default=list)
    versions = models.JSONField(db_default=[], default=list)
    samples = models.JSONField(db_default=[], default=list)
    unannounced = models.BigIntegerField(db_default=0, default=0)
    announced_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "djqueue_error_group"
        required_db_vendor = "postgresql"
        default_permissions = ("view",)
        permissions = [("triage_errorgroup", "Can mute, resolve and reopen error groups")]
        constraints = [
            models.CheckConstraint(
                name="djqueue_error_group_state", condition=models.Q(state__in=["open", "muted", "resolved"])
            )
        ]
        indexes = [
            models.Index(fields=["last_seen_at"], name="djqueue_error_group_seen"),
            models.Index(
                fields=["announced_at"], name="djqueue_error_group_news", condition=models.Q(unannounced__gt=0)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.exception}: {self.masked}"[:200]


class Replay(models.Model):
    """A run that requeues the dead letters of a filter at a rate: first a few, then the others, until too many fail."""

    id = models.BigAutoField(primary_key=True)
    created_at = models.DateTimeField()
    created_by = models.TextField(db_default="", default="")
    fingerprint = models.TextField(db_default="", default="", blank=True)
    queue_name = models.TextField(db_default="", default="", blank=True)
    task_name = models.TextField(db_default="", default="", blank=True)
    per_second = models.FloatField(default=10)
    canary = models.IntegerField(default=5)
    stop_ratio = models.FloatField(default=0.2)
    state = models.TextField(db_default="running", default="running")
    """`running`, `paused`, `stopped` (too many failed, or by hand) or `finished`."""
    reason = models.TextField(db_default="", default="")
    total = models.BigIntegerField(db_default=0, default=0)
    requeued = models.BigIntegerField(db_default=0, default=0)
    refused = models.BigIntegerField(db_default=0, default=0)
    succeeded = models.BigIntegerField(db_default=0, default=0)
    failed = models.BigIntegerField(db_default=0, default=0)
    cursor_at = models.DateTimeField(null=True)
    cursor_id = models.UUIDField(null=True)
    credit = models.FloatField(db_default=0, default=0)
    ticked_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "djqueue_replay"
        required_db_vendor = "postgresql"
        default_permissions = ("view",)
        permissions = [("run_replay", "Can start, pause, resume and stop replays of dead letters")]
        constraints = [
            models.CheckConstraint(
                name="djqueue_replay_state",
                condition=models.Q(state__in=["running", "paused", "stopped", "finished"]),
            ),
            models.CheckConstraint(name="djqueue_replay_rate", condition=models.Q(per_second__gt=0)),
        ]

    def __str__(self) -> str:
        return f"replay {self.pk}"


class ReplayJob(models.Model):
    """A job that a replay has requeued, and how that went."""

    id = models.BigAutoField(primary_key=True)
    replay_id = models.BigIntegerField()
    job_id = models.UUIDField()
    outcome = models.TextField(db_default="", default="")
    """Empty until it is known; `failing` (an attempt failed, it is tried again), `succeeded`, `cancelled`, `dead`,
    `gone` (ended, and its row was removed meanwhile)."""

    class Meta:
        db_table = "djqueue_replay_job"
        required_db_vendor = "postgresql"
        default_permissions = ()
        constraints = [models.UniqueConstraint(name="djqueue_replay_job_key", fields=["replay_id", "job_id"])]
        indexes = [
            models.Index(
                fields=["replay_id"], name="djqueue_replay_job_open", condition=models.Q(outcome__in=["", "failing"])
            )
        ]
