"""Oban for Python, by its own command line, which uses uvloop."""

import os
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.compare.peers import base


def setup() -> None:
    """Install its tables."""
    from oban.cli import main

    main(["install", "--dsn", base.dsn()], standalone_mode=False)


class Client:
    """Enqueues through an instance without queues."""

    async def open(self) -> None:
        """Connect."""
        from oban import Oban

        from benchmarks.compare.peers.jobs.oban import WORKERS

        self._workers = WORKERS
        self._pool = await Oban.create_pool(base.dsn())
        self._oban = Oban(pool=self._pool)

    async def one(self, number: int, task: str) -> Any:
        """Enqueue a job."""
        await self._oban.enqueue(self._workers[task].new({"number": number}))

    async def many(self, numbers: Sequence[int], task: str) -> Any:
        """Enqueue many in one call."""
        new = self._workers[task].new
        await self._oban.enqueue_many([new({"number": number}) for number in numbers])

    async def close(self) -> None:
        """Disconnect."""
        await self._pool.close()


def worker(processes: int, concurrency: int, task: str) -> None:
    """Become its worker."""
    command = ["start", "--dsn", base.dsn(), "--queues", f"default:{concurrency}", "--log-level", "ERROR"]
    os.execv(sys.executable, [sys.executable, "-m", "oban", *command])


PEER = base.Peer(
    name="oban",
    label="Oban for Python",
    package="oban",
    requires=("oban",),
    client=Client,
    setup=setup,
    worker=worker,
    settings="uvloop, queue limit 200 for no-op jobs, its open-source part",
    guess=1_500,
    drain_concurrency=200,
    left="select count(*) from oban_jobs where state in ('available', 'executing', 'retryable')",
    finished="""
insert into oban_jobs (state, worker, args, attempt, completed_at, attempted_at)
select 'completed', 'benchmarks.compare.peers.jobs.oban.Noop', jsonb_build_object('number', n), 1,
    timezone('UTC', now()), timezone('UTC', now())
from generate_series(1, {count}) n
""",
    scheduled="""
insert into oban_jobs (state, worker, args, scheduled_at)
select 'scheduled', 'benchmarks.compare.peers.jobs.oban.Noop', jsonb_build_object('number', n),
    timezone('UTC', now()) + {seconds} * interval '1 s'
from generate_series(0, {count} - 1) n
""",
    claim=r"locked_jobs",
)

if __name__ == "__main__":
    base.run(PEER)
