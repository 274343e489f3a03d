"""How long ago each worker has looked for jobs, for health checks. Additive."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("djqueue", "0014_lease_counts"),
    ]

    operations = [
        migrations.AddField(
            model_name="worker",
            name="looked_seconds",
            field=models.FloatField(null=True),
        ),
    ]
