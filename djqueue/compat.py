"""One name for Django's Tasks framework, wherever it comes from.

Django 6.0 and later bring `django.tasks`; on Django 5.2 the backport `django_tasks` has the same contract. Everything
else in djqueue imports these names from here and never asks which one it is.
"""

from typing import TYPE_CHECKING, Any

try:
    from django.tasks import DEFAULT_TASK_BACKEND_ALIAS, DEFAULT_TASK_QUEUE_NAME, task_backends
    from django.tasks import signals as task_signals
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist, TaskResultMismatch

    TASKS_LOGGER = "django.tasks"
except ImportError:
    try:
        from django_tasks import DEFAULT_TASK_BACKEND_ALIAS, DEFAULT_TASK_QUEUE_NAME, task_backends  # type: ignore
        from django_tasks import signals as task_signals  # type: ignore
        from django_tasks.backends.base import BaseTaskBackend  # type: ignore
        from django_tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus  # type: ignore
        from django_tasks.exceptions import InvalidTaskError as InvalidTask  # type: ignore
        from django_tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch  # type: ignore

        TASKS_LOGGER = "django_tasks"
    except ImportError as missing:
        raise ImportError(
            "djqueue needs Django's Tasks framework: use Django 6.0 or later, or install the backport on Django 5.2 "
            "(pip install django-tasks)"
        ) from missing

if TYPE_CHECKING:
    AnyTask = Task[Any, Any]
    AnyTaskResult = TaskResult[Any, Any]
else:
    AnyTask = Task
    AnyTaskResult = TaskResult

JSON = dict[str, Any] | list[Any] | str | int | float | bool | None

__all__ = [
    "DEFAULT_TASK_BACKEND_ALIAS",
    "DEFAULT_TASK_QUEUE_NAME",
    "JSON",
    "TASKS_LOGGER",
    "AnyTask",
    "AnyTaskResult",
    "BaseTaskBackend",
    "InvalidTask",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "TaskResultStatus",
    "task_backends",
    "task_signals",
]
