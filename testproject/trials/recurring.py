"""A module of tasks with a schedule, for supervisors that are told of it (`task_modules`)."""

from djqueue import cron
from testproject.trials.tasks import note

cron("0 0 1 1 *", name="recurring", args=["recurring"])(note)
