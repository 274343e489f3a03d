"""From cron entries to their jobs: the task by name, the arguments checked, everything else as the task says.

Invariant: an entry enqueues as `task.enqueue(…)` does, with the same checks, options and signals; its task is found
among the known ones or nowhere.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from djqueue.api import arguments, registry
from djqueue.compat import task_backends
from djqueue.conf import nearest
from djqueue.store.cron import Entry

MOST_CHARACTERS = 4_000_000
"""Arguments in one call of `enqueue_many`, which then needs one statement only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A job that an entry will have enqueued; its arguments fit the task."""

    task: Any
    args: list[Any]
    kwargs: dict[str, Any]
    size: int


class CronJobs:
    """The jobs of the entries in the database of one backend."""

    def __init__(self, backend_alias: str) -> None:
        self._backend_alias = backend_alias

    def prepare(self, entry: Entry) -> Prepared:
        """Return the entry's job; raise what is wrong with the entry, in words."""
        args, kwargs = _arguments(entry)
        task = _task(entry)
        backend = self._backend_of(task)
        task = task.using(backend=backend.alias, queue_name=entry.queue_name or None)
        frozen = arguments.frozen(task, args, kwargs, backend.djqueue_options.max_args_bytes)
        return Prepared(task=task, args=args, kwargs=kwargs, size=len(frozen))

    def enqueue(self, wanted: Sequence[tuple[Prepared, int]]) -> list[UUID]:
        """Enqueue jobs, each after so many seconds; return their ids in order. Like jobs share a statement."""
        found: dict[int, UUID] = {}
        for task, places in _alike(wanted):
            backend = task.get_backend()
            rows = [_row(wanted[place][0]) for place in places]
            if None in rows:
                (place,) = places
                results = [backend.enqueue(task, wanted[place][0].args, wanted[place][0].kwargs)]
            else:
                results = backend.enqueue_many(task, rows)
            found.update((place, UUID(result.id)) for place, result in zip(places, results, strict=True))
        return [found[place] for place in range(len(wanted))]

    def _backend_of(self, task: Any) -> Any:
        """Return the task's own backend, if its jobs are in this database; else the one that this keeper serves."""
        mine: Any = task_backends[self._backend_alias]
        own = task.get_backend()
        return own if getattr(own, "alias_of_database", None) == mine.alias_of_database else mine


def _alike(wanted: Sequence[tuple[Prepared, int]]) -> Iterator[tuple[Any, list[int]]]:
    """Yield tasks, with the delay as an option, and the places of the jobs that one call may enqueue."""
    groups: dict[object, list[int]] = {}
    for place, (job, delay) in enumerate(wanted):
        alone = place if _row(job) is None else None
        key = (job.task.module_path, job.task.backend, job.task.queue_name, delay, alone)
        groups.setdefault(key, []).append(place)
    for places in groups.values():
        job, delay = wanted[places[0]]
        task = job.task.using(run_after=timedelta(seconds=delay)) if delay else job.task
        for part in _parts(places, wanted):
            yield task, part


def _parts(places: Sequence[int], wanted: Sequence[tuple[Prepared, int]]) -> Iterator[list[int]]:
    part: list[int] = []
    characters = 0
    for place in places:
        if part and characters + wanted[place][0].size > MOST_CHARACTERS:
            yield part
            part, characters = [], 0
        part.append(place)
        characters += wanted[place][0].size
    yield part


def _row(job: Prepared) -> tuple[Any, ...] | dict[str, Any] | None:
    """Return the arguments as a row of `enqueue_many`; None where they are of both kinds."""
    if job.args and job.kwargs:
        return None
    return job.kwargs or tuple(job.args)


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
