"""Waiting jobs of another queue become jobs here: enqueued through their tasks, a batch per transaction.

    lock a batch there ─► enqueue each here ─► take out there what was enqueued ─► commit

Invariant: a job is either there or here, never both and never in neither: one transaction does both, so the other
queue's tables must be in the same database, and a second run finds only what the first one left.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import DatabaseError, transaction

from djqueue.api import registry
from djqueue.compat import InvalidTask
from djqueue.exceptions import EnqueueError
from djqueue.nearest import nearest
from djqueue.store import foreign
from djqueue.store.foreign import SOURCES, Source, Waiting

MOST_EXAMPLES = 3

Decode = Callable[[Waiting], tuple[str, Any, dict[str, Any]]]
"""For a payload in a form of its own: the task's name, the payload as JSON would have it, options for `.using`."""


class Unfit(Exception):
    """This job can't be moved, for this reason."""


@dataclass(slots=True, kw_only=True)
class Report:
    """What has become of the jobs of one import, so far."""

    moved: Counter[str] = field(default_factory=Counter)
    """By task."""
    left: Counter[str] = field(default_factory=Counter)
    """By reason."""
    examples: dict[str, list[str]] = field(default_factory=dict)
    """Keys of some jobs that were left, by reason."""
    notes: Counter[str] = field(default_factory=Counter)
    """What is different with jobs that were moved."""
    others: dict[str, int] = field(default_factory=dict)
    """Jobs that the other queue's workers have, by its own word for their state."""

    def leave(self, job: Waiting, why: str) -> None:
        """Count a job that stays where it is."""
        self.left[why] += 1
        shown = self.examples.setdefault(why, [])
        if len(shown) < MOST_EXAMPLES:
            shown.append(job.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What is to be moved, and how."""

    source: str
    """A key of `SOURCES`."""
    backend: Any
    tasks: Mapping[str, str] = field(default_factory=dict)
    """Names of tasks here by their names there, where they differ."""
    queues: Mapping[str, str] = field(default_factory=dict)
    batch: int = 500
    dry_run: bool = False
    """Do all of it, and roll each batch back."""
    decode: Decode | None = None


def run(move: Move) -> Iterator[Report]:
    """Move all that waits, and yield the report after each batch; stop whenever there was enough.

    Raises `LookupError` where the database of the backend does not hold the other queue's tables.
    """
    registry.load()
    source, alias = SOURCES[move.source], move.backend.alias_of_database
    if not foreign.is_there(alias, source):
        raise LookupError(
            f"expected the table {source.table} of {move.source} in the database {alias!r}, where djqueue's own are, "
            "since one transaction takes a job out there and puts it in here; found none"
        )
    report, last = Report(), None
    while True:
        with transaction.atomic(using=alias):
            jobs = foreign.take(alias, source, last, move.batch)
            _move(move, source, alias, jobs, report)
            transaction.set_rollback(move.dry_run, using=alias)
        report.others = foreign.others(alias, source)
        yield report
        if not jobs:
            return
        last = jobs[-1]


def _move(move: Move, source: Source, alias: str, jobs: list[Waiting], report: Report) -> None:
    gone = []
    for job in jobs:
        try:
            report.moved[_enqueued(move, job, report)] += 1
            gone.append(job.key)
        except DatabaseError:
            raise
        except (Unfit, EnqueueError, InvalidTask, ValueError, TypeError) as fault:
            report.leave(job, str(fault))
    if gone:
        foreign.done(alias, source, gone)


def _enqueued(move: Move, job: Waiting, report: Report) -> str:
    """Enqueue one job here, with what it says of itself; return the task's name."""
    name, payload = job.task_name, job.payload
    more: dict[str, Any] = {}
    if move.decode is not None:
        name, payload, more = move.decode(job)
    args, kwargs = _arguments(payload)
    task = _task(move.tasks.get(name, name))
    notes: list[str] = []
    given = {
        "backend": move.backend.alias,
        "queue_name": _queue(move, job.queue_name, task, notes),
        "priority": _priority(job.priority, notes),
        "run_after": job.run_after,
        "ordering_key": job.ordering_key,
        "dedupe_key": job.dedupe_key,
        "on_conflict": "ignore",
        "max_attempts": job.attempts_left,
        "tags": [*task.tags, f"{move.source}:{job.key}"],
        **more,
    }
    result = task.using(**{option: value for option, value in given.items() if value is not None}).enqueue(
        *args, **kwargs
    )
    if not result.created:
        raise Unfit("an unfinished job here holds its dedupe key")
    report.notes.update(notes)
    return str(task.module_path)


def _task(name: str) -> Any:
    task = registry.get(name)
    if task is None:
        raise Unfit(f"no task is called {name!r}{nearest(name, registry.names())}; give one the alias, or say --map")
    return task


def _arguments(payload: Any) -> tuple[list[Any], dict[str, Any]]:
    try:
        found = json.loads(payload) if isinstance(payload, str) else payload
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Unfit("its arguments are no JSON object")
    args, kwargs = found.get("args"), found.get("kwargs")
    if not isinstance(args, list | tuple) or not isinstance(kwargs, dict):
        raise Unfit("its arguments are not a list and an object")
    return list(args), kwargs


def _queue(move: Move, name: str, task: Any, notes: list[str]) -> str:
    wanted = move.queues.get(name, name)
    listed = move.backend.queues
    if not listed or wanted in listed:
        return wanted
    notes.append(f"queue {wanted!r} is not one of QUEUES: moved to the task's own, {task.queue_name!r}")
    return str(task.queue_name)


def _priority(priority: int, notes: list[str]) -> int:
    within = max(-100, min(100, priority))
    if within != priority:
        notes.append(f"priority {priority} became {within}: here they go from -100 to 100")
    return within
