"""What the control room shows: waits, target ages, versions, what workers are like and asked for. Additive."""

import django.core.validators
import django.db.models.functions.datetime
from django.db import migrations, models

import djqueue.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("djqueue", "0004_queues"),
    ]

    operations = [
        migrations.CreateModel(
            name="CodeVersion",
            fields=[
                ("version", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("first_seen_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "db_table": "djqueue_code_version",
                "default_permissions": (),
                "required_db_vendor": "postgresql",
            },
        ),
        migrations.AlterModelOptions(
            name="worker",
            options={
                "default_permissions": ("view",),
                "permissions": [("order_worker", "Can ask workers to stop or to restart")],
            },
        ),
        migrations.AddField(
            model_name="queue",
            name="target_seconds",
            field=models.FloatField(
                blank=True,
                help_text="The queue is late when its oldest ready job has waited longer. Empty: 300 seconds.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(0.1),
                    django.core.validators.MaxValueValidator(31536000),
                ],
            ),
        ),
        migrations.AddField(
            model_name="stat",
            name="wait_histogram",
            field=djqueue.models.fields.ListField(db_default=[], editable=False, element="bigint"),
        ),
        migrations.AddField(
            model_name="worker",
            name="jobs_per_minute",
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name="worker",
            name="memory_bytes",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="worker",
            name="ordered",
            field=models.TextField(db_default="", default=""),
        ),
        migrations.AddField(
            model_name="worker",
            name="ordered_by",
            field=models.TextField(db_default="", default=""),
        ),
    ]
