"""Handlers that take long and say how far they are, for tests."""

import asyncio
from pathlib import Path

from django.db import transaction

from djqueue import Cancel, Dead, JobContext, Retry, task
from djqueue.policy.retry import RetryPolicy
from testproject.shop.models import Counter
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


@task(retry=AT_ONCE)
def link(name: str, how: str = "") -> None:
    """A step of a chain that ends as it is told to."""
    if how == "cancel":
        raise Cancel("as told")
    if how == "die once" and Counter.objects.get_or_create(name=f"died {name}")[1]:
        raise Dead("as told")
    ledger.write(name, "link")


@task(retry=AT_ONCE, atomic=True, max_attempts=20)
def count(chain: int, step: int, dies_until: str) -> None:
    """Add one to a counter, in the transaction of the ack; the second step is dead until a file exists."""
    if step == 1 and not Path(dies_until).exists():
        raise Dead("as told")
    name = f"{chain}:{step}"
    if step and not Counter.objects.filter(name=f"{chain}:{step - 1}").exists():
        raise ValueError("the step before has not taken effect")
    counter, _ = Counter.objects.get_or_create(name=name)
    counter.value += 1
    counter.save()
