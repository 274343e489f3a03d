"""Recurring jobs: entries, and each time that one fired."""

from django.db import models
from django.db.models import Q

from djqueue.models.fields import key_field
from djqueue.policy.cronfires import (
    GRACE_SECONDS,
    MISSED_MAX,
    MOST_GRACE_SECONDS,
    MOST_JITTER_SECONDS,
    MOST_MISSED,
    Missed,
    Outcome,
    Overlap,
)


class CronEntry(models.Model):
    """When to enqueue which task. What a name has fired is remembered beside it, and stays when the entry is deleted.

    `enabled` is the operators' switch. `in_code`: declared with `@cron`, which owns everything but that switch;
    `removed_at`: since then the code no longer declares it, and it does not fire. `next_fire_at`: the plan; at or
    before what the name remembers, it has fired and the next is not computed yet. `queued_fire_at`: a fire that waits
    for the end of `last_job_id`.
    """

    name = key_field(unique=True, help_text="Unique; the memory of past fires belongs to it.")
    schedule = models.TextField(help_text="Minute, hour, day of month, month, day of week; or an alias such as @daily.")
    timezone = models.TextField(default="UTC", db_default="UTC", help_text="For example Europe/Paris.")
    task_name = models.TextField()
    queue_name = key_field(blank=True, default="", db_default="", help_text="Empty: the task's own queue.")
    args = models.JSONField(default=list, db_default=[], blank=True, help_text="Positional arguments, a JSON list.")
    kwargs = models.JSONField(default=dict, db_default={}, blank=True, help_text="Named arguments, a JSON object.")
    missed = models.TextField(
        choices=[(each.value, each.value) for each in Missed],
        default=Missed.RUN_ONCE.value,
        db_default=Missed.RUN_ONCE.value,
        help_text="What becomes of times that passed while nobody could fire them.",
    )
    missed_max = models.SmallIntegerField(
        default=MISSED_MAX, db_default=MISSED_MAX, help_text="run_all: at most so many, the latest ones."
    )
    grace_seconds = models.IntegerField(
        default=GRACE_SECONDS, db_default=GRACE_SECONDS, help_text="skip: a fire that is no later than this counts."
    )
    overlap = models.TextField(
        choices=[(each.value, each.value) for each in Overlap],
        default=Overlap.ALLOW.value,
        db_default=Overlap.ALLOW.value,
        help_text="What happens when the entry's last job has not ended.",
    )
    jitter_seconds = models.IntegerField(
        default=0, db_default=0, help_text="Each job starts up to so many seconds later."
    )
    enabled = models.BooleanField(default=True, db_default=True)
    in_code = models.BooleanField(default=False, db_default=False, editable=False)
    removed_at = models.DateTimeField(null=True, editable=False)
    next_fire_at = models.DateTimeField(null=True, editable=False)
    queued_fire_at = models.DateTimeField(null=True, editable=False)
    last_job_id = models.UUIDField(null=True, editable=False)
    last_error = models.TextField(default="", db_default="", editable=False)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "djqueue_cron_entry"
        required_db_vendor = "postgresql"
        verbose_name = "cron entry"
        verbose_name_plural = "cron entries"
        permissions = [("run_cronentry", "Can let cron entries run now")]
        constraints = [
            models.CheckConstraint(
                name="djqueue_cron_missed",
                condition=Q(missed__in=[each.value for each in Missed])
                & Q(missed_max__range=(1, MOST_MISSED))
                & Q(grace_seconds__range=(0, MOST_GRACE_SECONDS)),
            ),
            models.CheckConstraint(
                name="djqueue_cron_overlap", condition=Q(overlap__in=[each.value for each in Overlap])
            ),
            models.CheckConstraint(
                name="djqueue_cron_jitter", condition=Q(jitter_seconds__range=(0, MOST_JITTER_SECONDS))
            ),
        ]

    def __str__(self) -> str:
        return str(self.name)


class CronMemory(models.Model):
    """The last fire time of each entry name that ever was, so that deleting and creating again fires nothing twice."""

    name = key_field(primary_key=True)
    last_fire_at = models.DateTimeField()

    class Meta:
        db_table = "djqueue_cron_memory"
        required_db_vendor = "postgresql"
        default_permissions = ()


class CronFire(models.Model):
    """One fire of an entry, or the reason why there was none; unique per entry name and fire time, kept 90 days.

    `fire_at` is the nominal time, `fired_at` when it happened.
    """

    id = models.BigAutoField(primary_key=True)
    name = key_field()
    fire_at = models.DateTimeField()
    fired_at = models.DateTimeField()
    job_id = models.UUIDField(null=True)
    outcome = models.TextField(default=Outcome.ENQUEUED.value, db_default=Outcome.ENQUEUED.value)

    class Meta:
        db_table = "djqueue_cron_fire"
        required_db_vendor = "postgresql"
        default_permissions = ("view",)
        verbose_name = "cron fire"
        constraints = [models.UniqueConstraint(name="djqueue_cron_fire_once", fields=["name", "fire_at"])]

    def __str__(self) -> str:
        return f"{self.name} {self.fire_at}"
