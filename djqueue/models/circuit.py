"""What protects dependencies from retries: circuit breakers, and the retry budget of each queue."""

from django.db import models

from djqueue.models.fields import key_field


class Circuit(models.Model):
    """A dependency that jobs call, and whether they may; shared by all workers, changed under a row lock only."""

    name = key_field(primary_key=True)
    gate = key_field()
    """The name in lanes, and of the row in `djqueue_lane` while it is not closed."""
    state = models.TextField(db_default="closed", default="closed")
    term = models.IntegerField(db_default=0, default=0)
    changed_at = models.DateTimeField()
    open_until = models.DateTimeField(null=True)
    openings = models.IntegerField(db_default=0, default=0)
    streak = models.IntegerField(db_default=0, default=0)
    window = models.JSONField(db_default=[], default=list)
    succeeded = models.IntegerField(db_default=0, default=0)
    probes = models.JSONField(db_default=[], default=list)
    """Ids and tokens of the leases that probe; those that have ended count no more."""
    credit = models.FloatField(db_default=0, default=0)
    credited_at = models.DateTimeField()
    reason = models.TextField(db_default="", default="")
    changed_by = models.TextField(db_default="", default="")
    """Who opened, closed or reset it by hand; empty where it changed by itself."""
    overrides = models.JSONField(db_default={}, default=dict)
    """Settings that go before those of the code."""
    calls = models.BigIntegerField(db_default=0, default=0)
    failures = models.BigIntegerField(db_default=0, default=0)
    opened = models.BigIntegerField(db_default=0, default=0)
    held_back = models.BigIntegerField(db_default=0, default=0)
    """Claimed jobs that were given back, uncharged, since it would not let them start."""

    class Meta:
        db_table = "djqueue_circuit"
        required_db_vendor = "postgresql"
        default_permissions = ("view", "change")
        permissions = [("operate_circuit", "Can open, close and reset circuits")]
        constraints = [
            models.CheckConstraint(
                name="djqueue_circuit_state",
                condition=models.Q(state__in=["closed", "open", "half_open", "ramp"]),
            )
        ]

    def __str__(self) -> str:
        return str(self.name)


class RetryBudget(models.Model):
    """How much of its retry budget a queue has used, and how many retries were pushed later for that."""

    queue_name = key_field(primary_key=True)
    level = models.FloatField(db_default=0, default=0)
    """Retries that the budget has not yet allowed for; it falls by `per_second`."""
    level_at = models.DateTimeField()
    per_second = models.FloatField(db_default=0, default=0)
    """What the budget allowed at that moment."""
    retries = models.BigIntegerField(db_default=0, default=0)
    pushed = models.BigIntegerField(db_default=0, default=0)
    pushed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "djqueue_retry_budget"
        required_db_vendor = "postgresql"
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.queue_name)
