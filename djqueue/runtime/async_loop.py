"""The event loop of a worker: async handlers run on it, each in a thread-sensitive context of its own.

A slot thread waits for each handler, so that a slot is one concurrent job whether its handler is sync or async.
"""

import asyncio
import logging
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async

from djqueue.exceptions import JobCancelled, JobTimeout
from djqueue.runtime import handler_db
from djqueue.runtime.held import Held

log = logging.getLogger("djqueue")


class AsyncLoop:
    """One event loop in a thread, started with the first async job."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[Held, asyncio.Task[Any]] = {}
        self._starting = threading.Lock()

    def run(self, held: Held, handler: Coroutine[Any, Any, Any]) -> Any:
        """Run the handler to its end and return its result, or raise what it raised."""
        future = asyncio.run_coroutine_threadsafe(self._job(held, handler), self._running())
        try:
            value, error = future.result()
        except CancelledError as cancelled:
            value, error = None, cancelled
        if error is None:
            return value
        if held.forced == "timeout":
            raise JobTimeout(f"ran past its hard limit of {held.job.timeout_seconds} seconds") from error
        if held.forced == "cancel" and isinstance(error, asyncio.CancelledError | CancelledError):
            raise JobCancelled("asked to cancel") from error
        raise error

    def cancel(self, held: Held) -> None:
        """Cancel the handler's task, if it runs."""
        task = self._tasks.get(held)
        if task is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(task.cancel)

    async def _job(self, held: Held, handler: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[held] = task
        context = ThreadSensitiveContext()
        try:
            async with context:
                return await self._guarded(handler, context)
        finally:
            self._tasks.pop(held, None)

    async def _guarded(
        self, handler: Coroutine[Any, Any, Any], context: ThreadSensitiveContext
    ) -> tuple[Any, BaseException | None]:
        """Let no exception reach the loop: SystemExit would end it for all."""
        try:
            return await handler, None
        except BaseException as error:
            return None, error
        finally:
            if context in SyncToAsync.context_to_thread_executor:
                await sync_to_async(handler_db.close_all)()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run, args=(self._loop,), name="djqueue-loop", daemon=True).start()
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run for ever: SystemExit in a task that a handler left behind ends `run_forever`, and so does `loop.stop()`."""
    asyncio.set_event_loop(loop)
    while True:
        try:
            loop.run_forever()
        except BaseException:
            log.exception("the event loop goes on after an error in something that a handler left behind")
