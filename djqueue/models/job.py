"""The hot table: unfinished jobs only, everything that a claim touches, no foreign keys in or out."""

from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.functions import Length, Now
from django.db.models.lookups import LessThanOrEqual

from djqueue.models.fields import ListField, SequenceField, kept_index, key_field
from djqueue.states import LIVE, OnDead, State


def _at_most(field: str, most: int) -> models.CheckConstraint:
    return models.CheckConstraint(name=f"djqueue_job_{field}_length", condition=Q(LessThanOrEqual(Length(field), most)))


def _not_empty(field: str) -> models.CheckConstraint:
    return models.CheckConstraint(name=f"djqueue_job_{field}_given", condition=~Q(**{field: ""}))


class Job(models.Model):
    """An unfinished job. Rows are written by the store only."""

    id = models.UUIDField(primary_key=True, editable=False)
    seq = SequenceField()
    lease_token = models.BigIntegerField(db_default=0)
    run_at = models.DateTimeField(db_default=Now())
    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    lease_until = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    """No attempt starts later; the job ends as cancelled instead."""
    timeout_seconds = models.FloatField(null=True)
    priority = models.SmallIntegerField(db_default=0)
    attempts = models.SmallIntegerField(db_default=0)
    max_attempts = models.SmallIntegerField(db_default=8)
    interruptions = models.IntegerField(db_default=0)
    runs = models.SmallIntegerField(db_default=1)
    suspect = models.BooleanField(db_default=False)
    state = models.TextField(db_default="ready")
    queue_name = key_field()
    lane = key_field(db_default="")
    task_name = models.TextField()
    tenant_id = models.TextField(db_default="")
    leased_by = models.TextField(null=True)
    parked_for = key_field(null=True)
    dedupe_key = key_field(null=True)
    ordering_key = key_field(null=True)
    on_dead = models.TextField(db_default="skip")
    worker_ids = ListField(db_default=[])
    args = models.JSONField(db_default={})
    errors = models.JSONField(db_default=[])
    options = models.JSONField(db_default={})
    progress = models.JSONField(null=True)
    checkpoint = models.JSONField(null=True)

    class Meta:
        db_table = "djqueue_job"
        required_db_vendor = "postgresql"
        default_permissions = ("view",)
        permissions = [
            ("view_payload", "Can see arguments, results and tracebacks"),
            ("retry_job", "Can retry scheduled jobs now"),
            ("cancel_job", "Can cancel jobs"),
            ("edit_job", "Can change queue, priority and time of waiting jobs"),
            ("duplicate_job", "Can enqueue copies of jobs with other arguments"),
        ]
        constraints = [
            models.CheckConstraint(name="djqueue_job_state", condition=Q(state__in=[str(s) for s in LIVE])),
            models.CheckConstraint(
                name="djqueue_job_lease",
                condition=Q(state=State.LEASED.value, lease_until__isnull=False, leased_by__isnull=False)
                | (~Q(state=State.LEASED.value) & Q(lease_until__isnull=True, leased_by__isnull=True)),
            ),
            models.CheckConstraint(
                name="djqueue_job_bounded",
                condition=Q(attempts__lt=F("max_attempts"))
                | Q(state=State.LEASED.value, attempts__lte=F("max_attempts")),
            ),
            models.CheckConstraint(name="djqueue_job_priority", condition=Q(priority__range=(-100, 100))),
            models.CheckConstraint(name="djqueue_job_max_attempts", condition=Q(max_attempts__range=(1, 1000))),
            models.CheckConstraint(name="djqueue_job_on_dead", condition=Q(on_dead__in=[str(x) for x in OnDead])),
            _not_empty("queue_name"),
            _not_empty("task_name"),
            _at_most("queue_name", 100),
            _at_most("lane", 200),
            _at_most("task_name", 300),
            _at_most("tenant_id", 200),
            _at_most("parked_for", 310),
            _at_most("dedupe_key", 300),
            _at_most("ordering_key", 300),
            models.UniqueConstraint(
                name="djqueue_job_dedupe",
                fields=["queue_name", "dedupe_key"],
                condition=Q(dedupe_key__isnull=False),
            ),
            models.UniqueConstraint(
                name="djqueue_job_head",
                fields=["queue_name", "ordering_key"],
                condition=Q(ordering_key__isnull=False) & (~Q(state=State.PARKED.value) | Q(parked_for__isnull=False)),
            ),
        ]
        indexes = [
            models.Index(
                F("queue_name"),
                F("lane"),
                F("priority").desc(),
                F("run_at"),
                F("seq"),
                name="djqueue_job_claim",
                condition=Q(state=State.READY.value, suspect=False),
            ),
            models.Index(
                fields=["queue_name", "run_at"],
                name="djqueue_job_suspect",
                condition=Q(state=State.READY.value, suspect=True),
            ),
            models.Index(
                fields=["queue_name", "lane"], name="djqueue_job_leased", condition=Q(state=State.LEASED.value)
            ),
            models.Index(
                Func("lane", Value("k[0-9a-f]{16}"), function="substring", output_field=models.TextField()),
                name="djqueue_job_holds",
                condition=Q(leased_by__isnull=False) & ~Q(lane=""),
            ),
            models.Index(
                F("queue_name"),
                Func("lane", Value("t[0-9a-f]{16}"), function="substring", output_field=models.TextField()),
                name="djqueue_job_of_tenant",
                condition=Q(leased_by__isnull=False) & ~Q(tenant_id=""),
            ),
            models.Index(fields=["run_at"], name="djqueue_job_due", condition=Q(state=State.SCHEDULED.value)),
            models.Index(
                fields=["queue_name", "ordering_key", "seq"],
                name="djqueue_job_next",
                condition=Q(state=State.PARKED.value, parked_for__isnull=True, ordering_key__isnull=False),
            ),
            models.Index(
                fields=["parked_for", "queue_name"],
                name="djqueue_job_aside",
                condition=Q(parked_for__isnull=False),
            ),
            models.Index(
                fields=["expires_at"],
                name="djqueue_job_expires",
                condition=Q(expires_at__isnull=False) & ~Q(state=State.LEASED.value),
            ),
            kept_index("djqueue_job_subject", "subject"),
            kept_index("djqueue_job_parent", "parent"),
        ]

    def __str__(self) -> str:
        return f"{self.task_name} {self.id}"


class Wake(models.Model):
    """An ordering key whose next job may have to be let out: one row per parked enqueue."""

    id = models.BigAutoField(primary_key=True)
    queue_name = key_field()
    ordering_key = key_field()

    class Meta:
        db_table = "djqueue_wake"
        required_db_vendor = "postgresql"
        default_permissions = ()


class DedupeWindow(models.Model):
    """A dedupe key that stays taken for a time after an enqueue, whatever becomes of the job."""

    id = models.BigAutoField(primary_key=True)
    queue_name = key_field()
    dedupe_key = key_field()
    job_id = models.UUIDField()
    opened_at = models.DateTimeField()
    until = models.DateTimeField()

    class Meta:
        db_table = "djqueue_dedupe_window"
        required_db_vendor = "postgresql"
        default_permissions = ()
        constraints = [models.UniqueConstraint(name="djqueue_dedupe_window_key", fields=["queue_name", "dedupe_key"])]
        indexes = [models.Index(fields=["until"], name="djqueue_dedupe_window_until")]


class KeyBlock(models.Model):
    """A dead head that blocks the jobs behind its ordering key until it is requeued or discarded."""

    id = models.BigAutoField(primary_key=True)
    queue_name = key_field()
    ordering_key = key_field()
    job_id = models.UUIDField()

    class Meta:
        db_table = "djqueue_key_block"
        required_db_vendor = "postgresql"
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(name="djqueue_key_block_key", fields=["queue_name", "ordering_key", "job_id"])
        ]
