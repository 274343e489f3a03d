"""Dedupe keys that stay taken for a time, whatever becomes of the job. Additive: older workers go on beside it."""

from django.db import migrations, models

from djqueue.models.operations import RunPostgres


class Migration(migrations.Migration):
    dependencies = [
        ("djqueue", "0012_tenant_caps"),
    ]

    operations = [
        migrations.CreateModel(
            name="DedupeWindow",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue_name", models.TextField(db_collation="C")),
                ("dedupe_key", models.TextField(db_collation="C")),
                ("job_id", models.UUIDField()),
                ("opened_at", models.DateTimeField()),
                ("until", models.DateTimeField()),
            ],
            options={
                "db_table": "djqueue_dedupe_window",
                "default_permissions": (),
                "required_db_vendor": "postgresql",
                "indexes": [models.Index(fields=["until"], name="djqueue_dedupe_window_until")],
                "constraints": [
                    models.UniqueConstraint(fields=("queue_name", "dedupe_key"), name="djqueue_dedupe_window_key")
                ],
            },
        ),
        RunPostgres(
            "alter table djqueue_dedupe_window set (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.01,"
            " autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0)",
            reverse_sql="",
        ),
    ]
