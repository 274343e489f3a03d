"""The options of a task: what each means, which may be given per call, and what is wrong with a given value.

Declared with `@task(...)`, changed for some calls with `.using(...)`. Invariant: an option is obeyed or refused with a
telling error, never ignored.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Literal, NoReturn, TypedDict, get_args

from djqueue.circuitconf import NAME_LIMIT
from djqueue.compat import InvalidTask
from djqueue.conf import nearest
from djqueue.exceptions import seconds_of
from djqueue.policy.payloads import LATEST, Upgrade
from djqueue.policy.ratelimit import LimitKey, RateLimit
from djqueue.policy.retry import AnyRetry, CallableRetry, FixedRetry, OwnPolicy, RetryPolicy
from djqueue.policy.texts import text_problem
from djqueue.rates import Rate

QUEUE_NAME_LIMIT = 100
TASK_NAME_LIMIT = 300
DEDUPE_KEY_LIMIT = 300
ORDERING_KEY_LIMIT = 300
TENANT_LIMIT = 200
LIMIT_KEY_LIMIT = 200
TAG_LIMIT = 100
SUBJECT_LIMIT = 300
TAGS_LIMIT = 20
MOST_ATTEMPTS = 1_000
MOST_RUNNING = 1_000_000
LONGEST_TIMEOUT_SECONDS = 604_800


class Timeout(Enum):
    """What stands where a task names no time limit; `None` has a meaning of its own there."""

    OF_BACKEND = "the backend's timeout_seconds"


ExceptionClass = type[BaseException]
DedupeKey = str | Callable[..., str | None] | None
OrderingKey = str | Callable[..., str | None] | None
WhenDead = Literal["continue", "block"]
Conflict = Literal["ignore", "replace", "reschedule", "raise"]


class TaskOptions(TypedDict, total=False):
    """The keywords of `@task(...)`, besides `takes_context`."""

    queue_name: str
    """The queue; must be one of the backend's QUEUES. Default: `default`. At most 100 characters."""

    priority: int
    """Higher comes first within a queue: -100 to 100. Default: 0."""

    backend: str
    """Alias in the TASKS setting. Default: `default`."""

    max_attempts: int | None
    """Starts allowed; 1 means never tried again. 1 to 1,000. None: the backend's `max_attempts`."""

    timeout_seconds: float | None
    """Hard time limit of one attempt: above 0, up to 604,800 (a week). Default: the backend's `timeout_seconds`. None:
    no limit, for tasks that take the context only, since `context.heartbeat()` is then the proof of life."""

    retry: AnyRetry | OwnPolicy | None
    """How long a failed attempt waits for the next one: `RetryPolicy(…)`, `FixedRetry(seconds=…)`, or a function from
    the failed attempt's number to seconds. None: backoff as the backend's options say."""

    retry_on: ExceptionClass | Iterable[ExceptionClass]
    """Exceptions after which the job is tried again; where some are named, all others are permanent. Subclasses count,
    and of several classes that fit the most specific decides, here and in the next two. Default: all."""

    dead_on: ExceptionClass | Iterable[ExceptionClass]
    """Exceptions after which the job is dead at once. Default: none."""

    ignore_on: ExceptionClass | Iterable[ExceptionClass]
    """Exceptions after which the job ends quietly, as cancelled. Default: none."""

    atomic: bool
    """Run the handler in a transaction on the job's database whose last statement is the job's end: its effects there
    happen exactly once. Default: False."""

    isolation: Literal["process", "read committed"] | None
    """`"process"`: each job runs in a process of its own, for code that may crash or leak; see the page on failures.
    `"read committed"`: run the transaction of an `atomic` task at that level although the database alias has a
    stricter one, which a check demands to be said. None: neither. Who wants both gives the queue the isolation."""

    dedupe_key: DedupeKey
    """While an unfinished job of the queue holds the key, enqueueing returns that job and writes none. Text of at most
    300 characters, or a function of the handler's arguments that returns such text, or None for no key."""

    on_conflict: Conflict
    """What a call does where an unfinished job of the task holds the key: `"ignore"`, nothing (default); `"replace"`, a
    waiting job gets the call's arguments, priority and time; `"reschedule"`, its time only; `"raise"`, the call fails
    with `DuplicateJob`. A job that runs is never changed, and one that waits for a retry is not brought forward."""

    unique_for: float | timedelta | None
    """The key stays taken so long (seconds, or a timedelta) after an enqueue, even if its job has ended. Above 0, up to
    ten years. None: as long as the job is unfinished."""

    debounce: float | timedelta | None
    """Wait so long (seconds, or a timedelta) before the job is due, and as long again with each further call with the
    key: many calls in a row make one job, after the last one. Above 0, up to ten years. None: no wait."""

    debounce_max: float | timedelta | None
    """With `debounce`: due so long after the first call at the latest. None: however long the calls go on."""

    ordering_key: OrderingKey
    """Jobs of a queue with the same key run one at a time, in the order of their enqueues; a job that is delayed, or
    waits for a retry, holds its key meanwhile. Text of at most 300 characters, or a function of the handler's arguments
    that returns such text, or None for no key."""

    on_dead: WhenDead
    """What the death of a job means for those behind its ordering key: `"continue"`, the next one goes on (default);
    `"block"`, they wait until the dead letter is requeued (it then comes first) or discarded."""

    expires_after: float | timedelta | None
    """No attempt starts later than so long (seconds, or a timedelta) after the job is due: after `run_after`, else
    after the enqueue, by the database's clock. The job then ends as cancelled, "expired". Above 0, up to ten years.
    None: whenever. A requeued dead letter has no such limit any more."""

    circuit: str | None
    """The name of a dependency that the handler calls: where its calls fail, the circuit opens, and no job that names
    it is claimed or charged until it is back. At most 100 characters. Default: none."""

    tenant_id: LimitKey
    """Whose job it is, among those who share the queue: tenants take turns, whatever each has waiting, and may have
    caps and weights. Text of at most 200 characters, or a function of the handler's arguments that returns such text,
    or None for nobody's. Priority counts inside a tenant."""

    concurrency_limit: int | None
    """Jobs of the task, or with `concurrency_key` of the key, that run at once at the most in the whole fleet: 1 to
    1,000,000. Others wait without holding a slot. Default: no limit."""

    concurrency_key: LimitKey
    """What shares `concurrency_limit`, over all tasks and queues: text of at most 200 characters, or a function of the
    handler's arguments that returns such text, or None for no limit. Default: the task itself."""

    rate_limit: str | RateLimit | None
    """Starts of the task in the whole fleet, on average: `"100/m"`, `"5/s"`, `"3/10s"`; `RateLimit(rate="100/m",
    burst=20, key=…)` says how many at once and what shares the limit. Default: no limit."""

    version: int
    """What the arguments mean: raise it when they change, and say in `upgrades` how older ones become new. It is
    written with each job; a worker whose code has a lower one leaves the job, uncharged, to workers that know it. 1 to
    9,999. Default: 1."""

    upgrades: Mapping[int, Upgrade]
    """By version, the function that makes its arguments those of the next version: `{1: f}`, where `f(args, kwargs)`
    returns `(args, kwargs)`. Called before each attempt of an older job, so it should only compute. Default: none."""

    aliases: Iterable[str]
    """Former names (dotted paths) of the task, under which jobs may still wait. At most 300 characters each."""

    tags: Iterable[str]
    """Words kept with the job, for people: at most 20 of at most 100 characters."""

    subject: Any
    """The object that a job is about, so that its page in the admin can show its jobs: a model instance (with
    `.using(subject=order)`), text of at most 300 characters, or a function of the handler's arguments that returns one
    of them, or None."""

    large_args: str | None
    """Alias in Django's STORAGES, to which large arguments of the task go; `""`: to none. Default: as the backend's
    option of the same name says."""

    keep_result: bool
    """Keep what the handler returns. Default: True."""


EXCEPTION_OPTIONS = ("retry_on", "dead_on", "ignore_on")

KNOWN = sorted([*TaskOptions.__annotations__, "takes_context"])

PER_CALL = [
    "backend",
    "concurrency_key",
    "debounce",
    "debounce_max",
    "dedupe_key",
    "expires_after",
    "max_attempts",
    "on_conflict",
    "on_dead",
    "ordering_key",
    "outside_transaction",
    "priority",
    "queue_name",
    "run_after",
    "subject",
    "tags",
    "tenant_id",
    "timeout_seconds",
    "unique_for",
]


def refuse(name: str, where: str, known: list[str]) -> NoReturn:
    """Raise the `TypeError` for an option that `where` does not take."""
    if name == "run_after":
        raise TypeError(f"{where}: run_after can't be fixed when a task is declared; use .using(run_after=…)")
    if name in KNOWN:
        raise TypeError(f"{where}: {name} belongs to the task, not to one call; declare it with @task({name}=…)")
    if name in PER_CALL:
        raise TypeError(f"{where}: {name} belongs to one call, not to the task; use .using({name}=…)")
    raise TypeError(f"{where}: unknown option {name!r}{nearest(name, known)}; known are: {', '.join(known)}")


def check_values_of_framework(task: Any) -> None:
    """Raise `InvalidTask` for values that the framework's own checks would stumble over."""
    priority, moment = task.priority, task.run_after
    if not _is_number(priority, int | float):
        raise InvalidTask(
            f"{task.module_path}: priority: expected a whole number from -100 to 100 (higher comes first), got "
            f"{priority!r}"
        )
    if moment is not None and not isinstance(moment, datetime):
        raise InvalidTask(
            f"{task.module_path}: run_after: expected a datetime or a timedelta, got {moment!r}; write "
            "timedelta(seconds=…) for a delay"
        )


def check(task: Any) -> None:
    """Raise `InvalidTask` for the first value of a task's options that is out of bounds."""
    name = task.module_path
    for problem in _problems(task):
        raise InvalidTask(f"{name}: {problem}")


def _problems(task: Any) -> Iterable[str]:
    yield from _numbers(task)
    yield from _choices(task)
    yield from filter(None, [text_problem("the task's name", task.module_path, TASK_NAME_LIMIT)])
    yield from filter(None, [text_problem("queue_name", task.queue_name, QUEUE_NAME_LIMIT)])
    yield from _key("dedupe_key", task.dedupe_key, DEDUPE_KEY_LIMIT)
    yield from _key("ordering_key", task.ordering_key, ORDERING_KEY_LIMIT)
    yield from _limits(task)
    if task.circuit is not None:
        yield from filter(None, [text_problem("circuit", task.circuit, NAME_LIMIT)])
    yield from _versions(task)
    if task.large_args is not None and not isinstance(task.large_args, str):
        yield f"large_args: expected an alias of STORAGES, '' or None, got {task.large_args!r}"
    yield from _texts("aliases", task.aliases, TASK_NAME_LIMIT)
    yield from _texts("tags", task.tags, TAG_LIMIT)
    if len(task.tags) > TAGS_LIMIT:
        yield f"tags: expected at most {TAGS_LIMIT}, got {len(task.tags)}"


def _versions(task: Any) -> Iterable[str]:
    version, upgrades = task.version, task.upgrades
    if not (_is_number(version, int) and 1 <= version <= LATEST):
        yield f"version: expected a whole number from 1 to {LATEST:,}, got {version!r}"
    elif not isinstance(upgrades, Mapping):
        yield f"upgrades: expected a dict from old versions to functions, got {type(upgrades).__name__}"
    else:
        for number, upgrade in upgrades.items():
            if not (_is_number(number, int) and 1 <= number < version):
                yield f"upgrades: expected versions from 1 up to below the task's own, {version}, got {number!r}"
            elif not callable(upgrade):
                yield f"upgrades[{number}]: expected a function of (args, kwargs), got {type(upgrade).__name__}"


def _key(what: str, key: Any, limit: int) -> Iterable[str]:
    if isinstance(key, str):
        yield from filter(None, [text_problem(what, key, limit)])
    elif not (key is None or callable(key)):
        yield f"{what}: expected text, a function or None, got {type(key).__name__}"


def _limits(task: Any) -> Iterable[str]:
    yield from _key("tenant_id", task.tenant_id, TENANT_LIMIT)
    yield from _key("concurrency_key", task.concurrency_key, LIMIT_KEY_LIMIT)
    most, rate = task.concurrency_limit, task.rate_limit
    if most is not None and not (_is_number(most, int) and 1 <= most <= MOST_RUNNING):
        yield f"concurrency_limit: expected a whole number from 1 to {MOST_RUNNING:,}, or None, got {most!r}"
    if most is None and task.concurrency_key is not None:
        yield "concurrency_key: expected a concurrency_limit beside it, got none; say how many jobs may run at once"
    if isinstance(rate, RateLimit):
        yield from _key("rate_limit: key", rate.key, LIMIT_KEY_LIMIT)
    if rate is not None:
        try:
            rate.parsed if isinstance(rate, RateLimit) else Rate.parse(rate)
        except ValueError as fault:
            yield str(fault)


def _numbers(task: Any) -> Iterable[str]:
    attempts, timeout = task.max_attempts, task.timeout_seconds
    if attempts is not None and not (_is_number(attempts, int) and 1 <= attempts <= MOST_ATTEMPTS):
        yield f"max_attempts: expected a whole number from 1 to 1,000 (1 = never tried again), got {attempts!r}"
    if timeout is None:
        if not task.takes_context:
            yield (
                "timeout_seconds: None (no limit) is for tasks with takes_context=True, whose context.heartbeat() "
                "proves that they are alive; name a limit or take the context"
            )
    elif timeout is not Timeout.OF_BACKEND and not (
        _is_number(timeout, int | float) and math.isfinite(timeout) and 0 < timeout <= LONGEST_TIMEOUT_SECONDS
    ):
        yield f"timeout_seconds: expected seconds above 0 and up to 604,800, or None, got {timeout!r}"
    for name in ("expires_after", "unique_for", "debounce", "debounce_max"):
        if getattr(task, name) is not None:
            yield from _duration(name, getattr(task, name))
    if task.run_in is not None:
        try:
            seconds_of(task.run_in, "run_after")
        except ValueError as fault:
            yield str(fault)


def _duration(what: str, value: Any) -> Iterable[str]:
    try:
        if not seconds_of(value, what) > 0:
            yield f"{what}: expected more than 0 seconds, got {value!r}"
    except (TypeError, ValueError) as fault:
        yield str(fault)


def _choices(task: Any) -> Iterable[str]:
    if not isinstance(task.retry, RetryPolicy | FixedRetry | CallableRetry | None):
        yield f"retry: expected a RetryPolicy, a FixedRetry, a function or None, got {type(task.retry).__name__}"
    for name in EXCEPTION_OPTIONS:
        for each in getattr(task, name):
            if not (isinstance(each, type) and issubclass(each, BaseException)):
                yield f"{name}: expected exception classes, got {each!r}"
    if task.isolation not in (None, "process", "read committed"):
        yield f"isolation: expected 'process', 'read committed' or None, got {task.isolation!r}"
    if task.on_conflict not in get_args(Conflict):
        yield f"on_conflict: expected 'ignore', 'replace', 'reschedule' or 'raise', got {task.on_conflict!r}"
    yield from _debounce(task)
    if task.on_dead not in get_args(WhenDead):
        yield f"on_dead: expected 'continue' or 'block', got {task.on_dead!r}"
    for name in ("atomic", "keep_result", "takes_context", "outside_transaction"):
        if not isinstance(getattr(task, name), bool):
            yield f"{name}: expected True or False, got {getattr(task, name)!r}"


def _debounce(task: Any) -> Iterable[str]:
    if task.debounce is None:
        if task.debounce_max is not None:
            yield "debounce_max: expected debounce beside it, got none; say debounce=… as well"
        return
    if task.run_after is not None or task.run_in is not None:
        yield "debounce: expected no run_after beside it, got both; debounce says when the job is due"
    if task.on_conflict == "raise":
        yield "debounce: expected an on_conflict other than 'raise', which would refuse what it collects"


def _texts(what: str, values: object, limit: int) -> Iterable[str]:
    if not isinstance(values, tuple):
        yield f"{what}: expected a list of texts, got {type(values).__name__}"
        return
    yield from filter(None, (text_problem(f"{what}[{i}]", value, limit) for i, value in enumerate(values)))


def _is_number(value: object, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
