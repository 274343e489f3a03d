"""The whole schema of the first release."""

import django.core.validators
import django.db.models.functions.datetime
import django.db.models.functions.text
import django.db.models.lookups
from django.db import migrations, models

import djqueue.models.fields
from djqueue.models.operations import RunPostgres

# Partitioned by day, so that old days are dropped and never deleted; the partitions are made after migrating and by
# the leader. No unique index: its key would have to contain finished_at.
HISTORY = """
create table djqueue_history (
    id uuid not null, finished_at timestamptz not null, created_at timestamptz not null, started_at timestamptz,
    lease_token bigint not null, attempts smallint not null, interruptions integer not null, runs smallint not null,
    priority smallint not null, outcome text not null, queue_name text collate "C" not null, task_name text not null,
    tenant_id text not null, dedupe_key text collate "C", ordering_key text collate "C", worker_ids text[] not null,
    args jsonb not null, result jsonb, errors jsonb not null, options jsonb not null
) partition by range (finished_at);
create index djqueue_history_id on djqueue_history (id);
create index djqueue_history_queue on djqueue_history (queue_name, finished_at);
"""

# fillfactor keeps heartbeats HOT. Autovacuum comes early and unthrottled, and never truncates: that would take ACCESS
# EXCLUSIVE and stop the queue.
STORAGE = """
alter table djqueue_job set (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 100000, vacuum_truncate = false);
alter table djqueue_wake set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);
alter table djqueue_lane set (fillfactor = 50);
alter table djqueue_queue set (fillfactor = 50);
alter table djqueue_worker set (fillfactor = 50);
alter table djqueue_leader set (fillfactor = 50);
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="CronEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.TextField(
                        db_collation="C", help_text="Unique; the memory of past fires belongs to it.", unique=True
                    ),
                ),
                (
                    "schedule",
                    models.TextField(
                        help_text="Minute, hour, day of month, month, day of week; or an alias such as @daily."
                    ),
                ),
                ("timezone", models.TextField(db_default="UTC", default="UTC", help_text="For example Europe/Paris.")),
                ("task_name", models.TextField()),
                (
                    "queue_name",
                    models.TextField(
                        blank=True,
                        db_collation="C",
                        db_default="",
                        default="",
                        help_text="Empty: the task's own queue.",
                    ),
                ),
                (
                    "args",
                    models.JSONField(
                        blank=True, db_default=[], default=list, help_text="Positional arguments, a JSON list."
                    ),
                ),
                (
                    "kwargs",
                    models.JSONField(
                        blank=True, db_default={}, default=dict, help_text="Named arguments, a JSON object."
                    ),
                ),
                ("enabled", models.BooleanField(db_default=True, default=True)),
                ("next_fire_at", models.DateTimeField(editable=False, null=True)),
                ("last_error", models.TextField(db_default="", default="", editable=False)),
                ("changed_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "verbose_name": "cron entry",
                "verbose_name_plural": "cron entries",
                "db_table": "djqueue_cron_entry",
                "required_db_vendor": "postgresql",
            },
        ),
        migrations.CreateModel(
            name="CronMemory",
            fields=[
                ("name", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("last_fire_at", models.DateTimeField()),
            ],
            options={
                "db_table": "djqueue_cron_memory",
                "default_permissions": (),
                "required_db_vendor": "postgresql",
            },
        ),
        migrations.CreateModel(
            name="HistoryOverflow",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("finished_at", models.DateTimeField()),
                ("created_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(null=True)),
                ("lease_token", models.BigIntegerField()),
                ("attempts", models.SmallIntegerField()),
                ("interruptions", models.IntegerField()),
                ("runs", models.SmallIntegerField()),
                ("priority", models.SmallIntegerField()),
                ("outcome", models.TextField()),
                ("queue_name", models.TextField(db_collation="C")),
                ("task_name", models.TextField()),
                ("tenant_id", models.TextField()),
                ("dedupe_key", models.TextField(db_collation="C", null=True)),
                ("ordering_key", models.TextField(db_collation="C", null=True)),
                ("worker_ids", djqueue.models.fields.ListField(editable=False, element="text")),
                ("args", models.JSONField()),
                ("result", models.JSONField(null=True)),
                ("errors", models.JSONField()),
                ("options", models.JSONField()),
            ],
            options={
                "db_table": "djqueue_history_overflow",
                "default_permissions": ("view",),
                "required_db_vendor": "postgresql",
                "indexes": [models.Index(fields=["queue_name", "finished_at"], name="djqueue_overflow_queue")],
            },
        ),
        migrations.CreateModel(
            name="Leader",
            fields=[
                ("name", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("holder", models.TextField(db_default="")),
                ("term", models.BigIntegerField(db_default=0)),
                ("until", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "db_table": "djqueue_leader",
                "default_permissions": ("view",),
                "required_db_vendor": "postgresql",
            },
        ),
        migrations.CreateModel(
            name="Queue",
            fields=[
                ("name", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                (
                    "weight",
                    models.PositiveSmallIntegerField(
                        blank=True,
                        help_text="Share of a worker's attention, 1 to 1,000. Empty: as settings or command line say.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1000),
                        ],
                    ),
                ),
                (
                    "paused_until",
                    models.DateTimeField(blank=True, help_text="No job of this queue is claimed before.", null=True),
                ),
                ("paused_reason", models.TextField(blank=True, db_default="", default="")),
                ("paused_by", models.TextField(blank=True, db_default="", default="")),
                ("history_days", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("summary_at", models.DateTimeField(editable=False, null=True)),
                ("oldest_ready_at", models.DateTimeField(editable=False, null=True)),
                ("ready", models.BigIntegerField(db_default=0, default=0, editable=False)),
                ("scheduled", models.BigIntegerField(db_default=0, default=0, editable=False)),
                ("parked", models.BigIntegerField(db_default=0, default=0, editable=False)),
                ("leased", models.BigIntegerField(db_default=0, default=0, editable=False)),
            ],
            options={
                "db_table": "djqueue_queue",
                "permissions": [("pause_queue", "Can pause and resume queues")],
                "required_db_vendor": "postgresql",
            },
        ),
        migrations.CreateModel(
            name="Wake",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue_name", models.TextField(db_collation="C")),
                ("ordering_key", models.TextField(db_collation="C")),
            ],
            options={
                "db_table": "djqueue_wake",
                "default_permissions": (),
                "required_db_vendor": "postgresql",
            },
        ),
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("id", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("supervisor_id", models.TextField(db_default="")),
                ("host", models.TextField(db_default="")),
                ("pid", models.IntegerField(db_default=0)),
                ("version", models.TextField(db_default="")),
                ("schema_version", models.IntegerField(db_default=1)),
                ("started_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("seen_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("wants_news", models.BooleanField(db_default=True)),
                ("stopping", models.BooleanField(db_default=False)),
                ("slots", models.IntegerField(db_default=0)),
                ("queues", djqueue.models.fields.ListField(db_default=[], editable=False, element="text")),
                ("task_names", djqueue.models.fields.ListField(db_default=[], editable=False, element="text")),
                ("tasks_hash", models.TextField(db_default="")),
            ],
            options={
                "db_table": "djqueue_worker",
                "default_permissions": ("view",),
                "required_db_vendor": "postgresql",
            },
        ),
        migrations.CreateModel(
            name="CronFire",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.TextField(db_collation="C")),
                ("fire_at", models.DateTimeField()),
                ("fired_at", models.DateTimeField()),
                ("job_id", models.UUIDField(null=True)),
            ],
            options={
                "verbose_name": "cron fire",
                "db_table": "djqueue_cron_fire",
                "default_permissions": ("view",),
                "required_db_vendor": "postgresql",
                "constraints": [models.UniqueConstraint(fields=("name", "fire_at"), name="djqueue_cron_fire_once")],
            },
        ),
        migrations.CreateModel(
            name="DeadLetter",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("seq", models.BigIntegerField()),
                ("died_at", models.DateTimeField()),
                ("created_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(null=True)),
                ("lease_token", models.BigIntegerField()),
                ("timeout_seconds", models.FloatField(null=True)),
                ("priority", models.SmallIntegerField()),
                ("attempts", models.SmallIntegerField()),
                ("max_attempts", models.SmallIntegerField()),
                ("interruptions", models.IntegerField()),
                ("runs", models.SmallIntegerField()),
                ("reason", models.TextField()),
                ("fingerprint", models.TextField(db_default="")),
                ("queue_name", models.TextField(db_collation="C")),
                ("lane", models.TextField(db_collation="C")),
                ("task_name", models.TextField()),
                ("tenant_id", models.TextField()),
                ("dedupe_key", models.TextField(db_collation="C", null=True)),
                ("ordering_key", models.TextField(db_collation="C", null=True)),
                ("on_dead", models.TextField()),
                ("worker_ids", djqueue.models.fields.ListField(editable=False, element="text")),
                ("args", models.JSONField()),
                ("errors", models.JSONField()),
                ("options", models.JSONField()),
                ("progress", models.JSONField(null=True)),
                ("checkpoint", models.JSONField(null=True)),
            ],
            options={
                "db_table": "djqueue_dead_letter",
                "permissions": [("requeue_deadletter", "Can requeue dead letters")],
                "default_permissions": ("view",),
                "required_db_vendor": "postgresql",
                "indexes": [models.Index(fields=["queue_name", "died_at"], name="djqueue_dead_letter_queue")],
            },
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="History",
                    fields=[
                        ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                        ("finished_at", models.DateTimeField()),
                        ("created_at", models.DateTimeField()),
                        ("started_at", models.DateTimeField(null=True)),
                        ("lease_token", models.BigIntegerField()),
                        ("attempts", models.SmallIntegerField()),
                        ("interruptions", models.IntegerField()),
                        ("runs", models.SmallIntegerField()),
                        ("priority", models.SmallIntegerField()),
                        ("outcome", models.TextField()),
                        ("queue_name", models.TextField(db_collation="C")),
                        ("task_name", models.TextField()),
                        ("tenant_id", models.TextField()),
                        ("dedupe_key", models.TextField(db_collation="C", null=True)),
                        ("ordering_key", models.TextField(db_collation="C", null=True)),
                        ("worker_ids", djqueue.models.fields.ListField(editable=False, element="text")),
                        ("args", models.JSONField()),
                        ("result", models.JSONField(null=True)),
                        ("errors", models.JSONField()),
                        ("options", models.JSONField()),
                    ],
                    options={
                        "verbose_name_plural": "history",
                        "db_table": "djqueue_history",
                        "default_permissions": ("view",),
                        "required_db_vendor": "postgresql",
                        "indexes": [models.Index(fields=["queue_name", "finished_at"], name="djqueue_history_queue")],
                    },
                ),
            ],
            database_operations=[RunPostgres(HISTORY, "drop table djqueue_history")],
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("seq", djqueue.models.fields.SequenceField(editable=False)),
                ("lease_token", models.BigIntegerField(db_default=0)),
                ("run_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("started_at", models.DateTimeField(null=True)),
                ("lease_until", models.DateTimeField(null=True)),
                ("cancel_requested_at", models.DateTimeField(null=True)),
                ("timeout_seconds", models.FloatField(null=True)),
                ("priority", models.SmallIntegerField(db_default=0)),
                ("attempts", models.SmallIntegerField(db_default=0)),
                ("max_attempts", models.SmallIntegerField(db_default=8)),
                ("interruptions", models.IntegerField(db_default=0)),
                ("runs", models.SmallIntegerField(db_default=1)),
                ("suspect", models.BooleanField(db_default=False)),
                ("state", models.TextField(db_default="ready")),
                ("queue_name", models.TextField(db_collation="C")),
                ("lane", models.TextField(db_collation="C", db_default="")),
                ("task_name", models.TextField()),
                ("tenant_id", models.TextField(db_default="")),
                ("leased_by", models.TextField(null=True)),
                ("parked_for", models.TextField(db_collation="C", null=True)),
                ("dedupe_key", models.TextField(db_collation="C", null=True)),
                ("ordering_key", models.TextField(db_collation="C", null=True)),
                ("on_dead", models.TextField(db_default="skip")),
                ("worker_ids", djqueue.models.fields.ListField(db_default=[], editable=False, element="text")),
                ("args", models.JSONField(db_default={})),
                ("errors", models.JSONField(db_default=[])),
                ("options", models.JSONField(db_default={})),
                ("progress", models.JSONField(null=True)),
                ("checkpoint", models.JSONField(null=True)),
            ],
            options={
                "db_table": "djqueue_job",
                "permissions": [
                    ("view_payload", "Can see arguments, results and tracebacks"),
                    ("retry_job", "Can retry scheduled jobs now"),
                    ("cancel_job", "Can cancel jobs"),
                ],
                "default_permissions": ("view",),
                "required_db_vendor": "postgresql",
                "indexes": [
                    models.Index(
                        models.F("queue_name"),
                        models.F("lane"),
                        models.OrderBy(models.F("priority"), descending=True),
                        models.F("run_at"),
                        models.F("seq"),
                        condition=models.Q(("state", "ready"), ("suspect", False)),
                        name="djqueue_job_claim",
                    ),
                    models.Index(
                        condition=models.Q(("state", "ready"), ("suspect", True)),
                        fields=["queue_name", "run_at"],
                        name="djqueue_job_suspect",
                    ),
                    models.Index(
                        condition=models.Q(("state", "leased")),
                        fields=["queue_name", "lane"],
                        name="djqueue_job_leased",
                    ),
                    models.Index(condition=models.Q(("state", "scheduled")), fields=["run_at"], name="djqueue_job_due"),
                    models.Index(
                        condition=models.Q(
                            ("ordering_key__isnull", False), ("parked_for__isnull", True), ("state", "parked")
                        ),
                        fields=["queue_name", "ordering_key", "seq"],
                        name="djqueue_job_next",
                    ),
                    models.Index(
                        condition=models.Q(("parked_for__isnull", False)),
                        fields=["parked_for", "queue_name"],
                        name="djqueue_job_aside",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["ready", "scheduled", "parked", "leased"])),
                        name="djqueue_job_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("lease_until__isnull", False), ("leased_by__isnull", False), ("state", "leased")),
                            models.Q(
                                models.Q(("state", "leased"), _negated=True),
                                ("lease_until__isnull", True),
                                ("leased_by__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="djqueue_job_lease",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("attempts__lt", models.F("max_attempts")),
                            models.Q(("attempts__lte", models.F("max_attempts")), ("state", "leased")),
                            _connector="OR",
                        ),
                        name="djqueue_job_bounded",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("priority__range", (-100, 100))), name="djqueue_job_priority"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("max_attempts__range", (1, 1000))), name="djqueue_job_max_attempts"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("on_dead__in", ["skip", "block"])), name="djqueue_job_on_dead"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("queue_name", ""), _negated=True), name="djqueue_job_queue_name_given"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("task_name", ""), _negated=True), name="djqueue_job_task_name_given"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            django.db.models.lookups.LessThanOrEqual(
                                django.db.models.functions.text.Length("queue_name"), 100
                            )
                        ),
                        name="djqueue_job_queue_name_length",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            django.db.models.lookups.LessThanOrEqual(
                                django.db.models.functions.text.Length("lane"), 200
                            )
                        ),
                        name="djqueue_job_lane_length",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            django.db.models.lookups.LessThanOrEqual(
                                django.db.models.functions.text.Length("task_name"), 300
                            )
                        ),
                        name="djqueue_job_task_name_length",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            django.db.models.lookups.LessThanOrEqual(
                                django.db.models.functions.text.Length("tenant_id"), 200
                            )
                        ),
                        name="djqueue_job_tenant_id_length",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            django.db.models.lookups.LessThanOrEqual(
                                django.db.models.functions.text.Length("parked_for"), 310
                            )
                        ),
                        name="djqueue_job_parked_for_length",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            django.db.models.lookups.LessThanOrEqual(
                                django.db.models.functions.text.Length("dedupe_key"), 300
                            )
                        ),
                        name="djqueue_job_dedupe_key_length",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            django.db.models.lookups.LessThanOrEqual(
                                django.db.models.functions.text.Length("ordering_key"), 300
                            )
                        ),
                        name="djqueue_job_ordering_key_length",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("dedupe_key__isnull", False)),
                        fields=("queue_name", "dedupe_key"),
                        name="djqueue_job_dedupe",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(
                            ("ordering_key__isnull", False),
                            models.Q(
                                models.Q(("state", "parked"), _negated=True),
                                ("parked_for__isnull", False),
                                _connector="OR",
                            ),
                        ),
                        fields=("queue_name", "ordering_key"),
                        name="djqueue_job_head",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="KeyBlock",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue_name", models.TextField(db_collation="C")),
                ("ordering_key", models.TextField(db_collation="C")),
                ("job_id", models.UUIDField()),
            ],
            options={
                "db_table": "djqueue_key_block",
                "default_permissions": ("view",),
                "required_db_vendor": "postgresql",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("queue_name", "ordering_key", "job_id"), name="djqueue_key_block_key"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Lane",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue_name", models.TextField(db_collation="C")),
                ("lane", models.TextField(db_collation="C")),
                ("closed_until", models.DateTimeField(null=True)),
                ("reason", models.TextField(db_default="", default="")),
                ("max_running", models.IntegerField(null=True)),
            ],
            options={
                "db_table": "djqueue_lane",
                "required_db_vendor": "postgresql",
                "constraints": [models.UniqueConstraint(fields=("queue_name", "lane"), name="djqueue_lane_key")],
            },
        ),
        migrations.CreateModel(
            name="Stat",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("minute", models.DateTimeField()),
                ("queue_name", models.TextField(db_collation="C")),
                ("task_name", models.TextField(db_collation="C")),
                ("outcome", models.TextField(db_collation="C")),
                ("count", models.BigIntegerField(db_default=0)),
                ("seconds", models.FloatField(db_default=0)),
                ("histogram", djqueue.models.fields.ListField(db_default=[], editable=False, element="bigint")),
            ],
            options={
                "db_table": "djqueue_stat",
                "default_permissions": ("view",),
                "required_db_vendor": "postgresql",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("minute", "queue_name", "task_name", "outcome"), name="djqueue_stat_key"
                    )
                ],
            },
        ),
        RunPostgres(STORAGE, migrations.RunSQL.noop),
    ]
