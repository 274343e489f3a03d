"""What an exception that came out of a handler means for the attempt."""

from dataclasses import replace
from typing import Any, assert_never

from djqueue.api.largeargs import ArgumentsMissing
from djqueue.exceptions import Cancel, Dead, JobCancelled, JobTimeout, Retry, Snooze
from djqueue.policy.arguments import ArgumentsInvalid
from djqueue.policy.errors import clean_text, describe
from djqueue.policy.payloads import UpgradeFailed
from djqueue.policy.signature import SignatureMismatch
from djqueue.policy.verdict import Kind, judge
from djqueue.runtime.held import BadPayload, Held
from djqueue.runtime.outcome import Cancelled, Failed, Outcome, Snoozed, Stale


def outcome_of(held: Held, error: BaseException) -> Outcome:
    """Return how the attempt has ended."""
    match error:
        case Snooze():
            return Snoozed(error.delay)
        case Cancel():
            return Cancelled(clean_text(error.reason, 1_000))
        case JobCancelled():
            return Cancelled("cancelled while it ran")
        case Dead():
            return failed(error, final_reason=clean_text(error.reason, 1_000) or "the handler gave up")
        case Retry():
            asked = failed(error, after_seconds=error.after)
            return replace(asked, is_transient=_is_transient(held.task, error.__cause__ or error.__context__))
        case JobTimeout():
            return failed(error, kind="timeout")
        case SignatureMismatch() | ArgumentsInvalid() | BadPayload() | UpgradeFailed() | ArgumentsMissing():
            return failed(error, kind="fault", final_reason=_permanent(error))
    if held.is_lost:
        return Stale()
    return _judged(held.task, error)


def failed(
    error: BaseException, *, kind: str = "error", after_seconds: float | None = None, final_reason: str = ""
) -> Failed:
    """Return a failed attempt with the text of its error."""
    return Failed(describe(error), kind=kind, after_seconds=after_seconds, final_reason=final_reason)


def _judged(task: Any, error: BaseException) -> Outcome:
    """Return what an exception means by the task's own classes, and by what is known of it."""
    verdict = judge(error, retry_on=task.retry_on, dead_on=task.dead_on, ignore_on=task.ignore_on)
    match verdict.kind:
        case Kind.IGNORED:
            return Cancelled(f"ignored: {describe(error).exception}")
        case Kind.PERMANENT:
            return failed(error, final_reason=_permanent(error))
        case Kind.TRANSIENT | Kind.UNKNOWN:
            is_transient = verdict.kind is Kind.TRANSIENT
            return replace(failed(error), at_least_seconds=verdict.after_seconds or 0, is_transient=is_transient)
        case _ as never:
            assert_never(never)


def _is_transient(task: Any, error: BaseException | None) -> bool:
    """Tell whether what a handler turned into a wish for a retry was trouble of what it called."""
    if error is None:
        return False
    verdict = judge(error, retry_on=task.retry_on, dead_on=task.dead_on, ignore_on=task.ignore_on)
    return verdict.kind is Kind.TRANSIENT


def _permanent(error: BaseException) -> str:
    return clean_text(f"permanent: {describe(error).message}", 1_000)
