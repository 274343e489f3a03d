"""What a test says about jobs that were enqueued, or were not; and what it is told when it is wrong.

Jobs are looked for wherever they are by now: unfinished, in history, dead. In a TestCase that is what this test has
enqueued. Arguments are compared as the handler gets them, whether they were given by position or by name.
"""

import inspect
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone

from djqueue.api import registry
from djqueue.compat import DEFAULT_TASK_BACKEND_ALIAS
from djqueue.policy.arguments import freeze
from djqueue.policy.durations import in_words
from djqueue.states import State
from djqueue.store import db
from djqueue.testing.backends import djqueue_backend

MOST_SHOWN = 10
NEAR = timedelta(milliseconds=1)
"""A delay in seconds is a float on its way to the database."""

_NOTHING = object()

Moment = datetime | timedelta
Window = Moment | tuple[Moment, Moment]

ENQUEUED = """
select id, state, queue_name, task_name, args::text, priority, created_at, run_at, seq
from djqueue_job where task_name = any(%(names)s::text[]) or %(all)s
union all
select id, outcome, queue_name, task_name, args::text, priority, created_at, null, null
from djqueue_history where task_name = any(%(names)s::text[]) or %(all)s
union all
select id, outcome, queue_name, task_name, args::text, priority, created_at, null, null
from djqueue_history_overflow where task_name = any(%(names)s::text[]) or %(all)s
union all
select id, 'dead', queue_name, task_name, args::text, priority, created_at, null, null
from djqueue_dead_letter where task_name = any(%(names)s::text[]) or %(all)s
order by 7, 9, 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueuedJob:
    """A job as it stands now."""

    id: UUID
    state: State
    queue_name: str
    task_name: str
    args: list[Any]
    kwargs: dict[str, Any]
    priority: int
    enqueued_at: datetime
    run_at: datetime | None
    """When it may next be claimed; None once it has ended."""

    @property
    def delay(self) -> timedelta | None:
        """From the enqueue to the moment when it is due."""
        return None if self.run_at is None else self.run_at - self.enqueued_at


def enqueued_jobs(task: Any = None, *, backend: str = DEFAULT_TASK_BACKEND_ALIAS) -> list[EnqueuedJob]:
    """Return the jobs of a task, or all, in the order of their enqueues, whatever has become of them."""
    names = [] if task is None else registry.same(_task(task).module_path)
    alias = djqueue_backend(backend, "enqueued_jobs").alias_of_database
    return [_job(row) for row in db.rows(alias, ENQUEUED, {"names": names, "all": task is None})]


def assert_enqueued(
    task: Any,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    queue_name: str | None = None,
    run_after: Window | None = None,
    count: int | None = None,
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
) -> list[EnqueuedJob]:
    """Fail unless at least one job of the task (or exactly `count`) fits everything that is given; return those.

    `args` and `kwargs` together are one call: where one is given, the other is empty. `run_after` is a timedelta from
    the enqueue, a moment, or a pair of them: from … to. A job that has ended is due no more and fits none.
    """
    wish = _Wish(_task(task), args, kwargs, queue_name, run_after)
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
        raise ValueError(f"count: expected a whole number from 1, got {count!r}; say assert_not_enqueued for none")
    found = enqueued_jobs(task, backend=backend)
    fitting = [job for job in found if not wish.faults(job)]
    if len(fitting) != count if count is not None else not fitting:
        expected = "at least 1 job" if count is None else f"{count} job{'s' * (count != 1)}"
        told = _told(wish, found, backend)
        raise AssertionError(f"assert_enqueued: expected {expected} of {wish}, got {len(fitting)}.\n{told}")
    return fitting


def assert_not_enqueued(
    task: Any = None,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    queue_name: str | None = None,
    run_after: Window | None = None,
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
) -> None:
    """Fail if a job fits everything that is given; without a task, if there is any job at all."""
    wish = _Wish(None if task is None else _task(task), args, kwargs, queue_name, run_after)
    fitting = [job for job in enqueued_jobs(task, backend=backend) if not wish.faults(job)]
    if fitting:
        said = "\n".join(_lines(wish, fitting))
        raise AssertionError(f"assert_not_enqueued: expected no job of {wish}, got {len(fitting)}:\n{said}")


class _Wish:
    """What a test asks for."""

    def __init__(
        self,
        task: Any,
        args: Sequence[Any] | None,
        kwargs: Mapping[str, Any] | None,
        queue_name: str | None,
        run_after: Window | None,
    ) -> None:
        self.task = task
        self.queue_name = queue_name
        self.run_after = _window(run_after)
        self.call = None
        if args is not None or kwargs is not None:
            if task is None:
                raise ValueError("args, kwargs: expected a task beside them, got none")
            if isinstance(args, str | bytes):
                raise TypeError(f"args: expected a list or tuple, got {type(args).__name__}; write args=[{args!r}]")
            given = json.loads(freeze(args or (), kwargs or {}))
            self.call = _bound(task, given["args"], given["kwargs"])

    def __str__(self) -> str:
        words = ["any task" if self.task is None else self.task.module_path]
        if self.call is not None:
            words.append(f"with {_call(self.call)}")
        if self.queue_name is not None:
            words.append(f"in queue {self.queue_name!r}")
        if self.run_after is not None:
            low, high = self.run_after
            words.append(f"due {_said(low)}" if low == high else f"due from {_said(low)} to {_said(high)}")
        return " ".join(words)

    def faults(self, job: EnqueuedJob) -> list[str]:
        """Say in what a job does not fit."""
        faults = []
        if self.call is not None:
            faults += _difference(self.call, _bound(self.task, job.args, job.kwargs))
        if self.queue_name not in (None, job.queue_name):
            faults.append(f"queue {job.queue_name!r}, expected {self.queue_name!r}")
        if self.run_after is not None and not self._is_due(job):
            faults.append("it has ended, so it is due no more" if job.run_at is None else "due at another time")
        return faults

    def _is_due(self, job: EnqueuedJob) -> bool:
        assert self.run_after is not None
        low, high = self.run_after
        if job.run_at is None or job.delay is None:
            return False
        if isinstance(low, timedelta) and isinstance(high, timedelta):
            return low - NEAR <= job.delay <= high + NEAR
        return bool(low <= job.run_at <= high)  # type: ignore[operator]


def _task(task: Any) -> Any:
    if not hasattr(task, "module_path"):
        hint = "; it seems to be a plain function: is the decorator missing?" if callable(task) else ""
        raise TypeError(f"expected a task, such as send_receipt of @task, got {type(task).__name__}{hint}")
    return task


def _window(given: Window | None) -> tuple[Moment, Moment] | None:
    if given is None:
        return None
    low, high = given if isinstance(given, tuple) else (given, given)
    for each in (low, high):
        if not isinstance(each, datetime | timedelta):
            raise TypeError(f"run_after: expected a datetime or a timedelta, or two of them, got {each!r}")
        if isinstance(each, datetime) and timezone.is_naive(each):
            raise ValueError(f"run_after: expected a moment with a time zone, got {each!r}")
    if isinstance(low, datetime) is not isinstance(high, datetime):
        raise TypeError(f"run_after: expected two datetimes or two timedeltas, got {low!r} and {high!r}")
    return low, high


def _bound(task: Any, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by the names of the handler's parameters, so that it does not matter how they were given;
    what does not fit the signature keeps its place."""
    before: list[Any] = [None] if task.takes_context else []
    try:
        bound = inspect.signature(task.func).bind(*before, *args, **kwargs)
    except (TypeError, ValueError):
        return _by_place(args, kwargs)
    bound.apply_defaults()
    names = list(bound.arguments)[len(before) :]
    return json.loads(json.dumps({name: bound.arguments[name] for name in names}, default=repr))  # type: ignore[no-any-return]


def _by_place(args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    return {str(place): value for place, value in enumerate(args)} | kwargs


def _difference(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    names = [*expected, *(name for name in found if name not in expected)]
    return [
        f"{name}: expected {_short(expected.get(name, _NOTHING))}, got {_short(found.get(name, _NOTHING))}"
        for name in names
        if expected.get(name, _NOTHING) != found.get(name, _NOTHING)
    ]


def _told(wish: _Wish, found: Sequence[EnqueuedJob], backend: str) -> str:
    """What there is instead."""
    if found:
        return "\n".join([f"Of the task there are {len(found)}:", *_lines(wish, found)])
    others = Counter(job.task_name for job in enqueued_jobs(backend=backend))
    if not others:
        return "Nothing was enqueued at all."
    listed = ", ".join(f"{name} ({number})" for name, number in others.most_common(MOST_SHOWN))
    return f"Nothing of the task was enqueued, but of: {listed}."


def _lines(wish: _Wish, jobs: Sequence[EnqueuedJob]) -> Iterator[str]:
    for job in jobs[:MOST_SHOWN]:
        call = (
            f"{job.task_name} {_call(_by_place(job.args, job.kwargs))}"
            if wish.task is None
            else _call(_bound(wish.task, job.args, job.kwargs))
        )
        due = "" if job.run_at is None else f" due {_said(job.delay or timedelta())}"
        yield f"  {call} queue={job.queue_name} {job.state}{due}{_but(wish.faults(job))}"
    if len(jobs) > MOST_SHOWN:
        yield f"  … and {len(jobs) - MOST_SHOWN} more"


def _but(faults: Iterable[str]) -> str:
    said = "; ".join(faults)
    return f"\n      - {said}" if said else ""


def _call(arguments: Mapping[str, Any]) -> str:
    return f"({', '.join(f'{name}={_short(value)}' for name, value in arguments.items())})"


def _short(value: Any) -> str:
    text = "nothing" if value is _NOTHING else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _said(moment: Moment) -> str:
    if isinstance(moment, datetime):
        return f"at {moment.isoformat()}"
    seconds = moment.total_seconds()
    return "at once" if seconds == 0 else f"after {in_words(seconds)}"


def _job(row: db.Row) -> EnqueuedJob:
    id_, state, queue, task_name, args, priority, created_at, run_at, _seq = row
    found = json.loads(args)
    found = found if isinstance(found, dict) else {}
    return EnqueuedJob(
        id=id_,
        state=State(state),
        queue_name=queue,
        task_name=task_name,
        args=found.get("args", []),
        kwargs=found.get("kwargs", {}),
        priority=priority,
        enqueued_at=created_at,
        run_at=run_at,
    )
