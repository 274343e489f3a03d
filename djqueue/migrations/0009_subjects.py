"""Indexes of the jobs of an object, and of those that a job enqueued. Partial: jobs without cost nothing.

On history they are built while its rows are locked against writing: acks wait for as long as that takes.
"""

import django.db.models.fields.json
import django.db.models.lookups
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("djqueue", "0008_limits"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(
                django.db.models.fields.json.KeyTextTransform("subject", "options"),
                models.F("id"),
                condition=models.Q(
                    django.db.models.lookups.IsNull(
                        django.db.models.fields.json.KeyTextTransform("subject", "options"), False
                    )
                ),
                name="djqueue_dead_letter_subject",
            ),
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(
                django.db.models.fields.json.KeyTextTransform("parent", "options"),
                models.F("id"),
                condition=models.Q(
                    django.db.models.lookups.IsNull(
                        django.db.models.fields.json.KeyTextTransform("parent", "options"), False
                    )
                ),
                name="djqueue_dead_letter_parent",
            ),
        ),
        migrations.AddIndex(
            model_name="history",
            index=models.Index(
                django.db.models.fields.json.KeyTextTransform("subject", "options"),
                models.F("id"),
                condition=models.Q(
                    django.db.models.lookups.IsNull(
                        django.db.models.fields.json.KeyTextTransform("subject", "options"), False
                    )
                ),
                name="djqueue_history_subject",
            ),
        ),
        migrations.AddIndex(
            model_name="history",
            index=models.Index(
                django.db.models.fields.json.KeyTextTransform("parent", "options"),
                models.F("id"),
                condition=models.Q(
                    django.db.models.lookups.IsNull(
                        django.db.models.fields.json.KeyTextTransform("parent", "options"), False
                    )
                ),
                name="djqueue_history_parent",
            ),
        ),
        migrations.AddIndex(
            model_name="historyoverflow",
            index=models.Index(
                django.db.models.fields.json.KeyTextTransform("subject", "options"),
                models.F("id"),
                condition=models.Q(
                    django.db.models.lookups.IsNull(
                        django.db.models.fields.json.KeyTextTransform("subject", "options"), False
                    )
                ),
                name="djqueue_overflow_subject",
            ),
        ),
        migrations.AddIndex(
            model_name="historyoverflow",
            index=models.Index(
                django.db.models.fields.json.KeyTextTransform("parent", "options"),
                models.F("id"),
                condition=models.Q(
                    django.db.models.lookups.IsNull(
                        django.db.models.fields.json.KeyTextTransform("parent", "options"), False
                    )
                ),
                name="djqueue_overflow_parent",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                django.db.models.fields.json.KeyTextTransform("subject", "options"),
                models.F("id"),
                condition=models.Q(
                    django.db.models.lookups.IsNull(
                        django.db.models.fields.json.KeyTextTransform("subject", "options"), False
                    )
                ),
                name="djqueue_job_subject",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                django.db.models.fields.json.KeyTextTransform("parent", "options"),
                models.F("id"),
                condition=models.Q(
                    django.db.models.lookups.IsNull(
                        django.db.models.fields.json.KeyTextTransform("parent", "options"), False
                    )
                ),
                name="djqueue_job_parent",
            ),
        ),
    ]
