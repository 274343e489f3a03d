"""Django's view of a job: a TaskResult, made from a fresh enqueue or from the row wherever it is."""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from djqueue.api import largeargs, waiting
from djqueue.compat import AnyTaskResult, InvalidTask, TaskError, TaskResultStatus
from djqueue.states import State
from djqueue.store.enqueue import Enqueued
from djqueue.store.results import Found

STATUS = {
    State.READY: TaskResultStatus.READY,
    State.SCHEDULED: TaskResultStatus.READY,
    State.PARKED: TaskResultStatus.READY,
    State.LEASED: TaskResultStatus.RUNNING,
    State.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    State.DEAD: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult(AnyTaskResult):  # type: ignore[misc]
    """A job as Django sees it. `refresh()` asks the database again."""

    created: bool = True
    """False: the enqueue found an unfinished job with the same dedupe key and wrote none; `id` and `enqueued_at` are
    that job's, the rest shows this call until it is refreshed."""

    changed: bool = False
    """The job that held the key waits and was changed by this call, as `on_conflict` or `debounce` say. False beside
    `created` False: it was left alone."""

    def wait(self, timeout: float | timedelta) -> Self:
        """Return this result, refreshed, once the job has ended in whatever way; `timeout` in seconds.

        Raises `WaitTimeout` where it has not ended by then, `TransactionError` in an open transaction.
        """
        waiting.wait(self, timeout)
        return self

    async def wait_async(self, timeout: float | timedelta) -> Self:
        """Wait for the job; see `wait`. (Django's prefix would make it `await`, which is a word of Python.)"""
        await waiting.wait_async(self, timeout)
        return self

    def __post_init__(self) -> None:
        """Leave the arguments alone: they come from JSON."""


def fresh(task: Any, answer: Enqueued, args: str, backend: str) -> JobResult:
    """Return the result of an enqueue. The arguments are read from the text that was stored."""
    arguments = json.loads(args)
    return JobResult(
        task=task,
        id=str(answer.id),
        status=TaskResultStatus.READY,
        enqueued_at=answer.created_at,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=arguments["args"],
        kwargs=arguments["kwargs"],
        backend=backend,
        errors=[],
        worker_ids=[],
        created=answer.created,
        changed=answer.changed,
    )


def found(task: Any, job: Found, backend: str) -> JobResult:
    """Return the result of a job that was read."""
    arguments = largeargs.shown(job.args) if isinstance(job.args, dict) else {}
    result = JobResult(
        task=_as_enqueued(task, job),
        id=str(job.id),
        status=STATUS[job.state],
        enqueued_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        last_attempted_at=job.started_at,
        args=arguments.get("args", []),
        kwargs=arguments.get("kwargs", {}),
        backend=backend,
        errors=[_error(entry) for entry in job.errors if "exception" in entry],
        worker_ids=job.worker_ids,
    )
    object.__setattr__(result, "_return_value", job.result)
    return result


def _as_enqueued(task: Any, job: Found) -> Any:
    """The task with the queue and priority of this job; as declared, where its queue is no longer listed."""
    if (task.queue_name, task.priority) == (job.queue_name, job.priority):
        return task
    try:
        return task.using(queue_name=job.queue_name, priority=job.priority)
    except InvalidTask:
        return task


def _error(entry: dict[str, Any]) -> TaskError:
    return TaskError(
        exception_class_path=entry["exception"],
        traceback=entry.get("traceback") or entry.get("message") or "",
    )
