"""What a running handler gets as its `context`: who it is, how long it has, whether it should end; and where it tells
how far it is, and from where another attempt may go on."""

import logging
import math
from collections.abc import MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from asgiref.sync import sync_to_async

from djqueue.compat import TaskContext
from djqueue.exceptions import seconds_of
from djqueue.logs import WHO
from djqueue.policy.texts import check_reason

if TYPE_CHECKING:
    AnyTaskContext = TaskContext[Any, Any]
    Adapter = logging.LoggerAdapter[logging.Logger]
else:
    AnyTaskContext = TaskContext
    Adapter = logging.LoggerAdapter

MESSAGE_LIMIT = 1_000


class JobControl(Protocol):
    """The live facts of one attempt, given by whoever runs it."""

    @property
    def lease_token(self) -> int:
        """The fencing token of this attempt."""

    @property
    def queue(self) -> str:
        """The queue that the job was claimed from."""

    def cancelled(self) -> bool:
        """Tell whether the job was asked to cancel, or belongs to somebody else by now."""

    def stopping(self) -> bool:
        """Tell whether the worker is about to stop."""

    def heartbeat(self) -> None:
        """Prove that a job without a time limit is alive."""

    def remaining_seconds(self) -> float | None:
        """Return the seconds until the hard time limit, None without one."""

    def progress(self, said: dict[str, Any], *, is_last: bool) -> None:
        """Write how far the job is, at most once a second."""

    def load_checkpoint(self) -> Any:
        """Return the last checkpoint of any attempt."""

    def save_checkpoint(self, value: Any) -> None:
        """Write a checkpoint."""

    def pause_limit(self, until: datetime | None, seconds: float, reason: str) -> bool:
        """Let nothing through the job's limit until a moment or for so many seconds; return whether there was one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext(AnyTaskContext):  # type: ignore[misc]
    """The first argument of a task with `takes_context=True`. `attempt` counts from 1."""

    control: JobControl

    @property
    def job_id(self) -> str:
        """The job's id, the same in every attempt."""
        return str(self.task_result.id)

    @property
    def idempotency_key(self) -> str:
        """What to hand to other systems so that a second attempt does nothing twice: the job's id."""
        return self.job_id

    @property
    def lease_token(self) -> int:
        """A number that grows with every attempt; who stores it beside an effect can refuse older attempts."""
        return self.control.lease_token

    @property
    def cancelled(self) -> bool:
        """True once the job was asked to cancel or lost its lease: clean up and raise `Cancel`."""
        return self.control.cancelled()

    @property
    def should_stop(self) -> bool:
        """True once the job was cancelled or the worker is about to stop: end soon, or `Snooze` to go on later."""
        return self.control.stopping() or self.control.cancelled()

    @property
    def remaining_seconds(self) -> float | None:
        """Seconds until the hard time limit (or until the next proof of life is due); never below 0."""
        seconds = self.control.remaining_seconds()
        return None if seconds is None else max(0.0, seconds)

    @property
    def deadline(self) -> datetime | None:
        """The moment of the hard time limit, by this machine's clock."""
        seconds = self.remaining_seconds
        return None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)

    def heartbeat(self) -> None:
        """Say that the job is alive. Needed where the task has `timeout_seconds=None`: within the backend's
        `timeout_seconds` of the last one. Nothing happens to other tasks."""
        self.control.heartbeat()

    def progress(self, done: float, total: float, message: str = "") -> None:
        """Say how far the job is, for people. A proof of life as well (see `heartbeat`).

        Written at most once a second, and always where `done` reaches `total`; seen at once, also from inside an open
        transaction. Raises `ValueError` for figures that are negative or not finite and for a message that is longer
        than 1,000 characters.
        """
        for name, value in (("done", done), ("total", total)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ValueError(f"progress: {name}: expected a number from 0 on, got {value!r}")
        check_reason("progress: message", message, MESSAGE_LIMIT)
        self.control.heartbeat()
        self.control.progress({"done": done, "total": total, "message": message}, is_last=done >= total)

    async def aprogress(self, done: float, total: float, message: str = "") -> None:
        """Say how far the job is; see `progress`."""
        await sync_to_async(self.progress, thread_sensitive=True)(done, total, message)

    @property
    def checkpoint(self) -> Any:
        """What `save_checkpoint` has saved last, in this attempt or an earlier one; None before the first."""
        return self.control.load_checkpoint()

    async def acheckpoint(self) -> Any:
        """Return what was saved last; see `checkpoint`."""
        return await sync_to_async(self.control.load_checkpoint, thread_sensitive=True)()

    def save_checkpoint(self, value: Any) -> None:
        """Keep JSON data (256 kB at most) from which another attempt goes on, whatever ends this one. One statement; in
        an open transaction it takes effect, or is rolled back, with that. A proof of life as well.

        Raises `LeaseLost` where the job belongs to another attempt by now, `ValueError` for data that is not JSON or
        too large, and in a task with `atomic=True`, whose effects no other attempt could go on from.
        """
        self.control.heartbeat()
        self.control.save_checkpoint(value)

    async def asave_checkpoint(self, value: Any) -> None:
        """Keep data for another attempt; see `save_checkpoint`."""
        await sync_to_async(self.save_checkpoint, thread_sensitive=True)(value)

    def pause_limit(self, until: datetime | timedelta | float, reason: str = "") -> None:
        """Let no job of this one's rate limit start until a moment (aware), or for so long (a timedelta, or seconds):
        until the partner's reset time, say. Without a rate limit, its concurrency limit. It counts at once, also where
        the handler's transaction is rolled back; jobs that run go on; an earlier pause that is longer stays.

        Raises `ValueError` for a task without such a limit.
        """
        if isinstance(until, datetime):
            if until.tzinfo is None:
                raise ValueError(f"pause_limit: expected an aware datetime, a timedelta or seconds, got {until!r}")
            had = self.control.pause_limit(until, 0, reason)
        else:
            had = self.control.pause_limit(None, seconds_of(until, "pause_limit"), reason)
        if not had:
            raise ValueError("pause_limit: expected a job with a rate_limit or a concurrency_limit, got one with none")

    @property
    def log(self) -> Adapter:
        """A logger of the task's module that adds the job's id and task to every line, and to its record (as
        `record.djqueue`, for formatters) also the queue and the attempt."""
        task = self.task_result.task
        queue, attempt = self.control.queue, self.attempt
        who = {"job_id": self.job_id, "task": task.module_path, "queue": queue, "attempt": attempt}
        return _JobLog(logging.getLogger(task.func.__module__), who)


class _JobLog(Adapter):
    """Adds who is speaking to every line."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        who = dict(self.extra or {})
        kwargs["extra"] = {**(kwargs.get("extra") or {}), WHO: who}
        return f"{msg} job={who['job_id']} task={who['task']}", kwargs
