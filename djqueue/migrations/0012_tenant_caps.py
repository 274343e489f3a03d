"""An index for the few tenants that have caps of their own. Additive."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("djqueue", "0011_permissions"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="tenant",
            index=models.Index(
                condition=models.Q(("max_running__isnull", False)), fields=["queue_name"], name="djqueue_tenant_capped"
            ),
        ),
    ]
