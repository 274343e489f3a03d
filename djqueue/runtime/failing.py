"""How an attempt fails whose own process can't say so any more: it was lost, or ran past its limit."""

import random
from typing import Any

from djqueue.api import registry
from djqueue.policy.errors import FailureText, append_error
from djqueue.policy.retry import RetryPolicy, delay_seconds
from djqueue.runtime.causes import cause_of
from djqueue.runtime.plan import Plan
from djqueue.store import finish
from djqueue.store.recover import Overdue


class Failing:
    """How an attempt fails whose own process can't say so any more."""

    def __init__(self, plan: Plan) -> None:
        options = plan.options
        self._rng = random.Random()
        self._version = options.code_version
        self._default = RetryPolicy(base_seconds=options.retry_base_seconds, cap_seconds=options.retry_cap_seconds)

    def loss(self, row: Overdue, how: str) -> finish.Failure:
        """The process was lost: charged, a suspect from now on; the first time it is retried at once."""
        message = f"worker {row.leased_by} was lost while the job ran: {how}"
        delay = self._delay(row) if row.suspect else 0.0
        return self._failure(row, "lost", message, f"worker lost: {how}", delay, crash=True)

    def timeout(self, row: Overdue) -> finish.Failure:
        """It ran past its hard time limit."""
        return self._failure(row, "timeout", "ran past its hard time limit", "timeout", self._delay(row), crash=False)

    def _delay(self, row: Overdue) -> float:
        task: Any = registry.get(row.task_name)
        policy = None if task is None else task.retry
        return delay_seconds(policy, self._default, row.attempts, self._rng)

    def _failure(
        self, row: Overdue, kind: str, message: str, reason: str, delay: float, *, crash: bool
    ) -> finish.Failure:
        exception = "djqueue.WorkerLost" if crash else "djqueue.exceptions.JobTimeout"
        text = FailureText(exception=exception, message=message, traceback="")
        entry = {
            "attempt": row.attempts,
            "run": row.runs,
            "worker": row.leased_by,
            "kind": kind,
            "exception": exception,
            "message": message,
            "traceback": "",
            **({"version": self._version} if self._version else {}),
        }
        errors = append_error(row.errors, entry)
        return finish.Failure(
            id=row.id,
            lease_token=row.lease_token,
            entry=errors[-1],
            errors=errors[:-1],
            delay_seconds=delay,
            reason=reason,
            crash=crash,
            cause=cause_of(text, row.task_name, self._version),
        )
