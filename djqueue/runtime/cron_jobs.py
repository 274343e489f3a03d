"""From a cron entry to its job: the task by name, the arguments checked, everything else as the task says.

Invariant: an entry enqueues as `task.enqueue(…)` does, with the same checks, options and signals; its task is found
among the known ones or nowhere.
"""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

from djqueue.api import arguments, registry
from djqueue.compat import task_backends
from djqueue.conf import nearest
from djqueue.store.cron import Entry


class CronJobs:
    """Prepares the jobs of one backend's entries."""

    def __init__(self, backend_alias: str) -> None:
        self._backend_alias = backend_alias

    def __call__(self, entry: Entry) -> Callable[[], UUID]:
        """Return what enqueues the entry's job and returns its id; raise what is wrong with the entry, in words."""
        backend: Any = task_backends[self._backend_alias]
        args, kwargs = _arguments(entry)
        task = _task(entry).using(backend=self._backend_alias, queue_name=entry.queue_name or None)
        arguments.frozen(task, args, kwargs, backend.djqueue_options.max_args_bytes)
        return lambda: UUID(backend.enqueue(task, args, kwargs).id)


def _task(entry: Entry) -> Any:
    task = registry.get(entry.task_name)
    if task is None:
        raise ValueError(
            f"task: expected one that this project has, got {entry.task_name!r}"
            f"{nearest(entry.task_name, registry.names())}"
        )
    return task


def _arguments(entry: Entry) -> tuple[list[Any], dict[str, Any]]:
    args, kwargs = json.loads(entry.args), json.loads(entry.kwargs)
    if not isinstance(args, list):
        raise ValueError(f"args: expected a JSON list, got {entry.args[:100]}")
    if not isinstance(kwargs, dict):
        raise ValueError(f"kwargs: expected a JSON object, got {entry.kwargs[:100]}")
    return args, kwargs
