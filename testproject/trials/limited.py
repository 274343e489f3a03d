"""Handlers behind limits, which prove by locks of the operating system that no more of them run than may.

A lock on a file ends with the process that holds it, however that ends: an account that no queue keeps.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from djqueue import JobContext, RateLimit, Retry, task
from djqueue.policy.retry import RetryPolicy
from testproject.trials import ledger

AT_ONCE = RetryPolicy(base_seconds=0)
KEY_LIMIT = 3
TASK_LIMIT = 2
QUEUE_LIMIT = 4
RATE_PER_SECOND = 20
BURST = 5


@task(
    concurrency_key=lambda number, folder: f"key {number % 2}",
    concurrency_limit=KEY_LIMIT,
    tenant_id=lambda number, folder: f"tenant {number % 7}",
    max_attempts=1000,
    retry=AT_ONCE,
)
def hold_key(number: int, folder: str) -> None:
    """Run beside at most two others of the same key."""
    with _place(folder, f"key-{number % 2}", KEY_LIMIT):
        time.sleep(0.02)


@task(concurrency_limit=TASK_LIMIT, max_attempts=1000, retry=AT_ONCE)
def hold_task(number: int, folder: str) -> None:
    """Run beside at most one other of this task."""
    with _place(folder, "task", TASK_LIMIT):
        time.sleep(0.02)


@task(queue_name="images", max_attempts=1000, retry=AT_ONCE)
def hold_queue(number: int, folder: str) -> None:
    """Run beside at most three others of the queue."""
    with _place(folder, "queue", QUEUE_LIMIT):
        time.sleep(0.02)


@task(rate_limit=RateLimit(rate=f"{RATE_PER_SECOND}/s", burst=BURST), max_attempts=1000, retry=AT_ONCE)
def call_partner(number: int) -> None:
    """Write down that the partner was called."""
    ledger.write("partner", "call")


@task(ordering_key=lambda key, number: f"order {key}", max_attempts=1000, retry=AT_ONCE)
def in_order(key: int, number: int) -> None:
    """Write down begin and end of one step of a key."""
    ledger.write(f"order {key}", f"begin {number}")
    ledger.write(f"order {key}", f"end {number}")


@task(takes_context=True, rate_limit="1000/s", retry=AT_ONCE, atomic=True)
def told_to_wait(context: JobContext, label: str, seconds: float) -> None:
    """Be told by the partner to wait the first time."""
    ledger.write(label, f"attempt {context.attempt}")
    if context.attempt == 1:
        context.pause_limit(timedelta(seconds=seconds), reason="429")
        ledger.write(label, "paused")
        raise Retry(after=0)


@task(tenant_id=lambda tenant, seconds: tenant)
def rest(tenant: str, seconds: float) -> None:
    """Hold a slot for so long."""
    time.sleep(seconds)


@contextmanager
def _place(folder: str, name: str, most: int) -> Iterator[None]:
    """Take one of so many places; write down where there is none left."""
    for number in range(most):
        handle = os.open(Path(folder) / f"{name}-{number}", os.O_CREAT | os.O_RDWR, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            continue
        ledger.write(name, "within")
        try:
            yield
        finally:
            os.close(handle)
        return
    ledger.write(name, "exceeded")
    yield
