"""For users' tests: run jobs in this process, in this transaction, through the same steps as a worker.

Works in TestCase (whose transaction is never committed), TransactionTestCase and pytest-django. Jobs are claimed,
their arguments make the same JSON round trip, failures are recorded, retried and made dead letters as by a worker. Only
what needs a process of its own is missing: time limits, and putting dirty connections in order.
"""

from collections import Counter
from dataclasses import dataclass
from uuid import uuid4

from asgiref.sync import sync_to_async

from djqueue.api import registry
from djqueue.compat import DEFAULT_TASK_BACKEND_ALIAS, task_signals
from djqueue.policy.payloads import version_of
from djqueue.runtime import tasks_signals
from djqueue.runtime.deaths import count_and_tell
from djqueue.runtime.executor import Executor
from djqueue.runtime.held import Held
from djqueue.runtime.outcome import Succeeded
from djqueue.runtime.settling import Settling
from djqueue.states import FINISHED
from djqueue.store import claim, deaths, finish, ordering, recover, step
from djqueue.testing.backends import djqueue_backend
from djqueue.testing.clock import Clock, freeze, travel
from djqueue.testing.enqueued import EnqueuedJob, assert_enqueued, assert_not_enqueued, enqueued_jobs
from djqueue.testing.idempotent import assert_idempotent
from djqueue.testing.standins import HereAndNow, NoPage, Untouched

__all__ = [
    "Clock",
    "EnqueuedJob",
    "Ran",
    "aassert_enqueued",
    "aassert_idempotent",
    "aassert_not_enqueued",
    "aenqueued_jobs",
    "arun_jobs",
    "assert_enqueued",
    "assert_idempotent",
    "assert_not_enqueued",
    "enqueued_jobs",
    "freeze",
    "run_jobs",
    "travel",
]

MOST = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What `run_jobs` has done: attempts by what became of the job (`succeeded`, `scheduled`, `dead`, …)."""

    states: dict[str, int]

    @property
    def attempts(self) -> int:
        """How many handlers ran."""
        return sum(self.states.values())

    @property
    def succeeded(self) -> int:
        """How many jobs ended well."""
        return self.states.get("succeeded", 0)


def run_jobs(
    queue_name: str | None = None,
    *,
    limit: int = MOST,
    due_now: bool = False,
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
) -> Ran:
    """Run ready jobs, and those that they enqueue, until none is left; return what became of them.

    `queue_name` None means all queues. `limit` bounds the attempts (a job that enqueues itself would never end).
    `due_now` treats delayed jobs and retries as due, so that a job runs until it has succeeded or is dead.
    """
    bench = _Bench(backend)
    while bench.attempts < limit and bench.turn(queue_name, due_now):
        pass
    bench.end()
    return Ran(states=dict(bench.states))


# The same in async tests: on the thread, and so on the connection, on which their other queries run.
arun_jobs = sync_to_async(run_jobs, thread_sensitive=True)
aenqueued_jobs = sync_to_async(enqueued_jobs, thread_sensitive=True)
aassert_enqueued = sync_to_async(assert_enqueued, thread_sensitive=True)
aassert_not_enqueued = sync_to_async(assert_not_enqueued, thread_sensitive=True)
aassert_idempotent = sync_to_async(assert_idempotent, thread_sensitive=True)


class _Bench:
    """One worker's steps in a row, without processes and threads."""

    def __init__(self, backend_alias: str) -> None:
        registry.load()
        options = djqueue_backend(backend_alias, "run_jobs").djqueue_options
        self._alias = options.database
        self._worker_id = str(uuid4())
        self._options = options
        self._settling = Settling(self._alias, options, self._worker_id, self._on_done)
        self._executor = Executor(self._alias, options, HereAndNow(), lambda: False, guard=Untouched())
        self.attempts = 0
        self.states: Counter[str] = Counter()

    def turn(self, queue_name: str | None, due_now: bool) -> bool:
        """Claim one job and run it; return whether there was one."""
        if due_now:
            recover.make_due(self._alias)
        recover.promote(self._alias)
        self._let_out()
        names = claim.queues_with_jobs(self._alias) if queue_name is None else [queue_name]
        jobs = step.claim_now(self._alias, self._request(), names)
        for job in jobs:
            self._run(job)
        return bool(jobs)

    def end(self) -> None:
        """Do what the leader of the workers does about jobs that died: groups and signals."""
        while count_and_tell(self._alias, self._options, lambda call: call()) >= deaths.BATCH:
            pass

    def _let_out(self) -> None:
        """Do what keepers do about ordering keys whose head has gone."""
        after: int | None = 0 if ordering.waits(self._alias) else None
        while after is not None:
            after = ordering.turn(self._alias, after).after

    def _request(self) -> claim.Request:
        return claim.Request(worker_id=self._worker_id, limit=1, free=1, lease_seconds=self._options.lease_seconds)

    def _run(self, job: claim.Claimed) -> None:
        task = registry.get(job.task_name)
        if task is None:
            raise LookupError(f"run_jobs: no task is called {job.task_name!r}; import the module that defines it")
        if version_of(job.options) > task.version:
            raise LookupError(
                f"run_jobs: expected version {task.version} of {job.task_name} or an older one, got a job "
                f"of version {version_of(job.options)}; workers set it aside until one has newer code"
            )
        held = Held(job, task, NoPage(), 0)  # type: ignore[arg-type]
        held.outcome = self._executor.run(held)
        self.attempts += 1
        self._settling.add(held)
        if isinstance(held.outcome, Succeeded):
            acks = self._settling.take_acks()
            self._settling.acked(acks, finish.ack(self._alias, acks, held.ended))
        self._settling.write_others()

    def _on_done(self, held: Held, state: str) -> None:
        self.states[str(state)] += 1
        if state in FINISHED and tasks_signals.wanted(task_signals.task_finished):
            tasks_signals.send_finished(held.task, held.job.id)
