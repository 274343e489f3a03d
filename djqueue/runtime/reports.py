"""From an outcome to what the row will say of it: entry, earlier entries cut to size, delay, reason and cause.

Invariant: whatever is written for people has passed the project's redaction.
"""

import random
from typing import Any

from djqueue.api.redaction import Redaction
from djqueue.conf import Options
from djqueue.policy.errors import FailureText, append_error, stored_errors
from djqueue.policy.retry import RetryPolicy, delay_seconds
from djqueue.runtime.causes import cause_of
from djqueue.runtime.held import Held
from djqueue.runtime.outcome import Failed
from djqueue.store import finish

REASON_LIMIT = 1_000


class Reports:
    """Makes the reports of one worker."""

    def __init__(self, options: Options, worker_id: str) -> None:
        self._options = options
        self._worker_id = worker_id
        self._redaction = Redaction(options.redact)
        self._rng = random.Random()
        self._default_retry = RetryPolicy(
            base_seconds=options.retry_base_seconds, cap_seconds=options.retry_cap_seconds
        )

    def failure(self, held: Held, failed: Failed) -> finish.Failure:
        """Return how a failed attempt is written."""
        before = stored_errors(held.job.errors)
        delay = self._delay(held, failed, before)
        text = self._redaction.failure(held.job.task_name, failed.failure)
        entry = self._entry(held, failed.kind, text) | {"retry_in": round(delay, 3)}
        errors = append_error(before, entry)
        return finish.Failure(
            id=held.job.id,
            lease_token=held.job.lease_token,
            entry=errors[-1],
            errors=errors[:-1],
            delay_seconds=delay,
            final=bool(failed.final_reason),
            reason=self._redaction.text("reason", held.job.task_name, failed.final_reason, REASON_LIMIT)
            or failed.reason
            or ("timeout" if failed.kind == "timeout" else "attempts used up"),
            began_ago=max(0.0, held.ended - held.began),
            cause=cause_of(text, held.job.task_name, self._options.code_version),
        )

    def cancellation(self, held: Held, reason: str) -> finish.Failure:
        """Return how a cancelled attempt is written."""
        reason = self._redaction.text("reason", held.job.task_name, reason, REASON_LIMIT)
        entry = self._entry(held, "cancelled", FailureText(exception="djqueue.Cancel", message=reason, traceback=""))
        return finish.Failure(
            id=held.job.id,
            lease_token=held.job.lease_token,
            entry=entry,
            errors=stored_errors(held.job.errors),
            cancel=True,
            reason=reason,
            began_ago=max(0.0, held.ended - held.began),
        )

    def _delay(self, held: Held, failed: Failed, before: list[dict[str, Any]]) -> float:
        """Return the wait before the next attempt: as the handler wished, or as the policy and the other side say."""
        if failed.after_seconds is not None:
            return failed.after_seconds
        previous = before[-1].get("retry_in") if before else None
        attempt = held.job.attempts
        delay = delay_seconds(held.task.retry, self._default_retry, attempt, self._rng, previous)
        return max(delay, failed.at_least_seconds)

    def _entry(self, held: Held, kind: str, text: FailureText) -> dict[str, Any]:
        return {
            "attempt": held.job.attempts,
            "run": held.job.runs,
            "worker": self._worker_id,
            "kind": kind,
            "exception": text.exception,
            "message": text.message,
            "traceback": text.traceback,
            "seconds": round(held.ended - held.began, 3),
            **({"version": self._options.code_version} if self._options.code_version else {}),
        }
