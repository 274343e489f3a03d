"""Running one job: a pipe of steps over one value, ending in an Outcome.

    start ─► arguments ─► handler (in its own context; atomic: in its own transaction) ─► result ─► reset ─► Outcome

Invariant: whatever a handler does, raises or leaves behind, there is an Outcome, and the thread and its connections are
as before. Only text leaves here: no exception object survives its job.
"""

import contextvars
import inspect
import logging
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, assert_never

from django.db import connections, transaction

from djqueue.api.context import JobContext
from djqueue.compat import task_signals
from djqueue.conf import Options
from djqueue.exceptions import Cancel, Dead, HandlerFault, JobCancelled, JobTimeout, LeaseLost, Retry, Snooze
from djqueue.policy.arguments import ArgumentsInvalid, freeze_value
from djqueue.policy.errors import FailureText, clean_text, describe
from djqueue.policy.signature import SignatureMismatch, bind
from djqueue.policy.verdict import Kind, judge
from djqueue.runtime import handler_db, tasks_signals
from djqueue.runtime.async_loop import AsyncLoop
from djqueue.runtime.held import BadPayload, Held
from djqueue.runtime.outcome import (
    Cancelled,
    Committed,
    Expired,
    Failed,
    NotStarted,
    Outcome,
    Snoozed,
    Stale,
    Succeeded,
)
from djqueue.store import db, finish, lease

log = logging.getLogger("djqueue")

LONG_ATOMIC_SECONDS = 10.0
"""An atomic handler that takes longer is warned about."""


class Guard(Protocol):
    """What watches over the connections that handlers use: `handler_db`, or what a test puts in its place."""

    def check_before(self) -> None: ...

    def reset_after(self) -> str: ...


class Isolating(Protocol):
    """What runs some of the jobs elsewhere: `isolation.Isolation`."""

    def takes(self, held: Held) -> bool: ...

    def run(self, held: Held) -> Outcome: ...


class Executor:
    """Runs jobs on slot threads of one worker."""

    def __init__(
        self,
        alias: str,
        options: Options,
        loop: AsyncLoop,
        is_stopping: Callable[[], bool],
        guard: Guard | None = None,
        isolation: Isolating | None = None,
    ) -> None:
        self._isolation = isolation
        self._guard = guard or handler_db
        self._alias = alias
        self._options = options
        self._loop = loop
        self._is_stopping = is_stopping
        self._pid = os.getpid()

    def run(self, held: Held) -> Outcome:
        """Run one job to its outcome. Never raises, but for exceptions that were sent into the thread from outside."""
        if held.is_expired:
            return Expired()
        if not held.start(self._options.timeout_seconds):
            return NotStarted()
        if self._isolation is not None and self._isolation.takes(held):
            outcome = self._isolation.run(held)
            held.ended = time.monotonic()
            return outcome
        return self.perform(held)

    def perform(self, held: Held) -> Outcome:
        """Run a job that was written as started, in this thread."""
        try:
            self._guard.check_before()
            outcome = contextvars.copy_context().run(self._attempt, held)
        except BaseException as error:
            outcome = self._outcome_of(held, error)
        if os.getpid() != self._pid:
            os._exit(0)  # a child that the handler forked came out of it: there may be only one worker
        return self._after(held, outcome)

    def _attempt(self, held: Held) -> Outcome:
        call = self._call(held)
        if held.task.atomic:
            return self._atomically(held, call)
        return Succeeded(self._result_of(held, call))

    def _call(self, held: Held) -> Callable[[], Any]:
        args, kwargs = held.arguments()
        task = held.task
        bind(task.func, tuple(args), kwargs, takes_context=task.takes_context)
        heard = tasks_signals.wanted(task_signals.task_started)
        if not heard:
            tasks_signals.log_state(held.job, "RUNNING")
        if task.takes_context or heard:
            result = tasks_signals.running_result(task, held.job)
            if heard:
                tasks_signals.send(task_signals.task_started, task, result)
            if task.takes_context:
                args = [JobContext(task_result=result, control=Control(held, self._options, self._is_stopping)), *args]
        if not inspect.iscoroutinefunction(task.func):
            return lambda: task.func(*args, **kwargs)
        if task.atomic:
            return lambda: task.call(*args, **kwargs)
        return lambda: self._loop.run(held, task.func(*args, **kwargs))

    def _result_of(self, held: Held, call: Callable[[], Any]) -> str:
        value = call()
        if inspect.iscoroutine(value):
            value.close()
            raise HandlerFault(
                "the handler returned a coroutine that nobody awaits: make it `async def`, or await what it calls"
            )
        if not held.task.keep_result:
            return "null"
        return freeze_value(value, max_bytes=self._options.max_args_bytes, what="the return value")

    def _atomically(self, held: Held, call: Callable[[], Any]) -> Outcome:
        """Run the handler in a transaction whose last statement is the ack: both happen, or neither."""
        is_outermost = not connections[self._alias].in_atomic_block
        result: str | None = None
        try:
            with transaction.atomic(using=self._alias):
                if is_outermost:
                    # Above READ COMMITTED a heartbeat that passes meanwhile would make the ack fail with 40001.
                    db.rows(self._alias, "set transaction isolation level read committed")
                result = self._result_of(held, call)
                now = time.monotonic()
                ack = finish.Ack(held.job.id, held.job.lease_token, now - held.began, 0, result, held.key)
                if not finish.ack(self._alias, [ack]):
                    raise LeaseLost("the lease ended before the handler did")
        except LeaseLost:
            return Stale()
        except Exception as error:
            if result is None or not is_outermost or not self._has_committed(held):
                raise
            log.warning("committed, but what follows the commit failed job=%s", held.job.id, exc_info=error)
        return Committed(result)

    def _has_committed(self, held: Held) -> bool:
        """Find out what became of a COMMIT whose answer was lost, or after which a hook failed."""
        db.drop(self._alias)
        try:
            return lease.look(self._alias, [held.lease])[held.job.id] is lease.Standing.DONE
        except Exception:
            return False

    def _after(self, held: Held, outcome: Outcome) -> Outcome:
        """Put thread and process in order; a handler that left a transaction open has failed."""
        fault = self._guard.reset_after()
        if fault and isinstance(outcome, Succeeded):
            outcome = _failed(HandlerFault(fault), kind="fault")
        _restore_folder()
        held.ended = time.monotonic()
        if held.task.atomic:
            _warn_if_long(held)
        return outcome

    def _outcome_of(self, held: Held, error: BaseException) -> Outcome:
        match error:
            case Snooze():
                return Snoozed(error.delay)
            case Cancel():
                return Cancelled(clean_text(error.reason, 1_000))
            case JobCancelled():
                return Cancelled("cancelled while it ran")
            case Dead():
                return _failed(error, final_reason=clean_text(error.reason, 1_000) or "the handler gave up")
            case Retry():
                return _failed(error, after_seconds=error.after)
            case JobTimeout():
                return _failed(error, kind="timeout")
            case SignatureMismatch() | ArgumentsInvalid() | BadPayload():
                return _failed(error, kind="fault", final_reason=_permanent(error))
        if held.is_lost:
            return Stale()
        return _judged(held.task, error)


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


def _warn_if_long(held: Held) -> None:
    """An atomic handler holds a transaction open: it holds back vacuum, and locks whatever it has written."""
    seconds = held.ended - held.began
    if seconds > LONG_ATOMIC_SECONDS:
        log.warning(
            "atomic handler held its transaction open for long job=%s task=%s seconds=%.1f",
            held.job.id,
            held.job.task_name,
            seconds,
        )


def _failed(
    error: BaseException, *, kind: str = "error", after_seconds: float | None = None, final_reason: str = ""
) -> Failed:
    return Failed(describe(error), kind=kind, after_seconds=after_seconds, final_reason=final_reason)


def _judged(task: Any, error: BaseException) -> Outcome:
    """Return what an exception means by the task's own classes, and by what is known of it."""
    verdict = judge(error, retry_on=task.retry_on, dead_on=task.dead_on, ignore_on=task.ignore_on)
    match verdict.kind:
        case Kind.IGNORED:
            return Cancelled(f"ignored: {describe(error).exception}")
        case Kind.PERMANENT:
            return _failed(error, final_reason=_permanent(error))
        case Kind.TRANSIENT | Kind.UNKNOWN:
            return replace(_failed(error), at_least_seconds=verdict.after_seconds or 0)
        case _ as never:
            assert_never(never)


def _permanent(error: BaseException) -> str:
    text: FailureText = describe(error)
    return clean_text(f"permanent: {text.message}", 1_000)


_home = os.getcwd()


def _restore_folder() -> None:
    """Undo a change of the working folder (it belongs to the process: neighbours may have seen it meanwhile)."""
    try:
        if os.getcwd() != _home:
            os.chdir(_home)
    except OSError:
        pass
