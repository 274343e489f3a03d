"""Limits and tenants: what may run at once, how often, and whose turn it is."""

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models.functions import Now

from djqueue.models.fields import key_field

POSITIVE = [MinValueValidator(0.000_001)]


class Limiter(models.Model):
    """A concurrency or rate limit of a queue, a task or a key, by the name of its gate.

    What code or settings declare is written by workers; the other numbers, where they are set, count instead.
    """

    name = key_field(primary_key=True, editable=False)
    label = models.TextField(db_default="", default="", editable=False)
    task_name = models.TextField(db_default="", default="", editable=False)
    declared_running = models.IntegerField(null=True, editable=False)
    declared_rate = models.FloatField(null=True, editable=False)
    declared_burst = models.FloatField(null=True, editable=False)
    max_running = models.PositiveIntegerField(null=True, blank=True)
    rate = models.FloatField(null=True, blank=True, validators=POSITIVE)
    burst = models.FloatField(null=True, blank=True, validators=[MinValueValidator(1)])
    tokens = models.FloatField(null=True, editable=False)
    filled_at = models.DateTimeField(null=True, editable=False)
    paused_until = models.DateTimeField(null=True, blank=True)
    paused_reason = models.TextField(blank=True, db_default="", default="")
    made_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        db_table = "djqueue_limiter"
        required_db_vendor = "postgresql"
        default_permissions = ("view", "change")

    def __str__(self) -> str:
        return str(self.label or self.name)


class Tenant(models.Model):
    """A tenant in a queue: its cap, its weight, and how far its share has been used.

    Rows with settings are kept; others come and go with the tenant's jobs. The row without a tenant is the queue's own
    virtual time.
    """

    id = models.BigAutoField(primary_key=True)
    queue_name = key_field()
    tenant_id = models.TextField(db_default="", default="")
    gate = key_field(editable=False)
    max_running = models.PositiveIntegerField(null=True, blank=True)
    tier = models.TextField(blank=True, db_default="", default="")
    weight = models.FloatField(null=True, blank=True, validators=POSITIVE)
    virtual_seconds = models.FloatField(db_default=0, default=0, editable=False)
    mean_seconds = models.FloatField(null=True, editable=False)
    used_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "djqueue_tenant"
        required_db_vendor = "postgresql"
        constraints = [models.UniqueConstraint(name="djqueue_tenant_key", fields=["queue_name", "gate"])]
        indexes = [
            models.Index(
                name="djqueue_tenant_capped",
                fields=["queue_name"],
                condition=models.Q(max_running__isnull=False),
            )
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id} in {self.queue_name}"
