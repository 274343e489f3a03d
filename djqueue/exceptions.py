"""Every exception of djqueue, in one tree.

DjqueueError
├── ConfigurationError         a setting or option is wrong (also an ImproperlyConfigured)
├── EnqueueError               a job was refused before anything was written
│   ├── ArgumentsError         arguments that are not JSON, too large, or do not fit the task
│   ├── DuplicateJob           a job holds the dedupe key, and the task says on_conflict="raise"
│   └── TransactionError       an open transaction on another database would not contain the job
├── WaitTimeout                `result.wait()` has run out of time, the job has not ended (also a TimeoutError)
├── LeaseLost                  the lease ended while its holder still worked; nothing was changed
├── HandlerFault               a handler broke a rule of the house (left a transaction open, returned no JSON, …)
├── JobTimeout                 raised inside a handler that ran past its hard timeout
└── JobCancelled               raised inside a handler whose job was asked to cancel

JobSignal                      raised by a handler to say how its attempt ends
├── Retry(after)               try again later; counts as a failed attempt
├── Snooze(delay)              try again later; uses no attempt
├── Dead(reason)               never try again; becomes a dead letter
└── Cancel(reason)             end quietly; goes to history as cancelled
"""

from datetime import timedelta

from django.core.exceptions import ImproperlyConfigured


class DjqueueError(Exception):
    """The root of what djqueue raises by itself."""


class ConfigurationError(DjqueueError, ImproperlyConfigured):
    """A setting or an option is wrong; the message says what was expected and what to do."""


class EnqueueError(DjqueueError):
    """A job was refused before anything was written."""


class ArgumentsError(EnqueueError, TypeError, ValueError):
    """The arguments do not fit the task's signature, are not JSON, or are too large."""


class DuplicateJob(EnqueueError):
    """A job holds the dedupe key (`holder`: its id), and the call said `on_conflict="raise"`."""

    def __init__(self, *, task_name: str, dedupe_key: str, holder: str) -> None:
        super().__init__(
            f"{task_name}: expected a free dedupe key, but job {holder} holds {dedupe_key!r}; nothing was written"
        )
        self.dedupe_key = dedupe_key
        self.holder = holder


class TransactionError(EnqueueError):
    """An open transaction on another database would not contain the job."""


class WaitTimeout(DjqueueError, TimeoutError):
    """A job had not ended when the time to wait for it was over. `status` is how it stood, in Django's words."""

    def __init__(self, *, job_id: str, status: str, seconds: float) -> None:
        super().__init__(f"wait: expected job {job_id} to end within {seconds:g} seconds, but it is still {status}")
        self.job_id = job_id
        self.status = status


class LeaseLost(DjqueueError):
    """The lease of a job ended while its holder still worked on it. What it tried to write was not written."""


class HandlerFault(DjqueueError):
    """A handler broke a rule: it left a transaction open or aborted, or returned what can't be stored as JSON."""


class JobInterrupt(BaseException):
    """Sent into a running handler. Clean up and let it pass: whoever swallows it loses the whole process soon after."""


class JobTimeout(JobInterrupt):
    """The handler ran past its hard time limit."""

    def __init__(self, message: str = "ran past its hard time limit") -> None:
        super().__init__(message)


class JobCancelled(JobInterrupt):
    """The job was asked to cancel."""

    def __init__(self, message: str = "asked to cancel while it ran") -> None:
        super().__init__(message)


class JobSignal(Exception):
    """What a handler raises to say how its attempt ends."""


def seconds_of(value: float | timedelta, what: str) -> float:
    """Return a duration in seconds, at least 0 and at most ten years; raise `ValueError` or `TypeError` with what was
    expected otherwise."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what}: expected seconds (int or float) or a timedelta, got {type(value).__name__}")
    if not 0 <= value <= 315_360_000:
        raise ValueError(f"{what}: expected between 0 and 315,360,000 seconds (ten years), got {value!r}")
    return float(value)


class Retry(JobSignal):
    """Fail this attempt and try again: after `after` seconds (or a timedelta), or as the task's policy says."""

    def __init__(self, after: float | timedelta | None = None, reason: str = "") -> None:
        super().__init__(reason or "the handler asked for a retry")
        self.after = None if after is None else seconds_of(after, "Retry(after=…)")


class Snooze(JobSignal):
    """Run again after `delay` seconds (or a timedelta) without using up an attempt."""

    def __init__(self, delay: float | timedelta) -> None:
        self.delay = seconds_of(delay, "Snooze(delay)")
        super().__init__(f"snoozed for {self.delay:g} seconds")


class Dead(JobSignal):
    """Make the job a dead letter at once; `reason` is shown to people."""

    def __init__(self, reason: str = "the handler gave up") -> None:
        super().__init__(reason)
        self.reason = reason


class Cancel(JobSignal):
    """End the job as cancelled; `reason` is kept with it."""

    def __init__(self, reason: str = "the handler cancelled the job") -> None:
        super().__init__(reason)
        self.reason = reason
