"""What is checked and frozen before a job is written: its arguments and its keys.

Stands between `enqueue` and the first statement. Invariant: what passes here is storable; what does not was refused
with the path to the fault and a remedy, and nothing was written.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from djqueue.api.options import DEDUPE_KEY_LIMIT, LIMIT_KEY_LIMIT, ORDERING_KEY_LIMIT, TENANT_LIMIT
from djqueue.exceptions import ArgumentsError
from djqueue.policy.arguments import MAX_BYTES, ArgumentsInvalid, freeze
from djqueue.policy.signature import SignatureMismatch, bind
from djqueue.policy.texts import text_problem

Args = Sequence[Any]
Kwargs = Mapping[str, Any]


def frozen(task: Any, args: Args, kwargs: Kwargs, max_bytes: int = MAX_BYTES) -> str:
    """Return the arguments as JSON text; raise `ArgumentsError` unless they fit the task and are JSON."""
    try:
        bind(task.func, args, kwargs, takes_context=task.takes_context)
        return freeze(args, kwargs, max_bytes=max_bytes)
    except SignatureMismatch as fault:
        raise ArgumentsError(str(fault)) from None
    except ArgumentsInvalid as fault:
        raise ArgumentsError(f"{task.module_path}: {fault}") from None


def check_terms(task: Any) -> None:
    """Raise `ArgumentsError` where options speak of a dedupe key and the task has none."""
    if task.dedupe_key is not None:
        return
    for name in ("unique_for", "debounce"):
        if getattr(task, name) is not None:
            raise ArgumentsError(f"{task.module_path}: {name}: expected a dedupe_key beside it, got none; say which")
    if task.on_conflict != "ignore":
        raise ArgumentsError(
            f"{task.module_path}: on_conflict: expected a dedupe_key beside {task.on_conflict!r}, got none; say which"
        )


def dedupe_key(task: Any, args: Args, kwargs: Kwargs) -> str | None:
    """Return the dedupe key of one job; raise `ArgumentsError` where it can't be stored."""
    return _key(task, "dedupe_key", DEDUPE_KEY_LIMIT, args, kwargs)


def ordering_key(task: Any, args: Args, kwargs: Kwargs) -> str | None:
    """Return the ordering key of one job; raise `ArgumentsError` where it can't be stored."""
    return _key(task, "ordering_key", ORDERING_KEY_LIMIT, args, kwargs)


def tenant_id(task: Any, args: Args, kwargs: Kwargs) -> str | None:
    """Return the tenant of one job; raise `ArgumentsError` where it can't be stored."""
    return _key(task, "tenant_id", TENANT_LIMIT, args, kwargs)


def concurrency_key(task: Any, args: Args, kwargs: Kwargs) -> str | None:
    """Return what shares the concurrency limit of one job; raise `ArgumentsError` where it can't be stored."""
    return _key(task, "concurrency_key", LIMIT_KEY_LIMIT, args, kwargs)


def rate_key(task: Any, args: Args, kwargs: Kwargs) -> str | None:
    """Return what shares the rate limit of one job; raise `ArgumentsError` where it can't be stored."""
    return _text(task, "rate_limit: key", task.rate_limit.key, LIMIT_KEY_LIMIT, args, kwargs)


def _key(task: Any, what: str, limit: int, args: Args, kwargs: Kwargs) -> str | None:
    return _text(task, what, getattr(task, what), limit, args, kwargs)


def _text(task: Any, what: str, key: Any, limit: int, args: Args, kwargs: Kwargs) -> str | None:
    if key is None:
        return None
    if callable(key):
        key = key(*args, **kwargs)
        if key is None:
            return None
    problem = text_problem(what, key, limit)
    if problem:
        raise ArgumentsError(f"{task.module_path}: {problem}")
    return str(key)


def split(task: Any, row: object) -> tuple[Args, Kwargs]:
    """Return one row of `enqueue_many` as positional and keyword arguments."""
    match row:
        case tuple() | list():
            return row, {}
        case Mapping():
            return (), row
    raise ArgumentsError(
        f"{task.module_path}: enqueue_many: expected each row to be a tuple of positional arguments or a dict of "
        f"keyword arguments, got {type(row).__name__}; write (value,) for a single argument"
    )
