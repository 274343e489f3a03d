"""Arguments that are too large for a row: a file in one of Django's storages, and the reference that the row keeps.

    enqueue ─► file, then row {"args": [], "kwargs": {}, "file": {storage, name, bytes, sha256}} ─► read where needed

Invariant: a row never says that a file is there before it is. A file without a row (its transaction was rolled back,
its job was pruned) is known by the id in its name and deleted by the leader of the workers, see `runtime.largeargs`.
"""

import hashlib
import json
import logging
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.db import connections

from djqueue.conf import Options
from djqueue.exceptions import ArgumentsError
from djqueue.store import largeargs as store

log = logging.getLogger("djqueue")

FOLDER = "djqueue_args"
MILLISECONDS_OF_A_DAY = 86_400_000


class ArgumentsMissing(ValueError):
    """The file with a job's arguments is gone, or is not what was written; no other attempt can mend that."""


def storage_of(task: Any, settings: Options) -> str:
    """Return the alias of the storage that a task's large arguments go to; '' where they go to none."""
    return settings.large_args if task.large_args is None else str(task.large_args)


def limit(task: Any, settings: Options) -> int:
    """Return how many bytes of JSON the arguments of a task may be."""
    return settings.large_args_max_bytes if storage_of(task, settings) else settings.max_args_bytes


def put(task: Any, id_: UUID, text: str, settings: Options) -> str:
    """Return what the row holds: the arguments themselves, or a reference to a file that is written now."""
    alias = storage_of(task, settings)
    data = text.encode() if alias and len(text) * 4 > settings.large_args_over_bytes else b""
    if len(data) <= settings.large_args_over_bytes:
        return text
    if task.on_conflict == "replace":
        raise ArgumentsError(
            f"{task.module_path}: on_conflict='replace': expected arguments of at most "
            f"{settings.large_args_over_bytes:,} bytes, got {len(data):,}, which go to a file, and a file belongs to "
            "the job that wrote it; use another on_conflict, or pass less"
        )
    owner = _owner(settings.database, str(connections[settings.database].settings_dict["NAME"]))
    name = f"{FOLDER}/{owner}/{_day(id_)}/{id_}.json"
    name = storages[alias].save(name, ContentFile(data))
    digest = hashlib.sha256(data).hexdigest()
    file = {"storage": alias, "name": name, "bytes": len(data), "sha256": digest}
    return json.dumps({"args": [], "kwargs": {}, "file": file})


def reference(arguments: object) -> dict[str, Any] | None:
    """Return the reference that a row's arguments are, or None where they are the arguments themselves."""
    file = arguments.get("file") if isinstance(arguments, dict) else None
    return file if isinstance(file, dict) and isinstance(file.get("name"), str) else None


def whole(text: str) -> str:
    """Return the arguments' JSON text, read from their file where `text` only says where they are.

    Raises `ArgumentsMissing` where there is no such file; what the storage raises otherwise passes.
    """
    file = reference(json.loads(text)) if '"file"' in text else None
    return text if file is None else _read(file)


def shown(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a row's arguments with those of a file read; empty ones, and a line in the log, where that can't be."""
    file = reference(arguments)
    if file is None:
        return arguments
    try:
        found: dict[str, Any] = json.loads(_read(file))
        return found
    except Exception as error:
        log.warning("large arguments can't be read file=%s error=%s", file["name"], error)
        return arguments


def drop(text: str) -> None:
    """Delete the file that a row would have led to, if there is one; what fails is left to the sweep."""
    file = reference(json.loads(text)) if '"file"' in text else None
    if file is not None:
        try:
            storages[file["storage"]].delete(file["name"])
        except Exception as error:
            log.warning("large arguments of no job can't be deleted yet file=%s error=%s", file["name"], error)


def _read(file: dict[str, Any]) -> str:
    name, alias = file["name"], str(file.get("storage"))
    if alias not in storages.backends:
        raise ArgumentsMissing(f"the arguments are in {name!r} of the storage {alias!r}, which STORAGES does not name")
    try:
        with storages[alias].open(name) as opened:
            data: bytes = opened.read()
    except FileNotFoundError:
        raise ArgumentsMissing(
            f"the arguments are in {name!r} of the storage {alias!r}, but there is no such file; put it back and "
            "requeue the job, or discard it"
        ) from None
    if hashlib.sha256(data).hexdigest() != file.get("sha256"):
        raise ArgumentsMissing(f"the arguments in {name!r} of the storage {alias!r} are not those that were written")
    return data.decode()


def _day(id_: UUID) -> str:
    """The day of an id, by the clock of the process that made it: only a folder, so that none becomes too large."""
    return str((id_.int >> 80) // MILLISECONDS_OF_A_DAY)


@lru_cache(maxsize=32)
def _owner(alias: str, database_name: str) -> str:
    return store.owner(alias)[0]
