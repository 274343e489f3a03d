"""From a command line to a running supervisor: resolve the plan, say what is wrong with it, run."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connections

from djqueue.api import registry
from djqueue.backend import DjqueueBackend
from djqueue.compat import DEFAULT_TASK_BACKEND_ALIAS, task_backends
from djqueue.conf import nearest
from djqueue.exceptions import ConfigurationError
from djqueue.policy.fair import Pool
from djqueue.policy.weights import QueueSelection, parse_slots, serves
from djqueue.runtime.plan import Plan
from djqueue.runtime.supervisor import Supervisor

MOST_PROCESSES = 256
MOST_THREADS = 500


class WishRefused(ConfigurationError):
    """The command line asks for what can't be; the settings are not at fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the command line asked for."""

    queues: str = "*"
    processes: int = 1
    threads: int = 8
    backend: str = DEFAULT_TASK_BACKEND_ALIAS
    drain: str = ""
    max_jobs: int = 0
    max_rss_mb: int = 0
    liveness_file: str = ""
    slots: str = ""
    pool: str = ""
    chaos: float = 0
    cron: bool = True
    reaper: bool = True


def make_plan(wishes: Wishes) -> Plan:
    """Return the plan for these wishes; raise `WishRefused` with what was expected where they make no sense, and
    `ConfigurationError` where the settings don't."""
    backend = _backend(wishes.backend)
    _known_alias("database", backend.djqueue_options.database)
    _known_alias("listen_alias", backend.djqueue_options.listen_alias)
    _within("--processes", wishes.processes, 1, MOST_PROCESSES)
    _within("--threads", wishes.threads, 1, MOST_THREADS)
    _within("--max-jobs", wishes.max_jobs, 0, 2**31)
    _within("--max-rss", wishes.max_rss_mb, 0, 2**31)
    _chaos(wishes.chaos, backend)
    try:
        selection = QueueSelection.parse(wishes.queues)
        reserved = parse_slots(wishes.slots)
        pool = Pool.parse(wishes.pool) if wishes.pool else None
    except ValueError as error:
        raise WishRefused(f"--{error}") from error
    _known_queues(selection, backend)
    _served(reserved, selection)
    return Plan(
        backend=wishes.backend,
        options=backend.djqueue_options,
        selection=selection,
        known_queues=tuple(sorted(backend.queues)),
        processes=wishes.processes,
        threads=wishes.threads,
        drain=wishes.drain,
        max_jobs=wishes.max_jobs,
        max_rss_mb=wishes.max_rss_mb,
        liveness_file=wishes.liveness_file,
        reserved=tuple(reserved.items()),
        pool=pool,
        chaos=wishes.chaos,
        cron=wishes.cron,
        reaper=wishes.reaper,
    )


def supervise(plan: Plan, start_method: str | None = None) -> int:
    """Run a supervisor in this process; return the exit code.

    Tasks are imported first: what is wrong with them shows at once and in one place, and workers start the faster.
    Connections that are open by then are closed, pools included, so that none is shared by the processes forked here.
    """
    registry.load()
    for connection in connections.all(initialized_only=True):
        connection.close()
        close_pool = getattr(connection, "close_pool", None)
        if close_pool is not None:
            close_pool()
    return Supervisor(plan, start_method).run()


def _backend(alias: str) -> DjqueueBackend:
    settings: Any = task_backends.settings
    if alias not in settings:
        raise WishRefused(f"--backend: expected one of {sorted(settings)}, got {alias!r}")
    backend = task_backends[alias]
    if not isinstance(backend, DjqueueBackend):
        raise WishRefused(
            f"--backend: expected a djqueue backend, got {type(backend).__module__}.{type(backend).__qualname__} for "
            f"{alias!r}; set TASKS[{alias!r}]['BACKEND'] = 'djqueue.backend.DjqueueBackend'"
        )
    return backend


def _known_queues(selection: QueueSelection, backend: DjqueueBackend) -> None:
    """Refuse queues that no backend of this database lists; where one lists none, any name may be right."""
    listed = [each.queues for each in task_backends.all() if _shares_database(each, backend)]
    if not all(listed):
        return
    known = sorted({name for names in listed for name in names})
    for name in sorted({*selection.weights, *selection.excluded} - set(known)):
        raise WishRefused(
            f"--queues: expected queues of TASKS[{backend.alias!r}]['QUEUES'] ({', '.join(known)}), got {name!r}"
            f"{nearest(name, known)}; add it there while it still has jobs"
        )


def _shares_database(each: Any, backend: DjqueueBackend) -> bool:
    return isinstance(each, DjqueueBackend) and each.alias_of_database == backend.alias_of_database


def _known_alias(option: str, alias: str | None) -> None:
    if alias and alias not in list(connections):
        known = ", ".join(sorted(connections))
        raise ConfigurationError(f"OPTIONS[{option!r}]: expected an alias of DATABASES ({known}), got {alias!r}")


def _chaos(share: float, backend: DjqueueBackend) -> None:
    if not 0 <= share <= 1:
        raise WishRefused(f"--chaos: expected a share from 0 to 1, got {share}")
    if share and not (settings.DEBUG or backend.djqueue_options.allow_chaos):
        raise WishRefused(
            "--chaos: expected DEBUG or OPTIONS['allow_chaos'] to be True, since handlers run twice and processes are "
            "killed, got neither"
        )


def _served(reserved: Iterable[str], selection: QueueSelection) -> None:
    """Slots of a queue that is not served would only hide that nobody serves it with the others."""
    for name in reserved:
        if not serves(selection.words(), name):
            raise WishRefused(f"--slots: expected a queue that --queues serves, got {name!r}; name it there as well")


def _within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise WishRefused(f"{name}: expected a whole number from {low} to {high:,}, got {value}")
