"""What `manage.py check` says about a project's use of djqueue: every mistake at once, an id each.

E001 and E002 come from the backend itself. Checks that ask a database run where Django runs such checks: with
`check --database …` and in `migrate`.

    E001 an option is wrong               E007 two tasks claim one name         W001 jobs are not in the default one
    E002 not in INSTALLED_APPS            E008 PostgreSQL is too old            W002 the connection pool is too small
    E003 no such database alias           E009 the router refuses the tables    W003 no backend uses djqueue
    E004 not PostgreSQL                   E011 an upgrade is missing            W004 the backport is not installed
    E005 a stricter isolation level       E012 no such storage                  W005 settings for a queue not listed
    E006 a module of tasks can't be used  E010 `redact` is no function          W006 settings for an unused circuit
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, Tags, Warning
from django.core.files.storage import storages
from django.db import DEFAULT_DB_ALIAS, connections, router
from django.utils.module_loading import import_string

from djqueue.api import registry
from djqueue.api.options import QUEUE_NAME_LIMIT
from djqueue.backend import DjqueueBackend
from djqueue.compat import TASKS_LOGGER, task_backends
from djqueue.nearest import nearest
from djqueue.policy.payloads import gap
from djqueue.policy.texts import text_problem
from djqueue.store import db

OLDEST_POSTGRESQL = 15
POOL_NEEDS = 8
"""Connections that the handlers of one worker process need with the default number of slots; bookkeeping has others."""
POOL_DEFAULT = 4
READ_COMMITTED = 2
"""As psycopg numbers the isolation levels; what is stricter has a greater number."""


def check_settings(app_configs: Sequence[Any] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Check what the settings alone tell."""
    found = backends()
    messages = [] if found else [_unused()]
    messages += _backport(found)
    for backend in found:
        messages += _database(backend)
        messages += _queues(backend)
        messages += _redact(backend)
        messages += _storage(_options_of(backend), backend.large_args)
    return messages


def check_tasks(app_configs: Sequence[Any] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Import the modules of tasks and check what they declare."""
    found = backends()
    if not found:
        return []
    try:
        registry.load()
    except Exception as error:
        return [_unusable_module(error)]
    messages = [*_alias_conflicts(), *_gaps(), *_storages(), *_unused_circuits(found)]
    return [*messages, *(message for each in found for message in _isolation_in_settings(each))]


def check_databases(
    app_configs: Sequence[Any] | None = None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Check what only the database can tell."""
    found = [backend for backend in backends() if backend.alias_of_database in (databases or ())]
    return [message for each in found if _is_postgresql(each.alias_of_database) for message in _server(each)]


REGISTERED = [(check_settings, ()), (check_tasks, ()), (check_databases, (Tags.database,))]


def backends() -> list[DjqueueBackend]:
    """Return the djqueue backends of the TASKS setting."""
    return [backend for backend in task_backends.all() if isinstance(backend, DjqueueBackend)]


def _unused() -> CheckMessage:
    return Warning(
        "djqueue is in INSTALLED_APPS, but no backend in TASKS uses it.",
        hint='Set TASKS = {"default": {"BACKEND": "djqueue.backend.DjqueueBackend"}}.',
        id="djqueue.W003",
    )


def _backport(found: list[DjqueueBackend]) -> list[CheckMessage]:
    """On Django 5.2: without the app of the backport nobody asks the backends for their own checks."""
    if TASKS_LOGGER != "django_tasks" or apps.is_installed("django_tasks") or not found:
        return []
    warning = Warning(
        "The tasks of Django 5.2 come from django_tasks, which is not in INSTALLED_APPS.",
        hint='Add "django_tasks" to INSTALLED_APPS; without it checks and log lines of the framework are missing.',
        id="djqueue.W004",
    )
    return [warning, *(message for backend in found for message in backend.check())]


def _database(backend: DjqueueBackend) -> Iterator[CheckMessage]:
    alias, where = backend.alias_of_database, _options_of(backend)
    if alias not in connections.settings:
        yield Error(
            f"{where}: database: expected an alias of DATABASES ({', '.join(sorted(connections.settings))}), "
            f"got {alias!r}.",
            id="djqueue.E003",
        )
        return
    if not _is_postgresql(alias):
        yield Error(
            f"{where}: database: expected PostgreSQL, got {connections[alias].vendor} for {alias!r}.",
            hint=f"Name the alias of a PostgreSQL database (version {OLDEST_POSTGRESQL} or later) in that option.",
            id="djqueue.E004",
        )
        return
    if not router.allow_migrate(alias, "djqueue", model_name="job"):
        yield Error(
            f"{where}: the database routers keep djqueue's tables away from {alias!r}.",
            hint=f"Let allow_migrate({alias!r}, 'djqueue') return True or None.",
            id="djqueue.E009",
        )
    if alias != DEFAULT_DB_ALIAS:
        yield Warning(
            f"{where}: jobs are written to {alias!r}: a transaction on {DEFAULT_DB_ALIAS!r} does not contain them.",
            hint=f"Enqueue inside transaction.atomic(using={alias!r}), or keep djqueue in the default database. Where "
            "the data of the jobs lives there too, silence this check.",
            id="djqueue.W001",
        )
    yield from _pool(alias)


def _pool(alias: str) -> Iterator[CheckMessage]:
    pool = connections.settings[alias].get("OPTIONS", {}).get("pool")
    if not pool:
        return
    wishes = pool if isinstance(pool, dict) else {}
    size = wishes.get("max_size") or wishes.get("min_size") or POOL_DEFAULT
    if size < POOL_NEEDS:
        yield Warning(
            f"DATABASES[{alias!r}]: the pool holds {size} connections, a worker with 8 slots needs {POOL_NEEDS}.",
            hint="Set OPTIONS['pool'] = {'max_size': …} to the number of --threads, or run fewer threads.",
            id="djqueue.W002",
        )


def _queues(backend: DjqueueBackend) -> Iterator[CheckMessage]:
    for name in sorted(backend.queues, key=str):
        problem = text_problem("queue name", name, QUEUE_NAME_LIMIT)
        if problem:
            yield Error(f"TASKS[{backend.alias!r}]['QUEUES']: {problem}.", id="djqueue.E001")
    for name in sorted(set(backend.queues_with_settings) - backend.queues) if backend.queues else ():
        yield Warning(
            f"{_options_of(backend)}: queues: {name!r} has settings, but is not one of QUEUES.",
            hint=f"Add {name!r} to TASKS[{backend.alias!r}]['QUEUES'], or remove its settings.",
            id="djqueue.W005",
        )


def _redact(backend: DjqueueBackend) -> Iterator[CheckMessage]:
    path = backend.redact
    if not path:
        return
    try:
        found = import_string(path)
    except Exception as error:
        found, why = None, f"{type(error).__name__}: {error}"
    else:
        why = f"it is a {type(found).__name__}"
    if not callable(found):
        yield Error(
            f"{_options_of(backend)}: redact: expected the dotted path of a function, got {path!r} ({why}).",
            hint="Write a function redact(kind, task_name, text) that returns the text that may be kept.",
            id="djqueue.E010",
        )


def _unusable_module(error: Exception) -> CheckMessage:
    return Error(
        f"A module of tasks can't be imported: {type(error).__name__}: {error}",
        hint="Workers import the `tasks` module of every app and what OPTIONS['task_modules'] names.",
        id="djqueue.E006",
    )


def _alias_conflicts() -> Iterable[CheckMessage]:
    for alias, holder, wanter in registry.alias_conflicts():
        yield Error(
            f"{wanter}: the alias {alias!r} is a name of {holder} already.",
            hint="A job's name must lead to one task: remove one of the two.",
            id="djqueue.E007",
        )


def _storages() -> Iterator[CheckMessage]:
    for task in registry.tasks():
        yield from _storage(task.module_path, task.large_args or "")


def _storage(where: str, alias: str) -> Iterator[CheckMessage]:
    if alias and alias not in storages.backends:
        known = sorted(storages.backends)
        yield Error(
            f"{where}: large_args: expected an alias of STORAGES ({', '.join(known)}), got {alias!r}"
            f"{nearest(alias, known)}.",
            hint="Name a private storage that web servers and workers share; jobs' arguments are files there.",
            id="djqueue.E012",
        )


def _gaps() -> Iterator[CheckMessage]:
    """Jobs of a version that nothing upgrades would die."""
    for task in registry.tasks():
        if missing := gap(task.version, task.upgrades):
            yield Error(
                f"{task.module_path}: version={task.version}: {missing}.",
                hint="Each is a function from (args, kwargs) of its version to those of the next. The oldest ones may "
                "go once no job of their version is left.",
                id="djqueue.E011",
            )


def _unused_circuits(found: Iterable[DjqueueBackend]) -> Iterator[CheckMessage]:
    """A circuit's settings under a misspelt name would leave it with the defaults."""
    used = sorted({task.circuit for task in registry.tasks() if task.circuit})
    for backend in found:
        for name in sorted(set(backend.circuits_with_settings) - set(used), key=str):
            yield Warning(
                f"{_options_of(backend)}: circuits: {name!r} has settings, but no task names it{nearest(name, used)}.",
                hint=f"Declare a task with @task(circuit={name!r}), or remove the settings.",
                id="djqueue.W006",
            )


def _isolation_in_settings(backend: DjqueueBackend) -> Iterator[CheckMessage]:
    alias = backend.alias_of_database
    if alias in connections.settings:
        level = connections.settings[alias].get("OPTIONS", {}).get("isolation_level")
        if level is not None and int(level) > READ_COMMITTED:
            yield from _atomic_tasks_that_do_not_say("DATABASES", backend)


def _atomic_tasks_that_do_not_say(where: str, backend: DjqueueBackend) -> Iterator[CheckMessage]:
    """Above READ COMMITTED a heartbeat that passes during an atomic handler would make its ack fail."""
    alias = backend.alias_of_database
    for task in registry.tasks():
        if task.backend == backend.alias and task.atomic and task.isolation != "read committed":
            yield Error(
                f"{task.module_path}: atomic=True runs at READ COMMITTED, but {where} gives {alias!r} a stricter one.",
                hint='Say so with @task(atomic=True, isolation="read committed"), or do without atomic. (Processes of '
                'its own the task gets from its queue then: OPTIONS["queues"] = {name: {"isolation": "process"}}.)',
                id="djqueue.E005",
            )


def _server(backend: DjqueueBackend) -> Iterator[CheckMessage]:
    alias = backend.alias_of_database
    sql = "select current_setting('server_version_num')::int, current_setting('default_transaction_isolation')"
    ((version, isolation),) = db.rows(alias, sql)
    if version < OLDEST_POSTGRESQL * 10_000:
        yield Error(
            f"The database {alias!r} is PostgreSQL {version // 10_000}; djqueue needs {OLDEST_POSTGRESQL} or later.",
            id="djqueue.E008",
        )
    if isolation in ("repeatable read", "serializable"):
        yield from _atomic_tasks_that_do_not_say("the server or the role", backend)


def _is_postgresql(alias: str) -> bool:
    return alias in connections.settings and connections[alias].vendor == "postgresql"


def _options_of(backend: DjqueueBackend) -> str:
    return f"TASKS[{backend.alias!r}]['OPTIONS']"
