"""What a running handler can ask and say through its context: the worker's side of `JobContext`."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from djqueue.conf import Options
from djqueue.policy.gates import Gate, gates
from djqueue.runtime.account import Account
from djqueue.runtime.held import Held
from djqueue.store import limits


class Control:
    """What a running handler can ask and say through its context."""

    __slots__ = ("_account", "_held", "_is_stopping", "_options")

    def __init__(self, held: Held, options: Options, is_stopping: Callable[[], bool]) -> None:
        self._held = held
        self._options = options
        self._is_stopping = is_stopping
        self._account = Account(options.database, held)

    @property
    def lease_token(self) -> int:
        """The fencing token of this attempt."""
        return self._held.job.lease_token

    @property
    def queue(self) -> str:
        """The queue that the job was claimed from."""
        return self._held.job.queue_name

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

    def pause_limit(self, until: datetime | None, seconds: float, reason: str) -> bool:
        """Let nothing through the job's limit until a moment or for so many seconds; return whether there was one."""
        names = [name for name in gates(self._held.job.lane) if name[0] == Gate.RATE]
        names = names or [name for name in gates(self._held.job.lane) if name[0] == Gate.CONCURRENCY]
        if names:
            limits.pause_apart(self._options.database, names, until=until, seconds=seconds, reason=reason)
        return bool(names)

    def progress(self, said: dict[str, Any], *, is_last: bool) -> None:
        """Write how far the job is, at most once a second."""
        self._account.tell(said, is_last=is_last)

    def load_checkpoint(self) -> Any:
        """Return the last checkpoint of any attempt."""
        return self._account.load()

    def save_checkpoint(self, value: Any) -> None:
        """Write a checkpoint."""
        self._account.save(value)
