"""Handlers that take long and say how far they are, for tests."""

import asyncio

from django.db import transaction

from djqueue import JobContext, Retry, task
from djqueue.policy.retry import RetryPolicy
from testproject.trials import ledger
from testproject.trials.tasks import wait_for

AT_ONCE = RetryPolicy(base_seconds=0)


@task(retry=AT_ONCE, takes_context=True, max_attempts=10)
def six_hours(context: JobContext, steps: int, folder: str) -> None:
    """Do step after step from the last checkpoint on; a step waits for its file, as if it took long."""
    first = context.checkpoint or 0
    ledger.write(str(first), "resumed")
    for step in range(first, steps):
        ledger.write(str(step), "step")
        wait_for(f"{folder}/step {step}")
        context.save_checkpoint(step + 1)
        context.progress(step + 1, steps, f"step {step + 1}")


@task(retry=AT_ONCE, takes_context=True, max_attempts=3)
def saves(context: JobContext, value: object, fail: bool = False) -> object:
    """Save a value; tell what was saved before. Fail afterwards, if so told, in the first attempt."""
    before = context.checkpoint
    context.progress(1, 4)
    context.progress(2, 4, "too soon after the first to be written")
    with transaction.atomic():
        context.save_checkpoint(value)
    if fail and context.attempt == 1:
        raise Retry
    return before


@task(takes_context=True, max_attempts=1)
def takes_back(context: JobContext) -> None:
    """Save a checkpoint in a transaction that is rolled back; die."""
    context.save_checkpoint("kept")
    with transaction.atomic():
        context.save_checkpoint("rolled back")
        raise ValueError("as planned")


@task(takes_context=True, atomic=True, max_attempts=1)
def saves_atomically(context: JobContext) -> None:
    """Try what can't work."""
    context.save_checkpoint(1)


@task(retry=AT_ONCE, takes_context=True, max_attempts=2)
async def saves_async(context: JobContext, value: object) -> object:
    """The same on the event loop."""
    before = await context.acheckpoint()
    await context.aprogress(1, 2, "half")
    await context.asave_checkpoint(value)
    await asyncio.sleep(0)
    if context.attempt == 1:
        raise Retry
    return before
