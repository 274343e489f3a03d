"""The signals of Django's Tasks framework, as a worker sends them.

Building a TaskResult for a signal costs more than running a small job, so it is done only where somebody listens
besides the framework itself, whose own receiver only writes a log line: that line is written here without the detour.
Receivers run on slot threads; what they raise is logged and changes nothing.
"""

import json
import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.dispatch import Signal
from django.utils.log import RequireDebugTrue

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
    if _is_heard():
        _tasks_log.info("Task id=%s path=%s state=%s", job.id, job.task_name, status)


def _is_heard() -> bool:
    """Tell whether a handler would take the line: Django's own settings enable it, and then filter it out."""
    global _heard, _look_again
    if time.monotonic() > _look_again:
        _heard = _tasks_log.isEnabledFor(logging.INFO) and any(map(_takes_info, _handlers()))
        _look_again = time.monotonic() + 1
    return _heard


_heard = True
_look_again = 0.0


def _handlers() -> Iterator[logging.Handler]:
    logger: logging.Logger | None = _tasks_log
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None


def _takes_info(handler: logging.Handler) -> bool:
    is_deaf = isinstance(handler, logging.NullHandler) or handler.level > logging.INFO
    return not is_deaf and (settings.DEBUG or not any(isinstance(f, RequireDebugTrue) for f in handler.filters))


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
