"""The task: a module-level function with its options, and the ways to enqueue it.

The first station of a job's road: `send.using(…).enqueue(…)` hands the task and its arguments to its backend.
Invariant: a task is immutable; `.using()` makes another one of the same function.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Concatenate, Generic, Literal, Never, ParamSpec, Self, TypeVar, Unpack, overload

from asgiref.sync import sync_to_async
from django.utils import timezone
from django.utils.module_loading import import_string

from djqueue.api import arguments, kept, options, registry
from djqueue.api.context import JobContext
from djqueue.api.flow import Signature
from djqueue.api.options import Conflict, DedupeKey, OrderingKey, TaskOptions, Timeout, WhenDead
from djqueue.api.results import JobResult
from djqueue.compat import DEFAULT_TASK_BACKEND_ALIAS, DEFAULT_TASK_QUEUE_NAME, AnyTask
from djqueue.policy.payloads import Upgrade
from djqueue.policy.ratelimit import LimitKey, RateLimit
from djqueue.policy.retry import AnyRetry, CallableRetry, OwnPolicy, RetryPolicy, Wait, timetable
from djqueue.policy.verdict import ExceptionClasses

_FROM_MODULE = ("func", "upgrades")

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DjqueueTask(AnyTask, Generic[P, T]):
    """A task with djqueue's options; `api.options.TaskOptions` says what each means."""

    # Django 6.0 gives these no defaults.
    priority: int = 0
    backend: str = DEFAULT_TASK_BACKEND_ALIAS
    queue_name: str = DEFAULT_TASK_QUEUE_NAME
    run_after: datetime | None = None

    max_attempts: int | None = None
    timeout_seconds: float | Timeout | None = Timeout.OF_BACKEND
    retry: AnyRetry | OwnPolicy | None = None
    retry_on: ExceptionClasses = ()
    dead_on: ExceptionClasses = ()
    ignore_on: ExceptionClasses = ()
    atomic: bool = False
    isolation: Literal["process", "read committed"] | None = None
    dedupe_key: DedupeKey = None
    on_conflict: Conflict = "ignore"
    unique_for: float | timedelta | None = None
    debounce: float | timedelta | None = None
    debounce_max: float | timedelta | None = None
    ordering_key: OrderingKey = None
    on_dead: WhenDead = "continue"
    expires_after: float | timedelta | None = None
    circuit: str | None = None
    tenant_id: LimitKey = None
    concurrency_limit: int | None = None
    concurrency_key: LimitKey = None
    rate_limit: str | RateLimit | None = None
    version: int = 1
    upgrades: Mapping[int, Upgrade] = field(default_factory=dict, hash=False, repr=False)
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    subject: kept.Subject = None
    large_args: str | None = None
    keep_result: bool = True
    run_in: timedelta | None = field(default=None, repr=False)
    """A relative `run_after`, counted by the database's clock."""
    outside_transaction: bool = field(default=False, repr=False)
    follows: str | None = field(default=None, repr=False)
    """The id of the step of its chain before it."""

    def __new__(cls, **given: Any) -> Self:
        """Refuse options that there are not, with the nearest that there is."""
        for name in given:
            if name not in cls.__dataclass_fields__:
                options.refuse(name, _where(given.get("func")), options.KNOWN)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for name in ("aliases", "tags"):
            values = getattr(self, name)
            if not isinstance(values, tuple | str):
                object.__setattr__(self, name, tuple(values))
        for name in options.EXCEPTION_OPTIONS:
            object.__setattr__(self, name, _classes(getattr(self, name)))
        if callable(self.retry):
            object.__setattr__(self, "retry", CallableRetry(function=self.retry))
        object.__setattr__(self, "subject", kept.declared(self.module_path, self.subject))
        AnyTask.__post_init__(self)
        options.check(self)
        registry.add(self)

    def __reduce__(self) -> Any:
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _FROM_MODULE}
        return _restore, (type(self), self.module_path, values)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | timedelta | None = None,
        backend: str | None = None,
        dedupe_key: DedupeKey = None,
        tenant_id: LimitKey = None,
        concurrency_key: LimitKey = None,
        on_conflict: Conflict | None = None,
        unique_for: float | timedelta | None = None,
        debounce: float | timedelta | None = None,
        debounce_max: float | timedelta | None = None,
        ordering_key: OrderingKey = None,
        on_dead: WhenDead | None = None,
        max_attempts: int | None = None,
        timeout_seconds: float | Timeout | None = Timeout.OF_BACKEND,
        expires_after: float | timedelta | None = None,
        tags: Iterable[str] | None = None,
        subject: Any = None,
        outside_transaction: bool | None = None,
        **unknown: Never,
    ) -> Self:
        """Return the task with other options for some calls. What is left out stays as it is.

        `run_after` is a moment, or a timedelta that the database's clock counts from the enqueue.
        `outside_transaction=True` allows to enqueue while a transaction is open on another database only.
        """
        for name in unknown:
            options.refuse(name, f"{self.module_path}.using", options.PER_CALL)
        given = {
            "priority": priority,
            "queue_name": queue_name,
            "backend": backend,
            "dedupe_key": dedupe_key,
            "tenant_id": tenant_id,
            "concurrency_key": concurrency_key,
            "on_conflict": on_conflict,
            "unique_for": unique_for,
            "debounce": debounce,
            "debounce_max": debounce_max,
            "ordering_key": ordering_key,
            "on_dead": on_dead,
            "max_attempts": max_attempts,
            "expires_after": expires_after,
            "tags": tags,
            "subject": subject,
            "outside_transaction": outside_transaction,
        }
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if timeout_seconds is not Timeout.OF_BACKEND:
            changes["timeout_seconds"] = timeout_seconds
        if isinstance(run_after, timedelta):
            changes |= {"run_in": run_after, "run_after": None}
        elif run_after is not None:
            changes |= {"run_in": None, "run_after": run_after}
        return replace(self, **changes)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobResult:
        """Write a job in the open transaction of the queue's database, in one round trip.

        Raises `ArgumentsError` where the arguments do not fit or are not JSON, `TransactionError` where a transaction
        is open on another database only.
        """
        backend: Any = self.get_backend()
        if hasattr(backend, "enqueue_many"):
            return backend.enqueue(self, args, kwargs)  # type: ignore[no-any-return]
        return self._for_any_backend(args, kwargs)  # type: ignore[no-any-return]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobResult:
        """Write a job; see `enqueue`."""
        backend: Any = self.get_backend()
        if hasattr(backend, "enqueue_many"):
            return await backend.aenqueue(self, args, kwargs)  # type: ignore[no-any-return]
        return await sync_to_async(self._for_any_backend, thread_sensitive=True)(args, kwargs)  # type: ignore[no-any-return]

    def enqueue_many(self, rows: Iterable[tuple[Any, ...] | dict[str, Any]]) -> list[JobResult]:
        """Write many jobs, all or none, in one statement per 1,000; return their results in the order of the rows.

        A row is a tuple of positional arguments or a dict of keyword arguments.
        """
        backend: Any = self.get_backend()
        if hasattr(backend, "enqueue_many"):
            return backend.enqueue_many(self, rows)  # type: ignore[no-any-return]
        return [self._for_any_backend(*arguments.split(self, row)) for row in rows]

    async def aenqueue_many(self, rows: Iterable[tuple[Any, ...] | dict[str, Any]]) -> list[JobResult]:
        """Write many jobs; see `enqueue_many`."""
        return await sync_to_async(self.enqueue_many, thread_sensitive=True)(rows)

    def s(self, *args: P.args, **kwargs: P.kwargs) -> Signature:
        """Return the task with the arguments of one job, for `chain`; raise `ArgumentsError` as `enqueue` does."""
        return Signature(task=self, args=args, kwargs=kwargs)

    def get_result(self, result_id: str) -> JobResult:
        """Return one of this task's jobs; raise `TaskResultDoesNotExist`, or `TaskResultMismatch` for other tasks'."""
        return AnyTask.get_result(self, result_id)  # type: ignore[return-value]

    async def aget_result(self, result_id: str) -> JobResult:
        """Return one of this task's jobs; see `get_result`."""
        return await AnyTask.aget_result(self, result_id)  # type: ignore[return-value]

    def retry_timetable(self) -> list[Wait]:
        """Return the waits between the attempts of a job that fails each time, one row per failed attempt but the last:
        its number, and the shortest, mean and longest wait after it in seconds."""
        backend: Any = self.get_backend()
        settings = backend.djqueue_options
        default = RetryPolicy(base_seconds=settings.retry_base_seconds, cap_seconds=settings.retry_cap_seconds)
        policy: Any = self.retry or default
        return timetable(policy, self.max_attempts or settings.max_attempts)

    def _for_any_backend(self, args: arguments.Args, kwargs: arguments.Kwargs) -> Any:
        """Enqueue on a backend that is not djqueue's (in tests, say), with the same demands on the arguments."""
        arguments.frozen(self, args, kwargs)
        arguments.check_terms(self)
        arguments.dedupe_key(self, args, kwargs)
        arguments.ordering_key(self, args, kwargs)
        task = self if self.run_in is None else replace(self, run_in=None, run_after=timezone.now() + self.run_in)
        return self.get_backend().enqueue(task, args, kwargs)  # type: ignore[arg-type]


@overload
def task(function: Callable[P, T], /) -> DjqueueTask[P, T]: ...
@overload
def task(
    *, takes_context: Literal[False] = False, **given: Unpack[TaskOptions]
) -> Callable[[Callable[P, T]], DjqueueTask[P, T]]: ...
@overload
def task(
    *, takes_context: Literal[True], **given: Unpack[TaskOptions]
) -> Callable[[Callable[Concatenate[JobContext, P], T]], DjqueueTask[P, T]]: ...


def task(function: Any = None, /, *, takes_context: bool = False, **given: Any) -> Any:
    """Make a task of a module-level function: `@task`, or `@task(queue_name="emails", max_attempts=5, …)`.

    `api.options.TaskOptions` says what each option means.
    """

    def make(func: Callable[..., Any]) -> DjqueueTask[Any, Any]:
        for name in given:
            if name not in TaskOptions.__annotations__:
                options.refuse(name, _where(func), options.KNOWN)
        return DjqueueTask(func=func, takes_context=takes_context, **given)

    return make if function is None else make(function)


def _classes(given: Any) -> tuple[Any, ...]:
    """One class or several, as a tuple."""
    return (given,) if isinstance(given, type) or not isinstance(given, Iterable) else tuple(given)


def _where(func: Any) -> str:
    return f"@task of {getattr(func, '__module__', '?')}.{getattr(func, '__qualname__', '?')}"


def _restore(cls: type[DjqueueTask[Any, Any]], path: str, values: dict[str, Any]) -> DjqueueTask[Any, Any]:
    """Unpickle a task: its functions are those that the module's task of that name has."""
    found = import_string(path)
    if not isinstance(found, DjqueueTask):
        raise ValueError(f"{path}: expected a task there, got {type(found).__name__}")
    return cls(**{name: getattr(found, name) for name in _FROM_MODULE}, **values)
