"""Dramatiq on Redis that syncs every write, by its own command line."""

import os
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.compare.peers import base


def setup() -> None:
    """There is nothing to make."""


class Client:
    """Enqueues by sending messages."""

    def open(self) -> None:
        """Connect."""
        from benchmarks.compare.peers.jobs import dramatiq as jobs

        self._jobs = vars(jobs)

    def one(self, number: int, task: str) -> Any:
        """Enqueue a job."""
        self._jobs[task].send(number)

    def many(self, numbers: Sequence[int], task: str) -> Any:
        """It has no call for many: one after another."""
        for number in numbers:
            self.one(number, task)

    def close(self) -> None:
        """Disconnect."""
        self._jobs["broker"].close()


def worker(processes: int, concurrency: int, task: str) -> None:
    """Become its workers."""
    command = ["benchmarks.compare.peers.jobs.dramatiq", "-p", str(processes), "-t", str(concurrency)]
    os.execv(sys.executable, [sys.executable, "-m", "dramatiq", *command])


PEER = base.Peer(
    name="dramatiq",
    label="Dramatiq on Redis",
    package="dramatiq",
    requires=("dramatiq[redis]",),
    client=Client,
    setup=setup,
    worker=worker,
    settings="Redis with appendfsync always, 8 threads for no-op jobs",
    store="redis",
    guess=1_500,
    runs_processes=True,
)

if __name__ == "__main__":
    base.run(PEER)
