"""Policies and owners of cron entries, and what each fire came to.

Expand only: every new column has a default in the database, so that workers of the release before go on beside it.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("djqueue", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="cronentry",
            name="missed",
            field=models.TextField(
                choices=[("skip", "skip"), ("run_once", "run_once"), ("run_all", "run_all")],
                db_default="run_once",
                default="run_once",
                help_text="What becomes of times that passed while nobody could fire them.",
            ),
        ),
        migrations.AddField(
            model_name="cronentry",
            name="missed_max",
            field=models.SmallIntegerField(
                db_default=100, default=100, help_text="run_all: at most so many, the latest ones."
            ),
        ),
        migrations.AddField(
            model_name="cronentry",
            name="grace_seconds",
            field=models.IntegerField(
                db_default=60, default=60, help_text="skip: a fire that is no later than this counts."
            ),
        ),
        migrations.AddField(
            model_name="cronentry",
            name="overlap",
            field=models.TextField(
                choices=[("allow", "allow"), ("skip", "skip"), ("queue_one", "queue_one")],
                db_default="allow",
                default="allow",
                help_text="What happens when the entry's last job has not ended.",
            ),
        ),
        migrations.AddField(
            model_name="cronentry",
            name="jitter_seconds",
            field=models.IntegerField(
                db_default=0, default=0, help_text="Each job starts up to so many seconds later."
            ),
        ),
        migrations.AddField(
            model_name="cronentry",
            name="in_code",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddField(
            model_name="cronentry",
            name="removed_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="cronentry",
            name="queued_fire_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="cronentry",
            name="last_job_id",
            field=models.UUIDField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="cronfire",
            name="outcome",
            field=models.TextField(db_default="enqueued", default="enqueued"),
        ),
        migrations.AddConstraint(
            model_name="cronentry",
            constraint=models.CheckConstraint(
                name="djqueue_cron_missed",
                condition=models.Q(
                    ("missed__in", ["skip", "run_once", "run_all"]),
                    ("missed_max__range", (1, 1000)),
                    ("grace_seconds__range", (0, 31536000)),
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="cronentry",
            constraint=models.CheckConstraint(
                name="djqueue_cron_overlap", condition=models.Q(("overlap__in", ["allow", "skip", "queue_one"]))
            ),
        ),
        migrations.AddConstraint(
            model_name="cronentry",
            constraint=models.CheckConstraint(
                name="djqueue_cron_jitter", condition=models.Q(("jitter_seconds__range", (0, 86400)))
            ),
        ),
    ]
