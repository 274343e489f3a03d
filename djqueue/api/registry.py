"""Which tasks this process knows, by name. A name in a row finds its function here or nowhere: nothing is ever imported
because of what a row says.

A task's name is the dotted path of its function; its aliases are names that it had before.
"""

from importlib import import_module
from typing import Any

from django.utils.module_loading import autodiscover_modules

from djqueue.compat import task_backends
from djqueue.policy.payloads import known_as

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


def known() -> list[str]:
    """Return what a worker of this code says that it knows: names and aliases, and each later version of them."""
    each = {**_aliases, **_tasks}
    return sorted(known_as(name, version) for name, task in each.items() for version in range(1, task.version + 1))


def same(name: str) -> list[str]:
    """Return all names of the task that is called so, this one first; of a task that is not known only this one."""
    task = get(name)
    others = set() if task is None else {task.module_path, *task.aliases}
    return [name, *sorted(each for each in others - {name} if get(each) is task)]


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
