"""Counts of leases behind a limit by indexes that serve nothing else. Additive: older workers' counts go by another."""

from django.db import migrations, models
from django.db.models import F, Func, Q, Value


def _gate(pattern: str) -> Func:
    return Func("lane", Value(pattern), function="substring", output_field=models.TextField())


class Migration(migrations.Migration):
    dependencies = [
        ("djqueue", "0013_dedupe_windows"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="job", name="djqueue_job_holding"),
        migrations.RemoveIndex(model_name="job", name="djqueue_job_tenant"),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                _gate("k[0-9a-f]{16}"),
                name="djqueue_job_holds",
                condition=Q(leased_by__isnull=False) & ~Q(lane=""),
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                F("queue_name"),
                _gate("t[0-9a-f]{16}"),
                name="djqueue_job_of_tenant",
                condition=Q(leased_by__isnull=False) & ~Q(tenant_id=""),
            ),
        ),
    ]
