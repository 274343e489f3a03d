"""What the verbs of `manage.py djqueue` share: backend, moments, JSON in and out, and how they refuse.

Exit codes: 0 done; 1 refused, the message says what was expected (nothing was changed); 2 an option that does not
exist; 3 done for some of the jobs that were named, the answer says which were left.
"""

import getpass
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError
from django.utils import timezone

from djqueue.api import registry
from djqueue.backend import DjqueueBackend
from djqueue.compat import task_backends
from djqueue.conf import nearest
from djqueue.policy import durations
from djqueue.policy.texts import text_problem

PARTLY = 3
LONGEST_WORDS = 10_000

Print = Callable[[str], object]


def verb(verbs: Any, name: str, words: str) -> Any:
    """Declare a verb with the options that all of them have."""
    parser = verbs.add_parser(name, help=words, description=words)
    parser.add_argument("--backend", default="default", help="alias in TASKS (default: default)")
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    return parser


def backend_of(options: dict[str, Any]) -> DjqueueBackend:
    """Return the backend that is meant."""
    alias = options["backend"]
    backend = task_backends[alias] if alias in task_backends.settings else None
    if not isinstance(backend, DjqueueBackend):
        raise CommandError(f"--backend: expected the alias of a djqueue backend in TASKS, got {alias!r}")
    return backend


def parsed(option: str, text: str, kind: type) -> Any:
    """Read JSON of this kind."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CommandError(f"{option}: expected JSON, got {text!r}: {error}") from error
    except RecursionError as error:
        raise CommandError(f"{option}: expected JSON, got lists or objects too deep within each other") from error
    if not isinstance(value, kind):
        raise CommandError(f"{option}: expected a JSON {'list' if kind is list else 'object'}, got {text!r}")
    return value


def as_json(answer: Any) -> str:
    """Return the answer as JSON."""
    return json.dumps(answer, indent=2, default=_json)


def stored(option: str, text: str) -> str:
    """Return words that people give, as they are; refuse what PostgreSQL can't store."""
    problem = text_problem(option, text, LONGEST_WORDS) if text else ""
    if problem:
        raise CommandError(problem)
    return text


def moment(option: str, text: str) -> datetime:
    """Read a date or a moment, in the project's zone where it names none."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else timezone.make_aware(found)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise CommandError(f"{option}: expected a date or a moment, such as 2026-03-28T12:00, got {text!r}") from error


def seconds(option: str, text: str) -> float:
    """Read a duration."""
    try:
        return durations.parse(text)
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from error


def whole(option: str, text: str, low: int, high: int) -> int:
    """Read a whole number within limits."""
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise CommandError(f"{option}: expected a whole number from {low} to {high:,}, got {text!r}")
    return value


def user() -> str:
    """Return the user of the system, for records of who did something; '' where it has no name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def ids(texts: Sequence[str]) -> list[UUID]:
    """Read job ids, each once, in their order."""
    return list(dict.fromkeys(job_id(text) for text in texts))


def job_id(text: str) -> UUID:
    """Read a job id."""
    try:
        return UUID(text)
    except ValueError as error:
        raise CommandError(f"expected the id of a job, such as 0199…-…, got {text!r}") from error


def known_task(name: str) -> Any:
    """Return the task of that name or alias."""
    registry.load()
    task = registry.get(name)
    if task is None:
        close = nearest(name, registry.names())
        raise CommandError(f"expected a task that this project has, got {name!r}{close}")
    return task


def said(at: datetime | None) -> str:
    """Return a moment as people read it, in UTC."""
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _json(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
