"""Limits of what may run at once and how often; tenants. Additive: older workers go on beside it, without limits."""

from django.core.validators import MinValueValidator
from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies = [
        ("djqueue", "0007_bulk_acts"),
    ]

    operations = [
        migrations.CreateModel(
            name="Limiter",
            fields=[
                ("name", models.TextField(db_collation="C", editable=False, primary_key=True, serialize=False)),
                ("label", models.TextField(db_default="", default="", editable=False)),
                ("task_name", models.TextField(db_default="", default="", editable=False)),
                ("declared_running", models.IntegerField(editable=False, null=True)),
                ("declared_rate", models.FloatField(editable=False, null=True)),
                ("declared_burst", models.FloatField(editable=False, null=True)),
                (
                    "max_running",
                    models.PositiveIntegerField(blank=True, null=True),
                ),
                (
                    "rate",
                    models.FloatField(
                        blank=True,
                        null=True,
                        validators=[MinValueValidator(1e-06)],
                    ),
                ),
                (
                    "burst",
                    models.FloatField(
                        blank=True,
                        null=True,
                        validators=[MinValueValidator(1)],
                    ),
                ),
                ("tokens", models.FloatField(editable=False, null=True)),
                ("filled_at", models.DateTimeField(editable=False, null=True)),
                (
                    "paused_until",
                    models.DateTimeField(blank=True, null=True),
                ),
                ("paused_reason", models.TextField(blank=True, db_default="", default="")),
                ("made_at", models.DateTimeField(db_default=Now(), editable=False)),
            ],
            options={
                "db_table": "djqueue_limiter",
                "default_permissions": ("view", "change"),
                "required_db_vendor": "postgresql",
            },
        ),
        migrations.CreateModel(
            name="Tenant",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue_name", models.TextField(db_collation="C")),
                ("tenant_id", models.TextField(db_default="", default="")),
                ("gate", models.TextField(db_collation="C", editable=False)),
                (
                    "max_running",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                    ),
                ),
                (
                    "tier",
                    models.TextField(blank=True, db_default="", default=""),
                ),
                (
                    "weight",
                    models.FloatField(
                        blank=True,
                        null=True,
                        validators=[MinValueValidator(1e-06)],
                    ),
                ),
                ("virtual_seconds", models.FloatField(db_default=0, default=0, editable=False)),
                ("mean_seconds", models.FloatField(editable=False, null=True)),
                ("used_at", models.DateTimeField(editable=False, null=True)),
            ],
            options={
                "db_table": "djqueue_tenant",
                "required_db_vendor": "postgresql",
            },
        ),
        migrations.AddField(
            model_name="queue",
            name="max_running",
            field=models.PositiveIntegerField(
                blank=True,
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="rate_limit",
            field=models.TextField(
                blank=True,
                db_default="",
                default="",
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="tenant_max_running",
            field=models.PositiveIntegerField(
                blank=True,
                null=True,
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                models.Func(
                    "lane", models.Value("k[0-9a-f]{16}"), function="substring", output_field=models.TextField()
                ),
                condition=models.Q(("state", "leased"), models.Q(("lane", ""), _negated=True)),
                name="djqueue_job_holding",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                models.F("queue_name"),
                models.Func(
                    "lane", models.Value("t[0-9a-f]{16}"), function="substring", output_field=models.TextField()
                ),
                condition=models.Q(("state", "leased"), models.Q(("lane", ""), _negated=True)),
                name="djqueue_job_tenant",
            ),
        ),
        migrations.AddConstraint(
            model_name="tenant",
            constraint=models.UniqueConstraint(fields=("queue_name", "gate"), name="djqueue_tenant_key"),
        ),
    ]
