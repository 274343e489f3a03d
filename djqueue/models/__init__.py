"""The tables of djqueue as Django sees them: for migrations, the admin and users' queries.

The queue itself never goes through these classes: the store speaks SQL to the same tables, and a test compares the two.
"""

from djqueue.models.bulk import BulkAct
from djqueue.models.circuit import Circuit, RetryBudget
from djqueue.models.cron import CronEntry, CronFire, CronMemory
from djqueue.models.ended import DeadLetter, History, HistoryOverflow
from djqueue.models.fleet import CodeVersion, Leader, Stat, Worker
from djqueue.models.job import DedupeWindow, Job, KeyBlock, Wake
from djqueue.models.letters import Death, ErrorGroup, Replay, ReplayJob
from djqueue.models.limits import Limiter, Tenant
from djqueue.models.queue import Lane, Pause, Queue

__all__ = [
    "BulkAct",
    "Circuit",
    "CodeVersion",
    "CronEntry",
    "CronFire",
    "CronMemory",
    "DeadLetter",
    "Death",
    "DedupeWindow",
    "ErrorGroup",
    "History",
    "HistoryOverflow",
    "Job",
    "KeyBlock",
    "Lane",
    "Leader",
    "Limiter",
    "Pause",
    "Queue",
    "Replay",
    "ReplayJob",
    "RetryBudget",
    "Stat",
    "Tenant",
    "Wake",
    "Worker",
]
