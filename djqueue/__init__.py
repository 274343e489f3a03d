"""djqueue: the durable job queue for Django projects, on the PostgreSQL they already have.

    from djqueue import task, cron, JobContext, Retry, Snooze, Dead, Cancel

Names are loaded when they are first used, since most need Django's settings.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from djqueue.api.context import JobContext
    from djqueue.api.cron import cron
    from djqueue.api.flow import chain
    from djqueue.api.results import JobResult
    from djqueue.api.task import DjqueueTask, task
    from djqueue.api.why import why
    from djqueue.exceptions import (
        ArgumentsError,
        Cancel,
        ConfigurationError,
        Dead,
        DjqueueError,
        DuplicateJob,
        EnqueueError,
        HandlerFault,
        JobCancelled,
        JobTimeout,
        LeaseLost,
        Retry,
        Snooze,
        TransactionError,
        WaitTimeout,
    )
    from djqueue.policy.ratelimit import RateLimit
    from djqueue.policy.retry import FixedRetry, RetryPolicy
    from djqueue.policy.verdict import retry_after

__all__ = [
    "ArgumentsError",
    "Cancel",
    "ConfigurationError",
    "Dead",
    "DjqueueError",
    "DjqueueTask",
    "DuplicateJob",
    "EnqueueError",
    "FixedRetry",
    "HandlerFault",
    "JobCancelled",
    "JobContext",
    "JobResult",
    "JobTimeout",
    "LeaseLost",
    "RateLimit",
    "Retry",
    "RetryPolicy",
    "Snooze",
    "TransactionError",
    "WaitTimeout",
    "chain",
    "cron",
    "retry_after",
    "task",
    "why",
]

_HOMES = {
    "DjqueueTask": "djqueue.api.task",
    "FixedRetry": "djqueue.policy.retry",
    "JobContext": "djqueue.api.context",
    "JobResult": "djqueue.api.results",
    "RateLimit": "djqueue.policy.ratelimit",
    "RetryPolicy": "djqueue.policy.retry",
    "chain": "djqueue.api.flow",
    "cron": "djqueue.api.cron",
    "retry_after": "djqueue.policy.verdict",
    "task": "djqueue.api.task",
    "why": "djqueue.api.why",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'djqueue' has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "djqueue.exceptions")), name)
    globals()[name] = value
    return value
