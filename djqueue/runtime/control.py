"""What a running handler can ask and say through its context: the worker's side of `JobContext`."""

from collections.abc import Callable

from djqueue.conf import Options
from djqueue.runtime.held import Held


class Control:
    """What a running handler can ask and say through its context."""

    __slots__ = ("_held", "_is_stopping", "_options")

    def __init__(self, held: Held, options: Options, is_stopping: Callable[[], bool]) -> None:
        self._held = held
        self._options = options
        self._is_stopping = is_stopping

    @property
    def lease_token(self) -> int:
        """The fencing token of this attempt."""
        return self._held.job.lease_token

    def cancelled(self) -> bool:
        """Tell whether the job was asked to cancel, or belongs to somebody else by now."""
        return self._held.is_cancel_requested or self._held.is_lost

    def stopping(self) -> bool:
        """Tell whether the worker is about to stop."""
        return self._is_stopping()

    def heartbeat(self) -> None:
        """Prove that a job without a time limit is alive."""
        self._held.prove_life(self._options.timeout_seconds)

    def remaining_seconds(self) -> float | None:
        """Return the seconds until the hard time limit."""
        return self._held.remaining_seconds()
