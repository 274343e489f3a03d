"""Procrastinate's application and tasks. Nothing is connected at import."""

import procrastinate

from benchmarks.compare import handlers
from benchmarks.compare.peers import base

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=base.dsn(), max_size=20))


@app.task(name="noop")
async def noop(number: int) -> None:
    """Do nothing."""
    handlers.noop(number)


@app.task(name="short")
async def short(number: int) -> None:
    """Wait 10 ms."""
    await handlers.async_short(number)
