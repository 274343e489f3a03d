"""Handlers for the chaos bench, which write down begin and end of each run with the lease token that they ran under.

The ledger's order of lines is the account: it needs no clock, and worker clocks are among what is tampered with. The
monotonic clock, which is not, stands beside it for recovery times.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from djqueue import JobContext, task
from djqueue.policy.retry import RetryPolicy
from testproject.shop.models import PartnerCall
from testproject.trials import ledger

AT_ONCE = RetryPolicy(base_seconds=0)
MAX_ATTEMPTS = 8
FAILING_ATTEMPTS = 3
LIMIT = 3


@task(takes_context=True, max_attempts=MAX_ATTEMPTS, retry=AT_ONCE)
def plain(context: JobContext, number: int, seconds: float) -> None:
    """Work for a while."""
    with _written(context, f"plain {number}"):
        time.sleep(seconds)


@task(takes_context=True, max_attempts=MAX_ATTEMPTS, retry=AT_ONCE)
def delayed(context: JobContext, number: int, seconds: float) -> None:
    """The same, enqueued with a delay."""
    with _written(context, f"delayed {number}"):
        time.sleep(seconds)


@task(takes_context=True, atomic=True, max_attempts=MAX_ATTEMPTS, retry=AT_ONCE)
def atomic(context: JobContext, number: int, seconds: float) -> None:
    """Write a row, exactly once per job."""
    with _written(context, f"atomic {number}"):
        PartnerCall.objects.create(order_id=number, attempt=context.attempt, succeeded=True)
        time.sleep(seconds)


@task(takes_context=True, ordering_key=lambda key, *_: f"key {key}", max_attempts=MAX_ATTEMPTS, retry=AT_ONCE)
def ordered(context: JobContext, key: int, number: int, seconds: float) -> None:
    """Run alone among the jobs of the key, in order."""
    with _written(context, f"ordered {key} {number}"):
        time.sleep(seconds)


@task(takes_context=True, concurrency_limit=LIMIT, max_attempts=MAX_ATTEMPTS, retry=AT_ONCE)
def limited(context: JobContext, number: int, seconds: float) -> None:
    """Run beside at most two others."""
    with _written(context, f"limited {number}"):
        time.sleep(seconds)


@task(takes_context=True, max_attempts=FAILING_ATTEMPTS, retry=AT_ONCE)
def failing(context: JobContext, number: int, seconds: float) -> None:
    """Fail once, or always."""
    with _written(context, f"failing {number}"):
        time.sleep(seconds)
        if number % 2 or context.attempt == 1:
            raise RuntimeError("as intended")


@contextmanager
def _written(context: JobContext, label: str) -> Iterator[None]:
    said = f"{context.job_id} {context.lease_token}"
    ledger.write(label, f"begin {said} {time.monotonic()}")
    yield
    ledger.write(label, f"end {said} {time.monotonic()}")
