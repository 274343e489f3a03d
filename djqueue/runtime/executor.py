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
from typing import Any, Protocol

from djqueue.api import current
from djqueue.api.context import JobContext
from djqueue.compat import task_signals
from djqueue.conf import Options
from djqueue.exceptions import HandlerFault
from djqueue.policy.arguments import freeze_value
from djqueue.policy.signature import bind
from djqueue.runtime import atomic, folder, following, handler_db, tasks_signals, verdicts
from djqueue.runtime.async_loop import AsyncLoop
from djqueue.runtime.control import Control
from djqueue.runtime.held import Held
from djqueue.runtime.outcome import Expired, NotStarted, Outcome, Succeeded

log = logging.getLogger("djqueue")


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
        if held.is_shut_out or not held.start(self._options.timeout_seconds):
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
            outcome = verdicts.outcome_of(held, error)
        if os.getpid() != self._pid:
            os._exit(0)  # a child that the handler forked came out of it: there may be only one worker
        return self._after(held, outcome)

    def _attempt(self, held: Held) -> Outcome:
        current.running_job.set(held.job.id)
        following.check(self._alias, held.job.options)
        call = self._call(held)
        if held.task.atomic:
            return atomic.run(self._alias, held, lambda: self._result_of(held, call))
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

    def _after(self, held: Held, outcome: Outcome) -> Outcome:
        """Put thread and process in order; a handler that left a transaction open has failed."""
        fault = self._guard.reset_after()
        if fault and isinstance(outcome, Succeeded):
            outcome = verdicts.failed(HandlerFault(fault), kind="fault")
        elif fault:
            log.warning("%s job=%s task=%s", fault, held.job.id, held.job.task_name)
        folder.restore()
        held.ended = time.monotonic()
        if held.task.atomic:
            atomic.warn_if_long(held)
        return outcome
