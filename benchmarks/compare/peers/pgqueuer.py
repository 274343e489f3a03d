"""PgQueuer on asyncpg and uvloop."""

import asyncio
from collections.abc import Sequence
from typing import Any

from benchmarks.compare.peers import base


def setup() -> None:
    """Install its tables."""

    async def install() -> None:
        import asyncpg
        from pgqueuer.queries import Queries

        connection = await asyncpg.connect(base.dsn())
        await Queries.from_asyncpg_connection(connection).install()
        await connection.close()

    asyncio.run(install())


class Client:
    """Enqueues through Queries."""

    async def open(self) -> None:
        """Connect."""
        import asyncpg
        from pgqueuer.queries import Queries

        self._connection = await asyncpg.connect(base.dsn())
        self._queries = Queries.from_asyncpg_connection(self._connection)

    async def one(self, number: int, task: str) -> Any:
        """Enqueue a job."""
        await self._queries.enqueue(task, str(number).encode())

    async def many(self, numbers: Sequence[int], task: str) -> Any:
        """Enqueue many in one call."""
        payloads: list[bytes | None] = [str(number).encode() for number in numbers]
        await self._queries.enqueue([task] * len(payloads), payloads, [0] * len(payloads))

    async def close(self) -> None:
        """Disconnect."""
        await self._connection.close()


def worker(processes: int, concurrency: int, task: str) -> None:
    """Run its worker. Its cap on jobs at a time must be twice the batch at least; no-op jobs go without a cap."""
    import pgqueuer
    import uvloop

    from benchmarks.compare.peers.jobs.pgqueuer import manager

    if task == "noop":
        uvloop.run(pgqueuer.run(manager, batch_size=concurrency))
    else:
        uvloop.run(pgqueuer.run(manager, batch_size=concurrency // 2, max_concurrent_tasks=concurrency))


PEER = base.Peer(
    name="pgqueuer",
    label="PgQueuer",
    package="pgqueuer",
    requires=("pgqueuer", "asyncpg", "uvloop"),
    client=Client,
    setup=setup,
    worker=worker,
    settings="asyncpg, uvloop, batch size 10, its default; finished jobs are deleted",
    guess=5_000,
    drain_concurrency=10,
    left="select count(*) from pgqueuer where execute_after <= now()",
    finished="""
insert into pgqueuer_log (created, job_id, status, priority, entrypoint, aggregated)
select now(), n, 'successful', 0, 'noop', true from generate_series(1, {count}) n
""",
    scheduled="""
insert into pgqueuer (priority, status, entrypoint, payload, execute_after)
select 0, 'queued', 'noop', n::text::bytea, now() + {seconds} * interval '1 s' from generate_series(0, {count} - 1) n
""",
    claim=r"next_queued",
)

if __name__ == "__main__":
    base.run(PEER)
