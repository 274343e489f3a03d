"""Handlers for processes of their own: what would take a whole worker with it. Loaded by OPTIONS["task_modules"]."""

import asyncio
import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

from django.db import transaction
from django.db.models import F

from djqueue import Cancel, JobContext, Snooze, task
from testproject.shop.models import Counter
from testproject.trials import ledger
from testproject.trials.tasks import AT_ONCE, LOOK_AGAIN_SECONDS, wait_for

MODULE = __name__


@task(isolation="process", retry=AT_ONCE, max_attempts=2)
def segfault(label: str) -> None:
    """Read what must not be read."""
    ledger.write(label, "start")
    ctypes.string_at(0)


@task(isolation="process", retry=AT_ONCE, max_attempts=2)
def leave(label: str, code: int) -> None:
    """End the process without a word."""
    ledger.write(label, "start")
    os._exit(code)


@task(isolation="process", retry=AT_ONCE)
def hog(label: str, megabytes: int) -> int:
    """Use memory and never give it back; return the process id."""
    ledger.write(label, "start")
    globals()["leak"] = b"x" * (megabytes << 20)
    return os.getpid()


@task(isolation="process", timeout_seconds=1, max_attempts=1)
def loop_in_c(label: str) -> None:
    """Compute without end, where no exception reaches."""
    ledger.write(label, "start")
    sum(range(1 << 62))


@task(isolation="process", timeout_seconds=1, max_attempts=1)
def wait_for_a_child(label: str) -> None:
    """Wait for a program that never ends, and write its process id as a label."""
    with subprocess.Popen(["sleep", "1000"]) as program:
        ledger.write(str(program.pid), "start")


@task(isolation="process", retry=AT_ONCE)
def hold(label: str, path: str) -> int:
    """Run until a file exists; return the process id."""
    ledger.write(label, "start")
    wait_for(path)
    ledger.write(label, "end")
    return os.getpid()


@task(isolation="process", retry=AT_ONCE)
async def hold_async(label: str, path: str) -> int:
    """Run until a file exists, on an event loop; return the process id."""
    ledger.write(label, "start")
    while not Path(path).exists():
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
    return os.getpid()


@task(isolation="process", retry=AT_ONCE, takes_context=True)
def hold_politely(context: JobContext, label: str, path: str) -> None:
    """Run until a file exists, the job is cancelled, or the worker stops."""
    ledger.write(label, "start")
    while not Path(path).exists():
        if context.cancelled:
            ledger.write(label, "cancelled")
            raise Cancel("as asked")
        if context.should_stop:
            ledger.write(label, "should stop")
            raise Snooze(0)
        time.sleep(LOOK_AGAIN_SECONDS)


@task(isolation="process", retry=AT_ONCE, timeout_seconds=None, takes_context=True, max_attempts=1)
def hold_without_limit(context: JobContext, label: str, path: str, beat: bool) -> None:
    """Run until a file exists, without a limit, and say so all the time, or never."""
    ledger.write(label, "start")
    while not Path(path).exists():
        if beat:
            context.heartbeat()
        time.sleep(LOOK_AGAIN_SECONDS)


@task(isolation="process", atomic=True, retry=AT_ONCE, max_attempts=3)
def count(name: str, path: str = "") -> None:
    """Add one to a counter; before the end of the transaction wait for a file, and die if it was the first time."""
    ledger.write(name, "start")
    Counter.objects.filter(name=name).update(value=F("value") + 1)
    if path and not Path(path).exists():
        Path(path).touch()
        os.kill(os.getpid(), signal.SIGSEGV)


@task(isolation="process", max_attempts=1)
def forget_a_transaction(label: str) -> None:
    """Leave a transaction open."""
    ledger.write(label, "start")
    transaction.atomic().__enter__()
    Counter.objects.update(value=F("value") + 1)


@task(isolation="process", retry=AT_ONCE, max_attempts=1)
def fail(label: str) -> None:
    """Fail in an ordinary way."""
    ledger.write(label, "start")
    raise RuntimeError("no luck")


@task(isolation="process", retry=AT_ONCE)
def large(label: str, size: int) -> str:
    """Return much text."""
    ledger.write(label, "start")
    return "é" * size
