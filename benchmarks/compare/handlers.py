"""What the jobs do, the same for every contender: write to the ledger, and be done at once or after 10 ms."""

import asyncio
import time

from benchmarks.compare import ledger, trial

SHORT_SECONDS = 0.01


def noop(number: int) -> None:
    """Do nothing: what remains is the cost of the queue."""
    ledger.write(number)


def short(number: int) -> None:
    """Wait 10 ms, as for a partner's answer; in a trial with kill -9, what the trial says."""
    ledger.write(number)
    seconds = trial.seconds_of(number)
    time.sleep(SHORT_SECONDS if seconds is None else seconds)
    if seconds is not None:
        ledger.write(number + trial.ENDED)


async def async_noop(number: int) -> None:
    """Do nothing, as a coroutine."""
    ledger.write(number)


async def async_short(number: int) -> None:
    """The same as a coroutine."""
    ledger.write(number)
    seconds = trial.seconds_of(number)
    await asyncio.sleep(SHORT_SECONDS if seconds is None else seconds)
    if seconds is not None:
        ledger.write(number + trial.ENDED)
