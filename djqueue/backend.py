"""The backend of Django's Tasks framework: from a task and its arguments to a row, and from an id to a result.

On a job's road it stands between the task and `store.enqueue`. Invariant: a job is written in the caller's transaction
on the queue's database, or refused at once; nothing waits for a commit hook.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any
from uuid import UUID

from django.apps import apps
from django.core import checks
from django.db import OperationalError, ProgrammingError, connections, transaction

from djqueue.api import arguments, kept, lanes, largeargs, options, registry, results
from djqueue.api.options import Timeout
from djqueue.api.results import JobResult
from djqueue.api.task import DjqueueTask
from djqueue.compat import TASKS_LOGGER, BaseTaskBackend, InvalidTask, TaskResultDoesNotExist, task_signals
from djqueue.conf import Options, nearest
from djqueue.exceptions import ConfigurationError, TransactionError, seconds_of
from djqueue.policy.ids import uuid7
from djqueue.states import OnConflict, OnDead
from djqueue.store import conflict, faults
from djqueue.store import enqueue as store
from djqueue.store import results as store_results
from djqueue.store.conflict import Terms
from djqueue.store.enqueue import Enqueued, NewJob

_tasks_log = logging.getLogger(TASKS_LOGGER)

ORDER_ADVICE = (
    "; two transactions held dedupe keys that the other wanted, or this one runs above READ COMMITTED: enqueue keys in "
    "one order (one enqueue_many sorts them), enqueue late in the transaction, use READ COMMITTED, or run the "
    "transaction again"
)
INSTALL_ADVICE = 'Add "djqueue" to INSTALLED_APPS; it brings the tables, the commands and the other checks.'
MIGRATE_ADVICE = "; djqueue's tables are missing in the database {alias!r}: run manage.py migrate"


class DjqueueBackend(BaseTaskBackend):
    """Keeps jobs in PostgreSQL, in the database that `OPTIONS["database"]` names."""

    task_class = DjqueueTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._parsed, self.problems = Options.parse(self.options)

    def validate_task(self, task: Any) -> None:
        """Raise `InvalidTask` for a task that can't be enqueued here, with a remedy where the framework names none."""
        options.check_values_of_framework(task)
        if self.queues and task.queue_name not in self.queues:
            known = ", ".join(sorted(map(str, self.queues)))
            raise InvalidTask(
                f"{task.module_path}: Queue {task.queue_name!r} is not valid for backend {self.alias!r}: expected one "
                f"of {known}{nearest(str(task.queue_name), [str(name) for name in self.queues])}; queues are listed in "
                f"TASKS[{self.alias!r}]['QUEUES'] (an empty list allows any name)"
            )
        super().validate_task(task)

    @cached_property
    def djqueue_options(self) -> Options:
        """The backend's options; raises `ConfigurationError` with all problems where there are any."""
        if self.problems:
            said = "\n".join(f"- {problem}" for problem in self.problems)
            raise ConfigurationError(f"TASKS[{self.alias!r}]['OPTIONS']:\n{said}")
        if not apps.is_installed("djqueue"):
            raise ConfigurationError(f"TASKS[{self.alias!r}] uses djqueue, which is not installed. {INSTALL_ADVICE}")
        return self._parsed

    @property
    def task_modules(self) -> tuple[str, ...]:
        """Modules with tasks besides those of the installed apps."""
        return self._parsed.task_modules

    @property
    def alias_of_database(self) -> str:
        """The database of the jobs, also where other options are wrong."""
        return self._parsed.database

    @property
    def redact(self) -> str:
        """The dotted path of the redact hook, or nothing."""
        return self._parsed.redact

    @property
    def large_args(self) -> str:
        """The alias of the storage for large arguments, or nothing."""
        return self._parsed.large_args

    @property
    def queues_with_settings(self) -> list[str]:
        """The queues that the option `queues` names."""
        return sorted(self._parsed.queues)

    @property
    def circuits_with_settings(self) -> list[str]:
        """The circuits that the option `circuits` names."""
        return list(self._parsed.circuits)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> JobResult:
        """Write one job in the open transaction of the queue's database: one statement."""
        settings = self.ready_for(task)
        terms = _terms(task)
        if terms is not None:
            return self._enqueue_on_terms(task, [(args, kwargs)], settings, terms)[0]
        job = self._new_job(task, args, kwargs, settings)
        with _dropping([job]), _advice(settings.database, job.dedupe_key is not None):
            answer = store.enqueue(settings.database, job, prepared=settings.prepared_statements)
        return self._enqueued(task, job, answer)

    def enqueue_many(self, task: Any, rows: Iterable[object]) -> list[JobResult]:
        """Write many jobs, all or none; answer in the order of the rows."""
        settings = self.ready_for(task)
        terms = _terms(task)
        if terms is not None:
            return self._enqueue_on_terms(task, [arguments.split(task, row) for row in rows], settings, terms)
        jobs = [self._new_job(task, *arguments.split(task, row), settings) for row in rows]
        order = _writing_order(jobs)
        has_keys = any(job.dedupe_key is not None for job in jobs)
        with _dropping(jobs), _advice(settings.database, has_keys), _together(settings.database, jobs):
            answers = list(store.enqueue_many(settings.database, (jobs[i] for i in order)))
        by_place = dict(zip(order, answers, strict=True))
        return [self._enqueued(task, job, by_place[i]) for i, job in enumerate(jobs)]

    def _enqueue_on_terms(
        self, task: Any, rows: Sequence[tuple[arguments.Args, arguments.Kwargs]], settings: Options, terms: Terms
    ) -> list[JobResult]:
        """Write jobs whose duplicates are not just ignored, in one transaction."""
        jobs = [self._new_job(task, args, kwargs, settings) for args, kwargs in rows]
        order = _writing_order(jobs)
        alias = settings.database
        # What raises must leave the caller's transaction usable.
        is_point = terms.mode is OnConflict.RAISE
        with _dropping(jobs), _advice(alias, True), transaction.atomic(using=alias, savepoint=is_point):
            answers = conflict.enqueue_all(alias, [jobs[i] for i in order], terms)
        by_place = dict(zip(order, answers, strict=True))
        return [self._enqueued(task, job, by_place[i]) for i, job in enumerate(jobs)]

    def get_result(self, result_id: str) -> JobResult:
        """Return the job with this id, wherever it is; raise `TaskResultDoesNotExist` where there is none."""
        id_ = _parsed_id(result_id)
        job = store_results.find(self.djqueue_options.database, [id_]).get(id_)
        if job is None:
            raise TaskResultDoesNotExist(result_id)
        return results.found(_task_of(job.task_name, result_id), job, self.alias)

    def check(self, **kwargs: Any) -> list[checks.CheckMessage]:
        """Report every problem of this backend's options; `djqueue.checks` looks at the rest."""
        where = f"TASKS[{self.alias!r}]"
        wrong = [checks.Error(f"{where}['OPTIONS']: {each}.", id="djqueue.E001") for each in self.problems]
        if not apps.is_installed("djqueue"):
            said = f"{where} uses djqueue, which is not installed."
            wrong.append(checks.Error(said, hint=INSTALL_ADVICE, id="djqueue.E002"))
        return list(wrong)

    def ready_for(self, task: Any) -> Options:
        """Refuse what can't be enqueued now; return the options."""
        settings = self.djqueue_options
        if not isinstance(task, DjqueueTask):
            raise InvalidTask(
                f"{task.module_path}: expected a task of a djqueue backend, got one that was declared for another "
                "backend, which workers would not know; declare it with djqueue.task, or with this backend"
            )
        self.validate_task(task)
        if not task.outside_transaction and not connections[settings.database].in_atomic_block:
            _refuse_other_transaction(task, settings.database)
        return settings

    def _new_job(self, task: Any, args: arguments.Args, kwargs: arguments.Kwargs, settings: Options) -> NewJob:
        timeout = task.timeout_seconds
        placed = lanes.place(task, args, kwargs)
        id_, given = uuid7(), arguments.frozen(task, args, kwargs, largeargs.limit(task, settings))
        job = NewJob(
            id=id_,
            queue_name=task.queue_name,
            task_name=task.module_path,
            args=given,
            priority=task.priority,
            run_at=task.run_after,
            delay_seconds=_delay_seconds(task),
            dedupe_key=arguments.dedupe_key(task, args, kwargs),
            ordering_key=arguments.ordering_key(task, args, kwargs),
            on_dead=OnDead.BLOCK if task.on_dead == "block" else OnDead.SKIP,
            max_attempts=task.max_attempts or settings.max_attempts,
            expires_seconds=None if task.expires_after is None else seconds_of(task.expires_after, "expires_after"),
            timeout_seconds=settings.timeout_seconds if timeout is Timeout.OF_BACKEND else timeout,
            options=kept.options(task, args, kwargs, placed.limits),
            lane=placed.lane,
            tenant_id=placed.tenant_id,
        )
        written = largeargs.put(task, id_, given, settings)
        return job if written is given else replace(job, args=written, given=given)

    def _enqueued(self, task: Any, job: NewJob, answer: Enqueued) -> JobResult:
        if job.given and not answer.created:
            largeargs.drop(job.args)
        result = results.fresh(task, answer, job.given or job.args, self.alias)
        signal = task_signals.task_enqueued
        # The framework's own receiver writes a debug line; nobody else listens as a rule. What a receiver raises is
        # logged by Django: the job is written, and an error here would say that it is not.
        if answer.created and (len(signal.receivers) > 1 or _tasks_log.isEnabledFor(logging.DEBUG)):
            signal.send_robust(sender=type(self), task_result=result)
        return result


def _refuse_other_transaction(task: Any, alias: str) -> None:
    """Raise where a transaction is open on other databases only: it would not contain the job."""
    for other in connections.all(initialized_only=True):
        if other.in_atomic_block:
            raise TransactionError(
                f"{task.module_path}: a transaction is open on {other.alias!r}, but jobs are written to {alias!r}, so "
                f"that the job would stay if the transaction were rolled back; open the transaction on {alias!r} as "
                f"well (or keep djqueue's tables in {other.alias!r}), or say .using(outside_transaction=True)"
            )


@contextmanager
def _dropping(jobs: Iterable[NewJob]) -> Iterator[None]:
    """Leave no files of jobs that were not written."""
    try:
        yield
    except BaseException:
        for job in jobs:
            if job.given:
                largeargs.drop(job.args)
        raise


def _terms(task: Any) -> Terms | None:
    """What a call does about duplicates; None: it ignores them."""
    if task.on_conflict == "ignore" and task.unique_for is None and task.debounce is None:
        return None
    arguments.check_terms(task)
    mode = OnConflict(task.on_conflict)
    if task.debounce is not None and mode is OnConflict.IGNORE:
        mode = OnConflict.RESCHEDULE
    return Terms(
        mode=mode,
        unique_seconds=None if task.unique_for is None else seconds_of(task.unique_for, "unique_for"),
        longest_seconds=None if task.debounce_max is None else seconds_of(task.debounce_max, "debounce_max"),
    )


def _delay_seconds(task: Any) -> float:
    if task.debounce is None:
        return 0 if task.run_in is None else float(task.run_in.total_seconds())
    wait = seconds_of(task.debounce, "debounce")
    return wait if task.debounce_max is None else min(wait, seconds_of(task.debounce_max, "debounce_max"))


def _writing_order(jobs: Sequence[NewJob]) -> list[int]:
    """One order for all statements of a call, as each of them has within itself: by dedupe keys, so that no two calls
    can deadlock. With ordering keys the rows' own order is promised and goes before."""
    places = range(len(jobs))
    if any(job.ordering_key is not None for job in jobs):
        return list(places)
    return sorted(places, key=lambda i: (jobs[i].dedupe_key is None, jobs[i].dedupe_key or ""))


def _together(alias: str, jobs: Sequence[NewJob]) -> AbstractContextManager[Any]:
    """One transaction, where one statement does not do."""
    if len(jobs) <= store.CHUNK and sum(len(job.args) for job in jobs) <= store.CHUNK_CHARACTERS:
        return nullcontext()
    return transaction.atomic(using=alias, savepoint=False)


@contextmanager
def _advice(alias: str, has_keys: bool) -> Iterator[None]:
    """Add advice to the error where the tables are missing, or enqueues with keys got in each other's way."""
    try:
        yield
    except ProgrammingError as error:
        if faults.is_missing_table(error):
            said = str(error).strip().splitlines()[0]
            raise ProgrammingError(said + MIGRATE_ADVICE.format(alias=alias)) from error
        raise
    except OperationalError as error:
        if has_keys and faults.should_repeat(error):
            raise OperationalError(f"{str(error).rstrip()}{ORDER_ADVICE}") from error
        raise


def _parsed_id(result_id: object) -> UUID:
    try:
        return result_id if isinstance(result_id, UUID) else UUID(result_id)  # type: ignore[arg-type]
    except (ValueError, TypeError, AttributeError):
        raise TaskResultDoesNotExist(result_id) from None


def _task_of(name: str, result_id: object) -> Any:
    task = registry.get(name)
    if task is None:
        registry.load()
        task = registry.get(name)
    if task is None:
        raise TaskResultDoesNotExist(
            f"{result_id}: the job exists, but this process knows no task {name!r}; import its module, name it in the "
            "option task_modules, or give the renamed task the alias"
        )
    return task
