"""How many of the scheduled jobs are retries, in each queue's summary. Additive."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("djqueue", "0009_subjects"),
    ]

    operations = [
        migrations.AddField(
            model_name="queue",
            name="retrying",
            field=models.BigIntegerField(db_default=0, default=0, editable=False),
        ),
    ]
