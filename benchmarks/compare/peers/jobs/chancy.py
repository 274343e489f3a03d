"""Chancy's application and jobs. Nothing is connected at import."""

from chancy import Chancy, job

from benchmarks.compare import handlers
from benchmarks.compare.peers import base


@job()
async def noop(*, number: int) -> None:
    """Do nothing."""
    handlers.noop(number)


@job()
async def short(*, number: int) -> None:
    """Wait 10 ms."""
    await handlers.async_short(number)


app = Chancy(base.dsn())
