"""PgQueuer's entry points, and the factory that its command line runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.models import Job

from benchmarks.compare import handlers
from benchmarks.compare.peers import base


@asynccontextmanager
async def manager() -> AsyncIterator[PgQueuer]:
    """Connect and declare."""
    connection = await asyncpg.connect(base.dsn())
    try:
        queuer = PgQueuer.from_asyncpg_connection(connection)

        @queuer.entrypoint("noop")
        async def noop(job: Job) -> None:
            handlers.noop(int(job.payload or b"0"))

        @queuer.entrypoint("short")
        async def short(job: Job) -> None:
            await handlers.async_short(int(job.payload or b"0"))

        yield queuer
    finally:
        await connection.close()
