"""The admin: what is queued, running, done, dead and planned, and what people may do about it.

Django's admin discovers this package by its name. Lists never count a whole table and never read payloads; every
action goes through the store, which guards it by the state that the row has at that moment.
"""

from djqueue.admin.bulkacts import BulkActAdmin
from djqueue.admin.circuits import CircuitAdmin
from djqueue.admin.cron import CronEntryAdmin, CronFireAdmin
from djqueue.admin.ended import DeadLetterAdmin, HistoryAdmin
from djqueue.admin.fleet import WorkerAdmin
from djqueue.admin.groups import ErrorGroupAdmin
from djqueue.admin.jobs import JobAdmin
from djqueue.admin.limits import LimiterAdmin, TenantAdmin
from djqueue.admin.pauses import PauseAdmin
from djqueue.admin.queues import QueueAdmin
from djqueue.admin.replays import ReplayAdmin

__all__ = [
    "BulkActAdmin",
    "CircuitAdmin",
    "CronEntryAdmin",
    "CronFireAdmin",
    "DeadLetterAdmin",
    "ErrorGroupAdmin",
    "HistoryAdmin",
    "JobAdmin",
    "LimiterAdmin",
    "PauseAdmin",
    "QueueAdmin",
    "ReplayAdmin",
    "TenantAdmin",
    "WorkerAdmin",
]
