"""Recurring jobs: entries, and each time that one fired."""

from django.db import models

from djqueue.models.fields import key_field


class CronEntry(models.Model):
    """When to enqueue which task. `last_fire_at` never goes back, and the name keeps it when the entry is deleted."""

    name = key_field(unique=True, help_text="Unique; the memory of past fires belongs to it.")
    schedule = models.TextField(help_text="Minute, hour, day of month, month, day of week; or an alias such as @daily.")
    timezone = models.TextField(default="UTC", db_default="UTC", help_text="For example Europe/Paris.")
    task_name = models.TextField()
    queue_name = key_field(blank=True, default="", db_default="", help_text="Empty: the task's own queue.")
    args = models.JSONField(default=list, db_default=[], blank=True, help_text="Positional arguments, a JSON list.")
    kwargs = models.JSONField(default=dict, db_default={}, blank=True, help_text="Named arguments, a JSON object.")
    enabled = models.BooleanField(default=True, db_default=True)
    next_fire_at = models.DateTimeField(null=True, editable=False)
    last_error = models.TextField(default="", db_default="", editable=False)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "djqueue_cron_entry"
        required_db_vendor = "postgresql"
        verbose_name = "cron entry"
        verbose_name_plural = "cron entries"

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
    """One fire of an entry; unique per entry name and fire time, kept 90 days."""

    id = models.BigAutoField(primary_key=True)
    name = key_field()
    fire_at = models.DateTimeField()
    fired_at = models.DateTimeField()
    job_id = models.UUIDField(null=True)

    class Meta:
        db_table = "djqueue_cron_fire"
        required_db_vendor = "postgresql"
        default_permissions = ("view",)
        verbose_name = "cron fire"
        constraints = [models.UniqueConstraint(name="djqueue_cron_fire_once", fields=["name", "fire_at"])]

    def __str__(self) -> str:
        return f"{self.name} {self.fire_at}"
