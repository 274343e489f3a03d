"""`assert_idempotent`: deliver a job as a bad day would, and compare what is in the tables.

    crash    effect, then nobody acks; the job runs again
    twice    done and acked, and delivered once more with the same token
    late     an older attempt, whose lease has gone to another, runs after that one has ended
    at once  two attempts side by side, the older one with a stale token      only where the test really commits

A handler that writes nothing but to its database with `atomic=True` passes: the queue takes back what a crashed or a
stale attempt has done. Any other has to see by itself that its effect is there already.
"""

import threading
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from django.db import connections, models

from djqueue.api import registry
from djqueue.backend import DjqueueBackend
from djqueue.policy.errors import FailureText
from djqueue.runtime.executor import Executor
from djqueue.runtime.held import Held
from djqueue.runtime.outcome import Committed, Failed, Outcome, Succeeded
from djqueue.runtime.settling import Settling
from djqueue.store import claim, finish, lease, recover, step
from djqueue.testing.badday import Abreast, Crashing, undone
from djqueue.testing.contents import Contents, Snapshot, difference
from djqueue.testing.standins import HereAndNow, NoPage, Untouched

MOST = 1_000
"""Other ready jobs of the queue that may stand before the one in question."""

REMEDIES = (
    "Let the handler see that its effect is there already (a unique constraint, get_or_create, a check under a lock), "
    "or write to the job's database only and declare it with @task(atomic=True)."
)


def assert_idempotent(
    task: Any,
    *args: Any,
    tables: Sequence[type[models.Model] | str],
    ignore_columns: Sequence[str] = (),
    **kwargs: Any,
) -> None:
    """Run a task's handler with these arguments as at-least-once delivery may, and compare the contents of `tables`.

    It is run with a crash between its effect and the ack, delivered again after the ack, and late with a stale token;
    where the test really commits (TransactionTestCase, `transactional_db`) also twice at once. After each of them the
    tables must hold what a single run leaves. `ignore_columns` are not compared (a counter of calls, `auto_now`).

    Raises AssertionError with the rows that are too many (`+`) or missing (`-`). In a TestCase nothing of it stays; in
    others the effect of one run does, and its jobs.
    """
    trial = _Trial(task, args, kwargs, tables, ignore_columns)
    if connections[trial.alias].in_atomic_block:
        for scenario in (trial.crash, trial.twice, trial.late):
            with undone(trial.alias):
                scenario()
        return
    with undone(trial.alias):
        once = trial.once()
    trial.at_once(once)
    for scenario in (trial.crash, trial.twice, trial.late):
        scenario()


class _Trial:
    """One task with its arguments, and the tables that tell."""

    def __init__(
        self,
        task: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        tables: Sequence[type[models.Model] | str],
        ignored: Sequence[str],
    ) -> None:
        backend = task.get_backend()
        if not isinstance(backend, DjqueueBackend):
            raise TypeError(
                f"assert_idempotent: expected a task of a djqueue backend, got one of {type(backend).__name__}; "
                "let the test's TASKS setting name djqueue.backend.DjqueueBackend"
            )
        registry.load()
        self._task = task
        self._args = args
        self._kwargs = kwargs
        self._options = backend.djqueue_options
        self.alias = self._options.database
        self._contents = Contents(self.alias, tables, ignored)
        self._worker_id = str(uuid4())
        self._job_id = ""

    # ------------------------------------------------------------------ the scenarios

    def once(self) -> Snapshot:
        """Run it in the ordinary way."""
        self._enqueue()
        self._run_well(self._claim(), "it must succeed when it runs for the first time")
        return self._look()

    def crash(self) -> None:
        """Let it do its work, end before the ack, and run again."""
        self._enqueue()
        before = self._look()
        held = self._claim()
        Crashing(self.alias, self._options).run(held)
        after_crash = self._look()
        self._lose(held)
        self._run_well(self._claim(), "it must succeed when it runs again after a crash between its effect and the ack")
        if self._task.atomic:
            self._compare(before, after_crash, "a crash before the ack left something of an atomic handler")
        else:
            self._compare(after_crash, self._look(), "run again after a crash between its effect and the ack")

    def twice(self) -> None:
        """Let it succeed, and deliver it once more."""
        self._enqueue()
        held = self._claim()
        self._run_well(held, "it must succeed when it runs for the first time")
        once = self._look()
        self._run(self._again(held))
        self._compare(once, self._look(), "delivered twice")

    def late(self) -> None:
        """Let an attempt that has lost its lease run after the one that has it."""
        self._enqueue()
        stale = self._claim()
        self._lose(stale)
        self._run_well(self._claim(), "it must succeed when it runs for the first time")
        once = self._look()
        self._run(stale)
        self._compare(once, self._look(), "run late with a stale token, after another attempt")

    def at_once(self, once: Snapshot) -> None:
        """Run two attempts side by side, one of them with a stale token."""
        self._enqueue()
        stale = self._claim()
        self._lose(stale)
        both = [stale, self._claim()]
        abreast = Abreast()
        threads = [threading.Thread(target=self._beside, args=(held, abreast)) for held in both]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._compare(once, self._look(), "run twice at once, by one attempt with a stale token", like=True)

    # ------------------------------------------------------------------ the steps

    def _enqueue(self) -> None:
        result = self._task.enqueue(*self._args, **self._kwargs)
        if not getattr(result, "created", True):
            raise AssertionError(
                f"{self._name}: expected a new job, but an unfinished one holds its dedupe key; let that one end first"
            )
        self._job_id = str(result.id)

    def _claim(self) -> Held:
        """Claim the job; give back what else was ready before it."""
        recover.make_due(self.alias)
        recover.promote(self.alias)
        request = claim.Request(
            worker_id=self._worker_id, limit=MOST, free=MOST, lease_seconds=self._options.lease_seconds
        )
        jobs = step.claim_now(self.alias, request, [self._task.queue_name])
        others = [lease.Lease(job.id, job.lease_token) for job in jobs if str(job.id) != self._job_id]
        if others:
            lease.release(self.alias, others)
        for job in jobs:
            if str(job.id) == self._job_id:
                return self._held(job)
        raise AssertionError(
            f"{self._name}: expected its job to be claimable, but it is not: is its queue, task or tenant paused, does "
            "another job hold its ordering key or its limit, or has it expired?"
        )

    def _held(self, job: claim.Claimed) -> Held:
        return Held(job, registry.get(job.task_name), NoPage(), 0)  # type: ignore[arg-type]

    def _again(self, held: Held) -> Held:
        return self._held(held.job)

    def _run(self, held: Held) -> Outcome:
        """Run it and ack it, as a worker does."""
        held.outcome = Executor(self.alias, self._options, HereAndNow(), lambda: False, guard=Untouched()).run(held)
        if isinstance(held.outcome, Succeeded):
            settling = self._settling()
            settling.add(held)
            finish.ack(self.alias, settling.take_acks(), held.ended)
        return held.outcome

    def _run_well(self, held: Held, wish: str) -> None:
        outcome = self._run(held)
        if not isinstance(outcome, Succeeded | Committed):
            said = outcome.failure.traceback if isinstance(outcome, Failed) else repr(outcome)
            raise AssertionError(f"{self._name}: {wish}, but it ended so:\n{said}{_advice(said)}")

    def _beside(self, held: Held, abreast: "Abreast") -> None:
        try:
            with connections[self.alias].execute_wrapper(abreast):
                self._run(held)
        finally:
            abreast.leave()
            connections.close_all()

    def _lose(self, held: Held) -> None:
        """Write what the queue writes when an attempt's process is lost: charged, and ready again."""
        settling = self._settling()
        text = FailureText(exception="djqueue.WorkerLost", message="lost by the test", traceback="")
        held.outcome = Failed(text, kind="lost", after_seconds=0)
        settling.add(held)
        settling.write_others()

    def _settling(self) -> Settling:
        return Settling(self.alias, self._options, self._worker_id, lambda held, state: None)

    def _look(self) -> Snapshot:
        return self._contents.snapshot(self._job_id)

    def _compare(self, expected: Snapshot, found: Snapshot, what: str, *, like: bool = False) -> None:
        pair = (expected.like, found.like) if like else (expected.exact, found.exact)
        said = difference(*pair)
        if said:
            raise AssertionError(
                f"{self._name} is not idempotent: {what}, it leaves something else than a single run:\n{said}\n"
                f"(+ too much, - missing) {REMEDIES}"
            )

    @property
    def _name(self) -> str:
        return str(self._task.module_path)


def _advice(said: str) -> str:
    if "TransactionManagementError" not in said and "InFailedSqlTransaction" not in said:
        return ""
    return (
        "\nIn a TestCase all runs share one transaction: put transaction.atomic() around the statement that the "
        "database may refuse, or use a TransactionTestCase."
    )
