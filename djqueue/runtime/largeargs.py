"""The leader deletes files of arguments whose jobs are gone: pruned, discarded, replaced, or never committed.

A file is named by its job: djqueue_args/OWNER/DAY/ID.json, where the owner is the database that wrote it. Invariant: a
file is deleted only if its job is in no database of this project's backends, and a day has passed since the enqueue,
which is longer than any transaction may take.
"""

import logging
from collections.abc import Iterable, Iterator
from datetime import datetime
from uuid import UUID

from django.core.files.storage import Storage, storages

from djqueue.api import registry
from djqueue.api.largeargs import FOLDER
from djqueue.compat import task_backends
from djqueue.policy.ids import made_at
from djqueue.runtime.housekeeping import IDLE_SECONDS
from djqueue.runtime.leader import LeaderDuty
from djqueue.store import faults
from djqueue.store import largeargs as store

log = logging.getLogger("djqueue")

SWEEP_SECONDS = 3_600.0
SOONEST_SECONDS = 86_400.0
BATCH = 100


class LargeArgsDuty:
    """Sweeps the storages once an hour."""

    name = "large arguments"

    def __init__(self, alias: str, leader: LeaderDuty) -> None:
        self._alias = alias
        self._leader = leader
        self._going: Iterator[int] | None = None

    def tick(self) -> float:
        """Look at a batch of files; a storage that is in trouble is tried again an hour later."""
        if not self._leader.leads:
            self._going = None
            return IDLE_SECONDS
        going, self._going = self._going or sweep(self._alias), None
        count = next(going, None)
        if count is None:
            return SWEEP_SECONDS
        self._going = going
        if count:
            log.info("files of arguments without a job deleted files=%d", count)
        return 0.0


def sweep(alias: str) -> Iterator[int]:
    """Delete files whose jobs are gone, and yield after each batch how many; one storage in trouble stops no other."""
    used = storages_in_use()
    if not used:
        return
    owner, now = store.owner(alias)
    for name in sorted(used & set(storages.backends)):
        try:
            yield from _sweep_one(storages[name], f"{FOLDER}/{owner}", now)
        except faults.ERRORS:
            raise
        except Exception as error:
            log.warning("files of arguments can't be swept storage=%s error=%s", name, error)


def storages_in_use() -> set[str]:
    """Return the storages that tasks or backends name now."""
    named = {getattr(backend, "large_args", "") for backend in task_backends.all()}
    return {name for name in named | {task.large_args or "" for task in registry.tasks()} if name}


def _databases() -> set[str]:
    return {found for backend in task_backends.all() if (found := getattr(backend, "alias_of_database", None))}


def _sweep_one(storage: Storage, folder: str, now: datetime) -> Iterator[int]:
    for day in _listed(storage, folder)[0]:
        files = [(id_, name) for name in _listed(storage, f"{folder}/{day}")[1] if (id_ := _id_of(name)) is not None]
        old = [(id_, name) for id_, name in files if (now - made_at(id_)).total_seconds() > SOONEST_SECONDS]
        for start in range(0, len(old), BATCH):
            yield _delete_gone(storage, f"{folder}/{day}", old[start : start + BATCH])


def _delete_gone(storage: Storage, folder: str, files: list[tuple[UUID, str]]) -> int:
    ids = [id_ for id_, _ in files]
    live = set[UUID]().union(*(store.existing(alias, ids) for alias in _databases()))
    gone = [name for id_, name in files if id_ not in live]
    for name in gone:
        storage.delete(f"{folder}/{name}")
    return len(gone)


def _listed(storage: Storage, folder: str) -> tuple[Iterable[str], Iterable[str]]:
    """Folders and files; none where the folder was never made."""
    try:
        return storage.listdir(folder)
    except FileNotFoundError:
        return [], []


def _id_of(name: str) -> UUID | None:
    try:
        return UUID(name.removesuffix(".json")[:36])
    except ValueError:
        return None
