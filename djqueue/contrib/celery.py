"""Tasks as Celery has them, on djqueue: `from djqueue.contrib.celery import shared_task` in place of Celery's own.

    @shared_task(bind=True, max_retries=5)     add.delay(2, 2)     add.apply_async((2, 2), countdown=60)

A bridge for moving over, not Celery: what means the same here is translated, what has no counterpart is refused with
the way to do it here. Invariant: an option of Celery is obeyed or refused, never ignored.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from djqueue.api.context import JobContext
from djqueue.api.options import MOST_ATTEMPTS
from djqueue.api.results import JobResult
from djqueue.api.task import DjqueueTask
from djqueue.exceptions import Retry
from djqueue.nearest import nearest
from djqueue.policy.retry import FixedRetry, RetryPolicy

MAX_RETRIES = 3
RETRY_DELAY_SECONDS = 180
BACKOFF_MAX_SECONDS = 600

OF_TASK = {
    "bind", "name", "queue", "priority", "max_retries", "default_retry_delay", "autoretry_for", "dont_autoretry_for",
    "retry_backoff", "retry_backoff_max", "retry_jitter", "time_limit", "soft_time_limit", "rate_limit",
    "ignore_result", "expires", "acks_late", "reject_on_worker_lost", "serializer", "djqueue",
}  # fmt: skip
OF_CALL = {"args", "kwargs", "countdown", "eta", "expires", "queue", "priority", "time_limit", "ignore_result"}

WITHOUT = {
    "base": "write what the base class does into the handler, or into a decorator below @shared_task",
    "link": "use djqueue.chain, or enqueue the next job in the handler: with atomic=True both happen, or neither",
    "link_error": "listen to the signal djqueue.signals.job_died",
    "chord": "enqueue the next job at the end of the handler",
    "group_id": "use tags",
    "task_id": "ids are made by djqueue; use a dedupe_key for a job that must exist once",
    "routing_key": "use queue",
    "exchange": "use queue",
    "headers": "pass it as an argument",
    "compression": "use the option large_args",
    "throws": "use djqueue={'ignore_on': …}",
    "track_started": "every job shows when it started",
    "store_errors_even_if_ignored": "errors are kept with every job",
    "trail": "children are kept with every job",
    "shadow": "use tags",
    "retry": "an enqueue is an insert in your transaction: it is done, or it raises",
    "retry_policy": "an enqueue is an insert in your transaction: it is done, or it raises",
}


class _Nothing(Exception):
    """What no handler raises: a task without autoretry_for is not tried again by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CeleryTask(DjqueueTask[Any, Any]):
    """A task of djqueue that can also be called as one of Celery's."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function here and now, in this process, without a job."""
        if self.takes_context:
            return self.func(None, *args, **kwargs)
        return self.func(*args, **kwargs)

    def delay(self, *args: Any, **kwargs: Any) -> JobResult:
        """Enqueue a job; the same as `enqueue`."""
        return self.enqueue(*args, **kwargs)

    def apply_async(
        self, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> JobResult:
        """Enqueue a job with Celery's options of a call: countdown, eta, expires, queue, priority, time_limit.

        Raises `TypeError` for any other, with the way to do it here.
        """
        for name in options:
            if name not in OF_CALL:
                _refuse(f"{self.module_path}.apply_async", name, OF_CALL)
        asked = self.using(**_per_call(self.module_path, options))
        return asked.enqueue(*(args or ()), **(kwargs or {}))


class Request:
    """`self.request` of a bound task."""

    def __init__(self, context: JobContext) -> None:
        self.id = context.job_id
        self.retries = context.attempt - 1
        """How often it has been tried before."""
        self.args = context.task_result.args
        self.kwargs = context.task_result.kwargs


class Bound:
    """`self` of a bound task."""

    def __init__(self, context: JobContext | None, name: str, max_retries: int | None, delay: float) -> None:
        self.name = name
        self.max_retries = max_retries
        self.default_retry_delay = delay
        self.context = context
        """The context that djqueue's own tasks get; None where the task was called without a job."""

    @property
    def request(self) -> Request:
        """What is known of this attempt."""
        if self.context is None:
            raise RuntimeError(f"{self.name}: self.request: expected to run as a job, got a plain call")
        return Request(self.context)

    def retry(
        self,
        args: None = None,
        kwargs: None = None,
        exc: BaseException | None = None,
        throw: bool = True,
        eta: datetime | None = None,
        countdown: float | None = None,
        **options: Any,
    ) -> Retry:
        """Fail this attempt and try again after `countdown` seconds, at `eta`, or after `default_retry_delay`. Once
        `max_retries` are used up the job is dead. Raises what it would return, unless `throw` is False."""
        if args is not None or kwargs is not None:
            options["args"] = args
        for name in options:
            raise TypeError(
                f"{self.name}: self.retry({name}=…) has no counterpart: a job keeps its arguments and limits; enqueue "
                "another job instead"
            )
        after = self.default_retry_delay if countdown is None else countdown
        if eta is not None:
            after = max(0.0, (eta - datetime.now(UTC)).total_seconds())
        wish = Retry(after=after, reason="" if exc is None else f"{type(exc).__name__}: {exc}")
        wish.__cause__ = exc
        if throw:
            raise wish
        return wish

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"{self.name}: self.{name} has no counterpart here; self.context is djqueue's own context of the job"
        )


def shared_task(*given: Any, **options: Any) -> Any:
    """Make a task of a module-level function, with Celery's options; `djqueue={…}` gives options of djqueue's own.

    Raises `TypeError` for options that have no counterpart, with the way to do it here.
    """

    def make(function: Callable[..., Any]) -> CeleryTask:
        where = f"@shared_task of {function.__module__}.{function.__qualname__}"
        for name in options:
            if name not in OF_TASK:
                _refuse(where, name, OF_TASK)
        wanted = _translated(where, options)
        if options.get("bind"):
            return CeleryTask(func=_bound(function, options), takes_context=True, **wanted)
        return CeleryTask(func=function, **wanted)

    if len(given) == 1 and callable(given[0]) and not options:
        return make(given[0])
    if given:
        raise TypeError(f"shared_task: expected options by name, got {given!r}")
    return make


def _translated(where: str, options: Mapping[str, Any]) -> dict[str, Any]:
    _check(where, options)
    retries = options.get("max_retries", MAX_RETRIES)
    found = {
        "aliases": (options["name"],) if options.get("name") else (),
        "queue_name": options.get("queue"),
        "priority": options.get("priority"),
        "max_attempts": MOST_ATTEMPTS if retries is None else min(retries + 1, MOST_ATTEMPTS),
        "retry": _policy(options),
        "retry_on": tuple(options.get("autoretry_for") or ()) or (_Nothing,),
        "dead_on": tuple(options.get("dont_autoretry_for") or ()),
        "timeout_seconds": options.get("time_limit") or options.get("soft_time_limit"),
        "rate_limit": options.get("rate_limit"),
        "keep_result": not options.get("ignore_result", False),
        "expires_after": options.get("expires"),
    }
    return {name: value for name, value in found.items() if value is not None} | dict(options.get("djqueue") or {})


def _check(where: str, options: Mapping[str, Any]) -> None:
    if options.get("acks_late") is False or options.get("reject_on_worker_lost") is False:
        raise TypeError(
            f"{where}: a job is always acked after its end, and tried again when its worker is lost; say max_retries=0 "
            "for one that must not run twice"
        )
    if options.get("serializer", "json") != "json":
        raise TypeError(f"{where}: serializer: expected 'json', got {options['serializer']!r}; arguments are JSON here")
    if options.get("time_limit") and options.get("soft_time_limit"):
        raise TypeError(
            f"{where}: expected time_limit or soft_time_limit, got both; a limit raises JobTimeout inside the handler, "
            "and the process is replaced if that does not help"
        )
    if isinstance(options.get("expires"), datetime):
        raise TypeError(f"{where}: expires: expected seconds or a timedelta, got a moment; give it to apply_async")


def _policy(options: Mapping[str, Any]) -> FixedRetry | RetryPolicy:
    """Celery's delay is factor · 2^retries, retries from 0; djqueue's base · 2^attempt, attempts from 1."""
    backoff = options.get("retry_backoff")
    if not backoff:
        return FixedRetry(seconds=options.get("default_retry_delay", RETRY_DELAY_SECONDS))
    return RetryPolicy(
        base_seconds=(1 if backoff is True else backoff) / 2,
        cap_seconds=options.get("retry_backoff_max", BACKOFF_MAX_SECONDS),
        jitter="full" if options.get("retry_jitter", True) else "none",
    )


def _bound(function: Callable[..., Any], options: Mapping[str, Any]) -> Callable[..., Any]:
    """The handler with a `self` as Celery's in the place of the context."""
    name = f"{function.__module__}.{function.__qualname__}"
    retries, delay = options.get("max_retries", MAX_RETRIES), options.get("default_retry_delay", RETRY_DELAY_SECONDS)

    @functools.wraps(function)
    def handler(context: JobContext | None, *args: Any, **kwargs: Any) -> Any:
        return function(Bound(context, name, retries, delay), *args, **kwargs)

    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if not parameters:
        raise TypeError(f"@shared_task of {name}: bind=True: expected a function whose first argument is self, got ()")
    # The framework wants the first one to be called so.
    parameters[0] = parameters[0].replace(name="context")
    handler.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return handler


def _per_call(where: str, options: Mapping[str, Any]) -> dict[str, Any]:
    if options.get("countdown") is not None and options.get("eta") is not None:
        raise TypeError(f"{where}.apply_async: expected countdown or eta, got both")
    if options.get("ignore_result") is not None:
        raise TypeError(f"{where}.apply_async: ignore_result belongs to the task; say @shared_task(ignore_result=…)")
    due = options.get("eta")
    if options.get("countdown") is not None:
        due = timedelta(seconds=options["countdown"])
    expires = options.get("expires")
    if isinstance(expires, datetime):
        # Here it counts from when the job is due.
        start = due if isinstance(due, datetime) else datetime.now(UTC) + (due or timedelta())
        expires = expires - start
    found = {
        "run_after": due,
        "expires_after": expires,
        "queue_name": options.get("queue"),
        "priority": options.get("priority"),
    }
    if options.get("time_limit") is not None:
        found["timeout_seconds"] = options["time_limit"]
    return {name: value for name, value in found.items() if value is not None}


def _refuse(where: str, name: str, known: set[str]) -> NoReturn:
    if name in WITHOUT:
        raise TypeError(f"{where}: {name} has no counterpart: {WITHOUT[name]}")
    raise TypeError(
        f"{where}: unknown option {name!r}{nearest(name, sorted(known))}; known are: {', '.join(sorted(known))}"
    )
