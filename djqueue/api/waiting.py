"""Waiting for a job's end, outside of workers: `result.wait(timeout)`.

It looks, after 20 ms at first and less and less often, down to once a second; workers know nothing of it.
Invariant: nobody waits in an open transaction, in which the job may have been written and could never start.
"""

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import connections

from djqueue.exceptions import TransactionError, WaitTimeout, seconds_of
from djqueue.store import awaited

FIRST_SECONDS = 0.02
LONGEST_SECONDS = 1.0
FACTOR = 1.5


def wait(result: Any, timeout: float | timedelta) -> None:
    """Return once the job has ended, with the result refreshed."""
    seconds = seconds_of(timeout, "wait(timeout)")
    for pause in _pauses(seconds):
        if _has_ended(result):
            return
        time.sleep(pause)
    _give_up(result, seconds)


async def wait_async(result: Any, timeout: float | timedelta) -> None:
    """The same on an event loop, which goes on meanwhile."""
    seconds = seconds_of(timeout, "wait_async(timeout)")
    for pause in _pauses(seconds):
        if await sync_to_async(_has_ended, thread_sensitive=True)(result):
            return
        await asyncio.sleep(pause)
    await sync_to_async(_give_up, thread_sensitive=True)(result, seconds)


def _pauses(seconds: float) -> Iterator[float]:
    """One at least; the last one ends with the time."""
    until, pause = time.monotonic() + seconds, FIRST_SECONDS
    yield min(pause, seconds)
    while (left := until - time.monotonic()) > 0:
        yield min(pause, left)
        pause = min(LONGEST_SECONDS, pause * FACTOR)


def _has_ended(result: Any) -> bool:
    if result.is_finished:
        return True
    alias = result.task.get_backend().alias_of_database
    if awaited.lives(alias, UUID(result.id)):
        if connections[alias].in_atomic_block:
            raise TransactionError(
                f"wait: expected no open transaction on {alias!r}, got one: a job that was enqueued in it can't start "
                "before it is committed; wait after the block (in a TestCase: call run_jobs() first)"
            )
        return False
    result.refresh()
    return bool(result.is_finished)


def _give_up(result: Any, seconds: float) -> None:
    if not _has_ended(result):
        result.refresh()
        if not result.is_finished:
            raise WaitTimeout(job_id=result.id, status=str(result.status), seconds=seconds)
