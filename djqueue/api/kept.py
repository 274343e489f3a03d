"""What is kept with a job for people: its tags, the object that it is about, the job that enqueued it; and its limits
and the version of its arguments.

Stands between a task and the `options` of a row. Invariant: a subject is written in one form, `app.model:pk`, wherever
it comes from, so that the jobs of an object are found by an index.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from djqueue.api import current
from djqueue.api.arguments import Args, Kwargs
from djqueue.api.options import SUBJECT_LIMIT
from djqueue.compat import InvalidTask
from djqueue.exceptions import ArgumentsError
from djqueue.policy.texts import text_problem

Subject = str | Callable[..., Any] | None


def options(task: Any, args: Args, kwargs: Kwargs, limits: Mapping[str, Any] | None = None) -> str:
    """Return the options of one job as JSON text."""
    subject = None if task.subject is None else _subject_of(task, args, kwargs)
    parent = current.running_job.get()
    if (
        not task.tags
        and subject is None
        and parent is None
        and limits is None
        and task.version == 1
        and task.follows is None
    ):
        return "{}"
    found = {
        "tags": task.tags or None,
        "subject": subject,
        "parent": None if parent is None else str(parent),
        "limits": limits,
        "follows": task.follows,
        "version": None if task.version == 1 else task.version,
    }
    return json.dumps({name: value for name, value in found.items() if value is not None})


def subject_text(value: Any) -> str:
    """Return how an object is written as a subject; raise `ValueError` where it can't be."""
    if isinstance(value, str):
        text = value
    elif hasattr(value, "_meta") and hasattr(value, "pk"):
        if value.pk is None:
            raise ValueError("subject: expected a saved object, got one without a primary key; save it first")
        text = f"{value._meta.concrete_model._meta.label_lower}:{value.pk}"
    else:
        raise ValueError(f"subject: expected a model instance or text, got {type(value).__name__}")
    problem = text_problem("subject", text, SUBJECT_LIMIT)
    if problem:
        raise ValueError(problem)
    return text


def declared(name: str, value: Any) -> Any:
    """Return the subject as a task keeps it: text, or a function of the handler's arguments."""
    if value is None or (callable(value) and not hasattr(value, "_meta")):
        return value
    try:
        return subject_text(value)
    except ValueError as fault:
        raise InvalidTask(f"{name}: {fault}") from None


def _subject_of(task: Any, args: Args, kwargs: Kwargs) -> str | None:
    if isinstance(task.subject, str):
        return task.subject
    found = task.subject(*args, **kwargs)
    try:
        return None if found is None else subject_text(found)
    except ValueError as fault:
        raise ArgumentsError(f"{task.module_path}: {fault}") from None
