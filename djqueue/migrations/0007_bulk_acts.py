"""Acts on many jobs at once, and permissions of their own. Additive: older workers go on beside it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("djqueue", "0006_circuits"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="job",
            options={
                "default_permissions": ("view",),
                "permissions": [
                    ("view_payload", "Can see arguments, results and tracebacks"),
                    ("retry_job", "Can retry scheduled jobs now"),
                    ("cancel_job", "Can cancel jobs"),
                    ("edit_job", "Can change queue, priority and time of waiting jobs"),
                    ("duplicate_job", "Can enqueue copies of jobs with other arguments"),
                ],
            },
        ),
        migrations.CreateModel(
            name="BulkAct",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("created_at", models.DateTimeField()),
                ("created_by", models.TextField(db_default="", default="")),
                ("act", models.TextField()),
                ("query", models.TextField(db_default="", default="")),
                ("wanted", models.JSONField(db_default={}, default=dict)),
                ("reason", models.TextField(db_default="", default="")),
                ("until", models.DateTimeField()),
                ("state", models.TextField(db_default="running", default="running")),
                ("total", models.BigIntegerField(db_default=0, default=0)),
                ("done", models.BigIntegerField(db_default=0, default=0)),
                ("refused", models.JSONField(db_default={}, default=dict)),
                ("refused_ids", models.JSONField(db_default=[], default=list)),
                ("cursor_id", models.UUIDField(null=True)),
                ("error", models.TextField(db_default="", default="")),
                ("stepped_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
            ],
            options={
                "verbose_name": "bulk act",
                "db_table": "djqueue_bulk_act",
                "default_permissions": ("view",),
                "required_db_vendor": "postgresql",
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "running")), fields=["id"], name="djqueue_bulk_act_running"
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["running", "finished", "stopped"])),
                        name="djqueue_bulk_act_state",
                    )
                ],
            },
        ),
    ]
