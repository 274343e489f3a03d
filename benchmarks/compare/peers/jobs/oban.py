"""Oban's workers."""

from typing import Any

from oban import worker

from benchmarks.compare import handlers


@worker()
class Noop:
    """Do nothing."""

    async def process(self, job: Any) -> None:
        handlers.noop(job.args["number"])


@worker()
class Short:
    """Wait 10 ms."""

    async def process(self, job: Any) -> None:
        await handlers.async_short(job.args["number"])


WORKERS: dict[str, Any] = {"noop": Noop, "short": Short}
