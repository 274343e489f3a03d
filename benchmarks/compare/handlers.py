"""What the jobs do, the same for every contender: write to the ledger, and be done at once or after 10 ms."""

import asyncio
import time

from benchmarks.compare import ledger

SHORT_SECONDS = 0.01


def noop(number: int) -> None:
    """Do nothing: what remains is the cost of the queue."""
    ledger.write(number)


def short(number: int) -> None:
    """Wait 10 ms, as for a partner's answer."""
    ledger.write(number)
    time.sleep(SHORT_SECONDS)


async def async_noop(number: int) -> None:
    """Do nothing, as a coroutine."""
    ledger.write(number)


async def async_short(number: int) -> None:
    """Wait 10 ms, as a coroutine."""
    ledger.write(number)
    await asyncio.sleep(SHORT_SECONDS)
