"""Celery on Redis that syncs every write, by its own command line."""

import os
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.compare.peers import base


def setup() -> None:
    """There is nothing to make."""


class Client:
    """Enqueues by calling delay."""

    def open(self) -> None:
        """Connect."""
        from benchmarks.compare.peers.jobs import celery as jobs

        self._jobs = vars(jobs)

    def one(self, number: int, task: str) -> Any:
        """Enqueue a job."""
        self._jobs[task].delay(number)

    def many(self, numbers: Sequence[int], task: str) -> Any:
        """It has no call for many: one after another."""
        for number in numbers:
            self.one(number, task)

    def close(self) -> None:
        """Disconnect."""
        self._jobs["app"].close()


def worker(processes: int, concurrency: int, task: str) -> None:
    """Become its worker: one prefork child per process for no-op jobs, threads for jobs that wait."""
    pool = ["-c", str(processes)] if task == "noop" else ["-P", "threads", "-c", str(concurrency)]
    command = ["-A", "benchmarks.compare.peers.jobs.celery", "worker", "-l", "ERROR", *pool]
    os.execv(sys.executable, [sys.executable, "-m", "celery", *command])


PEER = base.Peer(
    name="celery",
    label="Celery on Redis",
    package="celery",
    requires=("celery[redis]",),
    client=Client,
    setup=setup,
    worker=worker,
    settings="Redis with appendfsync always, late acks, no results, one prefork child per process for no-op jobs",
    store="redis",
    guess=250,
    drain_concurrency=1,
    runs_processes=True,
)

if __name__ == "__main__":
    base.run(PEER)
