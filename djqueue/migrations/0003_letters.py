"""Causes of death and their groups, replay runs, and jobs that expire. Additive: older workers go on beside it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("djqueue", "0002_cron_policies"),
    ]

    operations = [
        migrations.CreateModel(
            name="Death",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("died_at", models.DateTimeField()),
                ("job_id", models.UUIDField()),
                ("queue_name", models.TextField()),
                ("task_name", models.TextField()),
                ("tenant_id", models.TextField()),
                ("reason", models.TextField()),
                ("fingerprint", models.TextField()),
                ("exception", models.TextField()),
                ("frame", models.TextField()),
                ("message", models.TextField()),
                ("version", models.TextField()),
            ],
            options={
                "db_table": "djqueue_death",
                "default_permissions": (),
                "required_db_vendor": "postgresql",
            },
        ),
        migrations.CreateModel(
            name="ErrorGroup",
            fields=[
                ("fingerprint", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("state", models.TextField(db_default="open", default="open")),
                ("exception", models.TextField()),
                ("frame", models.TextField()),
                ("masked", models.TextField()),
                ("count", models.BigIntegerField(db_default=0, default=0)),
                ("reopened", models.IntegerField(db_default=0, default=0)),
                ("first_seen_at", models.DateTimeField()),
                ("last_seen_at", models.DateTimeField()),
                ("tasks", models.JSONField(db_default=[], default=list)),
                ("tenants", models.JSONField(db_default=[], default=list)),
                ("versions", models.JSONField(db_default=[], default=list)),
                ("samples", models.JSONField(db_default=[], default=list)),
                ("unannounced", models.BigIntegerField(db_default=0, default=0)),
                ("announced_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "djqueue_error_group",
                "permissions": [("triage_errorgroup", "Can mute, resolve and reopen error groups")],
                "default_permissions": ("view",),
                "required_db_vendor": "postgresql",
            },
        ),
        migrations.CreateModel(
            name="Replay",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("created_at", models.DateTimeField()),
                ("created_by", models.TextField(db_default="", default="")),
                ("fingerprint", models.TextField(blank=True, db_default="", default="")),
                ("queue_name", models.TextField(blank=True, db_default="", default="")),
                ("task_name", models.TextField(blank=True, db_default="", default="")),
                ("per_second", models.FloatField(default=10)),
                ("canary", models.IntegerField(default=5)),
                ("stop_ratio", models.FloatField(default=0.2)),
                ("state", models.TextField(db_default="running", default="running")),
                ("reason", models.TextField(db_default="", default="")),
                ("total", models.BigIntegerField(db_default=0, default=0)),
                ("requeued", models.BigIntegerField(db_default=0, default=0)),
                ("refused", models.BigIntegerField(db_default=0, default=0)),
                ("succeeded", models.BigIntegerField(db_default=0, default=0)),
                ("failed", models.BigIntegerField(db_default=0, default=0)),
                ("cursor_at", models.DateTimeField(null=True)),
                ("cursor_id", models.UUIDField(null=True)),
                ("credit", models.FloatField(db_default=0, default=0)),
                ("ticked_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "djqueue_replay",
                "permissions": [("run_replay", "Can start, pause, resume and stop replays of dead letters")],
                "default_permissions": ("view",),
                "required_db_vendor": "postgresql",
            },
        ),
        migrations.CreateModel(
            name="ReplayJob",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("replay_id", models.BigIntegerField()),
                ("job_id", models.UUIDField()),
                ("outcome", models.TextField(db_default="", default="")),
            ],
            options={
                "db_table": "djqueue_replay_job",
                "default_permissions": (),
                "required_db_vendor": "postgresql",
            },
        ),
        migrations.AlterModelOptions(
            name="deadletter",
            options={
                "default_permissions": ("view",),
                "permissions": [
                    ("requeue_deadletter", "Can requeue dead letters"),
                    ("edit_deadletter", "Can edit arguments of dead letters and requeue them"),
                    ("discard_deadletter", "Can discard dead letters"),
                ],
            },
        ),
        migrations.AddField(
            model_name="job",
            name="expires_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(fields=["died_at", "id"], name="djqueue_dead_letter_died"),
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(fields=["fingerprint", "died_at", "id"], name="djqueue_dead_letter_cause"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("expires_at__isnull", False), models.Q(("state", "leased"), _negated=True)),
                fields=["expires_at"],
                name="djqueue_job_expires",
            ),
        ),
        migrations.AddIndex(
            model_name="errorgroup",
            index=models.Index(fields=["last_seen_at"], name="djqueue_error_group_seen"),
        ),
        migrations.AddIndex(
            model_name="errorgroup",
            index=models.Index(
                condition=models.Q(("unannounced__gt", 0)), fields=["announced_at"], name="djqueue_error_group_news"
            ),
        ),
        migrations.AddConstraint(
            model_name="errorgroup",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["open", "muted", "resolved"])), name="djqueue_error_group_state"
            ),
        ),
        migrations.AddConstraint(
            model_name="replay",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["running", "paused", "stopped", "finished"])),
                name="djqueue_replay_state",
            ),
        ),
        migrations.AddConstraint(
            model_name="replay",
            constraint=models.CheckConstraint(condition=models.Q(("per_second__gt", 0)), name="djqueue_replay_rate"),
        ),
        migrations.AddIndex(
            model_name="replayjob",
            index=models.Index(
                condition=models.Q(("outcome__in", ["", "failing"])),
                fields=["replay_id"],
                name="djqueue_replay_job_open",
            ),
        ),
        migrations.AddConstraint(
            model_name="replayjob",
            constraint=models.UniqueConstraint(fields=("replay_id", "job_id"), name="djqueue_replay_job_key"),
        ),
    ]
