"""Chancy with its asyncio executor and eager polling, by its own worker."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from benchmarks.compare.peers import base


def setup() -> None:
    """Migrate."""

    async def migrate() -> None:
        from benchmarks.compare.peers.jobs.chancy import app

        async with app:
            await app.migrate()

    asyncio.run(migrate())


class Client:
    """Enqueues through the application."""

    async def open(self) -> None:
        """Connect."""
        from benchmarks.compare.peers.jobs import chancy as jobs

        self._jobs = vars(jobs)
        self._app = jobs.app
        await self._app.pool.open()

    async def one(self, number: int, task: str) -> Any:
        """Enqueue a job."""
        await self._app.push(self._jobs[task].job.with_kwargs(number=number))

    async def many(self, numbers: Sequence[int], task: str) -> Any:
        """Enqueue many: it takes 1,000 at a time."""
        job = self._jobs[task].job
        async for _ in self._app.push_many([job.with_kwargs(number=number) for number in numbers]):
            pass

    async def close(self) -> None:
        """Disconnect."""
        await self._app.pool.close()


def worker(processes: int, concurrency: int, task: str) -> None:
    """Run its worker."""

    async def work() -> None:
        from chancy import Queue, Worker

        from benchmarks.compare.peers.jobs.chancy import app

        logging.getLogger("chancy").setLevel(logging.ERROR)
        queue = Queue("default", concurrency=concurrency, executor=app.Executor.Async, eager_polling=True)
        async with app:
            await app.declare(queue, upsert=True)
            async with Worker(app) as running:
                await running.wait_for_shutdown()

    asyncio.run(work())


PEER = base.Peer(
    name="chancy",
    label="Chancy",
    package="chancy",
    requires=("chancy", "psycopg[binary,pool]"),
    client=Client,
    setup=setup,
    worker=worker,
    settings="asyncio executor, eager polling, concurrency 200 for no-op jobs",
    guess=1_200,
    drain_concurrency=200,
    left="select count(*) from chancy_jobs where state not in ('succeeded', 'failed') and scheduled_at <= now()",
    finished="""
insert into chancy_jobs (id, queue, func, kwargs, state, started_at, completed_at, attempts, max_attempts)
select gen_random_uuid(), 'default', 'benchmarks.compare.peers.jobs.chancy.noop', json_build_object('number', n),
    'succeeded', now(), now(), 1, 1
from generate_series(1, {count}) n
""",
    scheduled="""
insert into chancy_jobs (id, queue, func, kwargs, state, scheduled_at, max_attempts)
select gen_random_uuid(), 'default', 'benchmarks.compare.peers.jobs.chancy.noop', json_build_object('number', n),
    'pending', now() + {seconds} * interval '1 s', 1
from generate_series(0, {count} - 1) n
""",
    claim=r"skip locked",
)

if __name__ == "__main__":
    base.run(PEER)
