"""Pauses of tasks and tenants, and how fast waiting raises a priority. Additive: older workers go on beside it."""

import django.core.validators
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("djqueue", "0003_letters"),
    ]

    operations = [
        migrations.AddField(
            model_name="queue",
            name="ageing_seconds",
            field=models.FloatField(
                blank=True,
                help_text="A job that has waited so long counts as one priority higher. Empty: as the settings say.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(0.001),
                    django.core.validators.MaxValueValidator(31536000),
                ],
            ),
        ),
        migrations.CreateModel(
            name="Pause",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("kind", models.TextField(db_collation="C")),
                ("name", models.TextField(db_collation="C")),
                ("paused_until", models.DateTimeField()),
                ("reason", models.TextField(db_default="", default="")),
                ("paused_by", models.TextField(db_default="", default="")),
                ("paused_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("swept", models.BooleanField(db_default=False, default=False)),
            ],
            options={
                "db_table": "djqueue_pause",
                "permissions": [("change_pauses", "Can pause and resume tasks and tenants")],
                "default_permissions": ("view",),
                "required_db_vendor": "postgresql",
                "constraints": [
                    models.UniqueConstraint(fields=("kind", "name"), name="djqueue_pause_key"),
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["task", "tenant"])), name="djqueue_pause_kind"
                    ),
                ],
            },
        ),
    ]
