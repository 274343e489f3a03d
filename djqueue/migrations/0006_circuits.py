"""Circuit breakers and retry budgets: two tables of their own. Additive: older workers go on beside them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("djqueue", "0005_control_room"),
    ]

    operations = [
        migrations.CreateModel(
            name="RetryBudget",
            fields=[
                ("queue_name", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("level", models.FloatField(db_default=0, default=0)),
                ("level_at", models.DateTimeField()),
                ("per_second", models.FloatField(db_default=0, default=0)),
                ("retries", models.BigIntegerField(db_default=0, default=0)),
                ("pushed", models.BigIntegerField(db_default=0, default=0)),
                ("pushed_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "djqueue_retry_budget",
                "default_permissions": (),
                "required_db_vendor": "postgresql",
            },
        ),
        migrations.CreateModel(
            name="Circuit",
            fields=[
                ("name", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("gate", models.TextField(db_collation="C")),
                ("state", models.TextField(db_default="closed", default="closed")),
                ("term", models.IntegerField(db_default=0, default=0)),
                ("changed_at", models.DateTimeField()),
                ("open_until", models.DateTimeField(null=True)),
                ("openings", models.IntegerField(db_default=0, default=0)),
                ("streak", models.IntegerField(db_default=0, default=0)),
                ("window", models.JSONField(db_default=[], default=list)),
                ("succeeded", models.IntegerField(db_default=0, default=0)),
                ("probes", models.JSONField(db_default=[], default=list)),
                ("credit", models.FloatField(db_default=0, default=0)),
                ("credited_at", models.DateTimeField()),
                ("reason", models.TextField(db_default="", default="")),
                ("changed_by", models.TextField(db_default="", default="")),
                ("overrides", models.JSONField(db_default={}, default=dict)),
                ("calls", models.BigIntegerField(db_default=0, default=0)),
                ("failures", models.BigIntegerField(db_default=0, default=0)),
                ("opened", models.BigIntegerField(db_default=0, default=0)),
                ("held_back", models.BigIntegerField(db_default=0, default=0)),
            ],
            options={
                "db_table": "djqueue_circuit",
                "permissions": [("operate_circuit", "Can open, close and reset circuits")],
                "default_permissions": ("view", "change"),
                "required_db_vendor": "postgresql",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["closed", "open", "half_open", "ramp"])),
                        name="djqueue_circuit_state",
                    )
                ],
            },
        ),
    ]
