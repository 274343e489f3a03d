"""Which tasks this process knows, by name. A name in a row finds its function here or nowhere: nothing is ever imported
because of what a row says.

A task's name is the dotted path of its function; its aliases are names that it had before.
"""

from importlib import import_module
from typing import Any

from django.utils.module_loading import autodiscover_modules

from djqueue.compat import task_backends

_tasks: dict[str, Any] = {}
_aliases: dict[str, Any] = {}


def add(task: Any) -> None:
    """Make a task known. What `.using(...)` made of it does not take its place; a function defined anew does."""
    name = task.module_path
    known = _tasks.get(name)
    if known is not None and known.func is task.func:
        return
    _tasks[name] = task
    for alias in task.aliases:
        _aliases.setdefault(alias, task)
        if _aliases[alias].module_path == name:
            _aliases[alias] = task


def get(name: str) -> Any | None:
    """Return the task of that name or alias, as it was declared, or None."""
    return _tasks.get(name) or _aliases.get(name)


def names() -> list[str]:
    """Return the names and aliases of all known tasks, sorted. A worker runs any task that it knows, whatever its
    declared backend, because `.using(backend=…)` may send it anywhere."""
    return sorted({*_tasks, *_aliases})


def tasks() -> list[Any]:
    """Return the known tasks as they were declared, by name."""
    return [_tasks[name] for name in sorted(_tasks)]


def load() -> None:
    """Import the `tasks` module of every installed app, and the modules that the backends' `task_modules` name."""
    autodiscover_modules("tasks")
    for backend in task_backends.all():
        for module in getattr(backend, "task_modules", ()):
            import_module(module)


def alias_conflicts() -> list[tuple[str, str, str]]:
    """Return (alias, name of the task that has it, name of the task that wants it) where two tasks claim one name."""
    conflicts = []
    for task in tasks():
        for alias in task.aliases:
            holder = get(alias)
            if holder is not None and holder.module_path != task.module_path:
                conflicts.append((alias, holder.module_path, task.module_path))
    return conflicts
