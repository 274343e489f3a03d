"""The signals of Django's Tasks framework, as a worker sends them.

Building a TaskResult for a signal costs more than running a small job, so it is done only where somebody listens
besides the framework itself, whose own receiver only writes a log line: that line is written here without the detour.
Receivers run on slot threads; what they raise is logged and changes nothing.
"""

import json
import logging
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.dispatch import Signal

from djqueue.api.results import JobResult
from djqueue.compat import TASKS_LOGGER, AnyTaskResult, TaskResultStatus, task_signals
from djqueue.store.claim import Claimed

log = logging.getLogger("djqueue")
_tasks_log = logging.getLogger(TASKS_LOGGER)


def wanted(signal: Signal) -> bool:
    """Tell whether anybody listens: a receiver besides the framework's own, which only logs."""
    return len(signal.receivers) > 1


def log_state(job: Claimed, status: str) -> None:
    """Write the framework's log line about a job that has started or finished."""
    if _tasks_log.isEnabledFor(logging.INFO):
        _tasks_log.info("Task id=%s path=%s state=%s", job.id, job.task_name, status)


def send(signal: Signal, task: Any, result: AnyTaskResult) -> None:
    """Send a signal as Django's own backends do; log what receivers raise."""
    for receiver, answer in signal.send_robust(sender=type(task.get_backend()), task_result=result):
        if isinstance(answer, Exception):
            name = getattr(receiver, "__qualname__", repr(receiver))
            log.error("signal receiver failed receiver=%s", name, exc_info=answer)


def send_finished(task: Any, job_id: UUID) -> None:
    """Send `task_finished` with the job as the database now shows it."""
    send(task_signals.task_finished, task, task.get_backend().get_result(str(job_id)))


def running_result(task: Any, job: Claimed) -> AnyTaskResult:
    """Return a claimed job as Django sees it."""
    arguments = json.loads(job.args)
    now = datetime.now(UTC)
    return JobResult(
        task=task,
        id=str(job.id),
        status=TaskResultStatus.RUNNING,
        enqueued_at=datetime.fromtimestamp(job.created_at, UTC),
        started_at=now,
        finished_at=None,
        last_attempted_at=now,
        args=arguments["args"],
        kwargs=arguments["kwargs"],
        backend=task.backend,
        errors=[],
        worker_ids=[""] * job.attempts,
    )
