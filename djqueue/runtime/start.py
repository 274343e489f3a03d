"""From a command line to a running supervisor: resolve the plan, say what is wrong with it, run."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connections

from djqueue.backend import DjqueueBackend
from djqueue.compat import DEFAULT_TASK_BACKEND_ALIAS, task_backends
from djqueue.exceptions import ConfigurationError
from djqueue.policy.weights import QueueSelection
from djqueue.runtime.plan import Plan
from djqueue.runtime.supervisor import Supervisor

MOST_PROCESSES = 256
MOST_THREADS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the command line asked for."""

    queues: str = "*"
    processes: int = 1
    threads: int = 8
    backend: str = DEFAULT_TASK_BACKEND_ALIAS
    drain: str = ""
    max_jobs: int = 0
    cron: bool = True
    reaper: bool = True


def make_plan(wishes: Wishes) -> Plan:
    """Return the plan for these wishes; raise `ConfigurationError` with what was expected where they make no sense."""
    backend = _backend(wishes.backend)
    _within("--processes", wishes.processes, 1, MOST_PROCESSES)
    _within("--threads", wishes.threads, 1, MOST_THREADS)
    _within("--max-jobs", wishes.max_jobs, 0, 2**31)
    try:
        selection = QueueSelection.parse(wishes.queues)
    except ValueError as error:
        raise ConfigurationError(f"--{error}") from error
    return Plan(
        backend=wishes.backend,
        options=backend.djqueue_options,
        selection=selection,
        known_queues=tuple(sorted(backend.queues)),
        processes=wishes.processes,
        threads=wishes.threads,
        drain=wishes.drain,
        max_jobs=wishes.max_jobs,
        cron=wishes.cron,
        reaper=wishes.reaper,
    )


def supervise(plan: Plan) -> int:
    """Run a supervisor in this process; return the exit code. Connections that are open here are closed first."""
    connections.close_all()
    return Supervisor(plan).run()


def reload_on_change(arguments: Sequence[str]) -> None:
    """Run the worker as a child process and start it again whenever code changes."""
    from django.utils import autoreload

    autoreload.run_with_reloader(_run_child, list(arguments))


def _run_child(arguments: list[str]) -> None:
    """Run in the reloader's process: its main thread watches files, the real worker needs one for its signals."""
    import atexit

    child = subprocess.Popen([sys.executable, *arguments], env={**os.environ, "RUN_MAIN": ""})
    atexit.register(_end_child, child)
    child.wait()
    os._exit(child.returncode if child.returncode >= 0 else 1)


def _end_child(child: "subprocess.Popen[bytes]") -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()


def _backend(alias: str) -> DjqueueBackend:
    settings: Any = task_backends.settings
    if alias not in settings:
        raise ConfigurationError(f"--backend: expected one of {sorted(settings)}, got {alias!r}")
    backend = task_backends[alias]
    if not isinstance(backend, DjqueueBackend):
        raise ConfigurationError(
            f"--backend: expected a djqueue backend, got {type(backend).__module__}.{type(backend).__qualname__} for "
            f"{alias!r}; set TASKS[{alias!r}]['BACKEND'] = 'djqueue.backend.DjqueueBackend'"
        )
    return backend


def _within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigurationError(f"{name}: expected a whole number from {low} to {high:,}, got {value}")
