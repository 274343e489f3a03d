"""How an attempt ended: the value at the end of the executor's pipe, matched exhaustively by the worker."""

from dataclasses import dataclass

from djqueue.policy.errors import FailureText


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned; the ack is still to be written."""

    result: str
    """JSON text."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The handler returned and its own transaction has acked."""

    result: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed."""

    failure: FailureText
    kind: str = "error"
    """`error`, `timeout`, `fault` or `lost`."""
    after_seconds: float | None = None
    """The handler's own wish for the delay; None: the task's policy decides."""
    at_least_seconds: float = 0
    """What the other side asked for (Retry-After); the policy may wait longer."""
    final_reason: str = ""
    """Not empty: the job is dead at once, for this reason."""
    reason: str = ""
    """Not empty: what a dead letter says in place of "attempts used up"."""
    is_transient: bool = False
    """What was called is known to be in trouble; counts against the job's circuit."""


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler wants to run again later; no attempt is used."""

    delay_seconds: float


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The handler ended the job, or obeyed a request to cancel."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The job was never started; it is given back uncharged."""


@dataclass(frozen=True, slots=True)
class Expired:
    """The job was claimed, but its time to be started has passed; it ends as cancelled, uncharged."""


@dataclass(frozen=True, slots=True)
class Stale:
    """The lease was lost while the handler ran; nothing more is written."""


Outcome = Succeeded | Committed | Failed | Snoozed | Cancelled | NotStarted | Expired | Stale
