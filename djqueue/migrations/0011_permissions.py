"""Permissions to let cron entries run now and to empty queues. Additive."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("djqueue", "0010_retrying"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="cronentry",
            options={
                "permissions": [("run_cronentry", "Can let cron entries run now")],
                "verbose_name": "cron entry",
                "verbose_name_plural": "cron entries",
            },
        ),
        migrations.AlterModelOptions(
            name="queue",
            options={
                "permissions": [
                    ("pause_queue", "Can pause and resume queues"),
                    ("purge_queue", "Can cancel all that waits in a queue"),
                ]
            },
        ),
    ]
