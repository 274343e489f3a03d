"""`@cron`: a schedule declared beside its task. The leader of the workers writes it to the table of cron entries.

Invariant: what can't fire, or whose job could not be enqueued, is refused where it is declared.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from djqueue.api import arguments
from djqueue.api.task import DjqueueTask
from djqueue.compat import InvalidTask
from djqueue.conf import nearest
from djqueue.exceptions import ArgumentsError, ConfigurationError
from djqueue.policy.cron import CronExpression
from djqueue.policy.cronfires import (
    GRACE_SECONDS,
    MISSED_MAX,
    MOST_GRACE_SECONDS,
    MOST_JITTER_SECONDS,
    MOST_MISSED,
    Missed,
    Overlap,
)
from djqueue.policy.texts import text_problem
from djqueue.store.cronsync import Declared

T = TypeVar("T", bound="DjqueueTask[Any, Any]")

NAME_LIMIT = 200

_declared: dict[str, tuple[Declared, Any]] = {}


def cron(
    schedule: str,
    *,
    tz: str = "UTC",
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    missed: str = "run_once",
    grace_seconds: int = GRACE_SECONDS,
    overlap: str = "allow",
    jitter_seconds: int = 0,
    name: str | None = None,
    queue_name: str = "",
) -> Callable[[T], T]:
    """Declare when to enqueue a task: `@cron("30 2 * * *", tz="Europe/Paris")` above `@task`.

    `schedule`: five fields or an alias; `tz`: the zone whose clock it means. `args`, `kwargs`: the job's arguments.
    `missed`: what becomes of times that passed while no worker ran: `"skip"`, `"run_once"`, `"run_all"` or, at most so
    many, `"run_all(24)"`. `grace_seconds`: how late a fire may be under `"skip"`. `overlap`: what happens while the
    last job is unfinished: `"allow"`, `"skip"`, `"queue_one"`. `jitter_seconds`: each job starts up to so much later.
    `name`: unique, and the key of what has fired; default: the task's path. `queue_name`: default: the task's.

    Raises `ConfigurationError` or `ArgumentsError` with what was expected.
    """

    if not isinstance(schedule, str):
        raise ConfigurationError(
            f"@cron: expected a schedule as text, got {getattr(schedule, '__qualname__', schedule)!r}; write "
            '@cron("30 2 * * *") with parentheses, above @task'
        )

    def declare(task: T) -> T:
        if not isinstance(task, DjqueueTask):
            raise ConfigurationError(
                f"@cron({schedule!r}): expected a task of djqueue, got {getattr(task, '__qualname__', task)!r}; put "
                "@cron above @task"
            )
        entry = checked(
            f"@cron({schedule!r}) of {task.module_path}",
            task,
            name=task.module_path if name is None else name,
            schedule=schedule,
            tz=tz,
            args=args,
            kwargs=kwargs or {},
            missed=missed,
            grace_seconds=grace_seconds,
            overlap=overlap,
            jitter_seconds=jitter_seconds,
            queue_name=queue_name,
        )
        _add(task, entry)
        return task

    return declare


def checked(
    where: str,
    task: Any,
    *,
    name: str,
    schedule: str,
    tz: str = "UTC",
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    missed: str = "run_once",
    grace_seconds: int = GRACE_SECONDS,
    overlap: str = "allow",
    jitter_seconds: int = 0,
    queue_name: str = "",
) -> Declared:
    """Return an entry that can fire and whose job can run; see `cron`. Errors begin with `where`."""
    problem = text_problem("name", name, NAME_LIMIT)
    if problem:
        raise ConfigurationError(f"{where}: {problem}")
    policy, most = missed_policy(missed, where)
    frozen = json.loads(_frozen(where, task, args, dict(kwargs or {})))
    return Declared(
        name=name,
        schedule=_schedule(where, schedule, name),
        timezone=_zone(where, tz),
        task_name=task.module_path,
        queue_name=_queue(where, task, queue_name),
        args=json.dumps(frozen["args"]),
        kwargs=json.dumps(frozen["kwargs"]),
        missed=policy,
        missed_max=most,
        grace_seconds=_within(where, "grace_seconds", grace_seconds, MOST_GRACE_SECONDS),
        overlap=overlap_policy(overlap, where),
        jitter_seconds=_within(where, "jitter_seconds", jitter_seconds, MOST_JITTER_SECONDS),
    )


def declared(backends: Sequence[str]) -> list[Declared]:
    """Return what the imported code declares for tasks of these backends, by name."""
    return [entry for _, (entry, task) in sorted(_declared.items()) if task.backend in backends]


def missed_policy(text: str, where: str) -> tuple[Missed, int]:
    """Read `skip`, `run_once`, `run_all` or `run_all(24)`; raise `ConfigurationError` otherwise."""
    match = re.fullmatch(r"run_all\((\d{1,4})\)", text) if isinstance(text, str) else None
    if match and 1 <= int(match[1]) <= MOST_MISSED:
        return Missed.RUN_ALL, int(match[1])
    if text in set(Missed):
        return Missed(text), MISSED_MAX
    raise ConfigurationError(
        f"{where}: missed: expected 'skip', 'run_once', 'run_all' or 'run_all(n)' with n from 1 to {MOST_MISSED:,}, "
        f"got {text!r}{nearest(str(text), [each.value for each in Missed])}"
    )


def overlap_policy(text: str, where: str) -> Overlap:
    """Read `allow`, `skip` or `queue_one`; raise `ConfigurationError` otherwise."""
    if text in set(Overlap):
        return Overlap(text)
    close = nearest(str(text), [each.value for each in Overlap])
    raise ConfigurationError(f"{where}: overlap: expected 'allow', 'skip' or 'queue_one', got {text!r}{close}")


def _add(task: Any, entry: Declared) -> None:
    before = _declared.get(entry.name)
    # A module that is imported anew declares the same again, with a new function.
    if before is not None and (before[1].module_path != task.module_path or before[1].func is task.func):
        raise ConfigurationError(
            f"@cron of {task.module_path}: the name {entry.name!r} is declared already, for {before[1].module_path}; "
            'give each a name of its own, for example @cron(…, name="nightly")'
        )
    _declared[entry.name] = entry, task


def _schedule(where: str, schedule: str, name: str) -> str:
    try:
        CronExpression.parse(schedule, name)
    except ValueError as fault:
        raise ConfigurationError(f"{where}: {fault}") from None
    return " ".join(schedule.split())


def _queue(where: str, task: Any, queue_name: str) -> str:
    try:
        task.using(queue_name=queue_name or None)
    except InvalidTask as fault:
        raise ConfigurationError(f"{where}: queue_name: {fault}") from None
    return queue_name


def _zone(where: str, tz: str) -> str:
    try:
        ZoneInfo(tz)
    except (KeyError, ValueError, OSError, TypeError):
        raise ConfigurationError(
            f'{where}: tz: expected the name of a zone, such as "Europe/Paris" or "UTC", got {tz!r}'
        ) from None
    return tz


def _frozen(where: str, task: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    if isinstance(args, str):
        raise ArgumentsError(f"{where}: args: expected a list of arguments, got text; write args=[{args!r}]")
    try:
        return arguments.frozen(task, list(args), kwargs)
    except ArgumentsError as fault:
        raise ArgumentsError(f"{where}: {fault}") from None


def _within(where: str, what: str, value: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ConfigurationError(f"{where}: {what}: expected a whole number from 0 to {most:,}, got {value!r}")
    return value
