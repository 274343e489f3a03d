"""Versions of payloads: what a job's arguments were written for, and how they become what the code now takes.

    enqueue writes the task's version ─► row ─► older than the code: upgraded before each attempt; the row stays
                                             └► newer than the code: set aside, for a worker that knows that version

Invariant: a handler never sees arguments of another version than its own. Version 1 stands in no row.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

LATEST = 9_999

Upgrade = Callable[[list[Any], dict[str, Any]], tuple[Any, Any]]
"""From the positional and keyword arguments of one version to those of the next."""


class UpgradeFailed(ValueError):
    """The arguments of a job can't be brought to the version of the code; no other attempt can mend that."""


def version_of(options: str) -> int:
    """Return the version that a job was written for, by the JSON text of its options; 0 where that is no version."""
    if '"version"' not in options:
        return 1
    try:
        found = json.loads(options)
    except (ValueError, RecursionError):
        return 0  # too deep, or a number of thousands of digits
    version = found.get("version", 1) if isinstance(found, dict) else 1
    return version if type(version) is int and 1 <= version <= LATEST else 0


def known_as(task_name: str, version: int) -> str:
    """Return the name under which a worker says that it knows this version of a task: `shop.tasks.send@3`."""
    return task_name if version <= 1 else f"{task_name}@{version}"


def parts(known: str) -> tuple[str, int]:
    """Return the task's name and the version out of what `known_as` has made."""
    name, _, version = known.partition("@")
    return name, int(version) if version.isdigit() else 1


def gap(version: int, upgrades: Mapping[int, Upgrade]) -> str:
    """Say which upgrades are missing between the oldest version that can be upgraded and the task's own, or nothing.

    The oldest ones may be left out: once no job of those versions is left, nobody needs them.
    """
    oldest = min(upgrades, default=version - 1)
    missing = [str(number) for number in range(max(1, oldest), version) if number not in upgrades]
    if not missing:
        return ""
    return f"upgrades: expected functions for versions {oldest} to {version - 1}, got none for {', '.join(missing)}"


def upgraded(
    task_name: str, found: int, version: int, upgrades: Mapping[int, Upgrade], args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments of version `found` as the task takes them; raise `UpgradeFailed` with the step that failed."""
    for number in range(found, version):
        args, kwargs = _step(f"{task_name}: upgrades[{number}]", upgrades.get(number), args, kwargs)
    return args, kwargs


def _step(
    where: str, upgrade: Upgrade | None, args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    if upgrade is None:
        raise UpgradeFailed(f"{where}: expected a function from (args, kwargs) to the next version, got none; add it")
    try:
        answer = upgrade(args, kwargs)
    except Exception as fault:
        raise UpgradeFailed(
            f"{where}: the upgrade of the arguments failed with {type(fault).__name__}: {fault}; mend it and requeue"
        ) from fault
    match answer:
        case (list() | tuple() as found, dict() as named) if all(isinstance(name, str) for name in named):
            return list(found), named
    raise UpgradeFailed(
        f"{where}: expected it to return (args, kwargs), a list and a dict, got {type(answer).__name__}"
    )
