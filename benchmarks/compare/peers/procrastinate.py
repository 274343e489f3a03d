"""Procrastinate on psycopg, by its own worker."""

import logging
from collections.abc import Sequence
from typing import Any

from benchmarks.compare.peers import base


def setup() -> None:
    """Apply its schema."""
    from benchmarks.compare.peers.jobs.procrastinate import app

    with app.open():
        app.schema_manager.apply_schema()


class Client:
    """Enqueues through the application."""

    async def open(self) -> None:
        """Connect."""
        from benchmarks.compare.peers.jobs import procrastinate as jobs

        self._jobs = vars(jobs)
        self._app = jobs.app
        await self._app.open_async()

    async def one(self, number: int, task: str) -> Any:
        """Enqueue a job."""
        await self._jobs[task].defer_async(number=number)

    async def many(self, numbers: Sequence[int], task: str) -> Any:
        """Enqueue many in one call."""
        await self._jobs[task].batch_defer_async(*[{"number": number} for number in numbers])

    async def close(self) -> None:
        """Disconnect."""
        await self._app.close_async()


def worker(processes: int, concurrency: int, task: str) -> None:
    """Run its worker."""
    from benchmarks.compare.peers.jobs.procrastinate import app

    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    app.run_worker(concurrency=concurrency)


PEER = base.Peer(
    name="procrastinate",
    label="Procrastinate",
    package="procrastinate",
    requires=("procrastinate", "psycopg[binary,pool]"),
    client=Client,
    setup=setup,
    worker=worker,
    settings="concurrency 16 for no-op jobs",
    guess=300,
    drain_concurrency=16,
    left="select count(*) from procrastinate_jobs where status in ('todo', 'doing')"
    " and coalesce(scheduled_at, now()) <= now()",
    finished="""
insert into procrastinate_jobs (queue_name, task_name, args, status, attempts)
select 'default', 'noop', jsonb_build_object('number', n), 'succeeded', 1 from generate_series(1, {count}) n
""",
    scheduled="""
insert into procrastinate_jobs (queue_name, task_name, args, status, scheduled_at)
select 'default', 'noop', jsonb_build_object('number', n), 'todo', now() + {seconds} * interval '1 s'
from generate_series(0, {count} - 1) n
""",
    claim=r"procrastinate_fetch_job",
)

if __name__ == "__main__":
    base.run(PEER)
