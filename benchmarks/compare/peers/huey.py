"""huey on PostgreSQL, by its own consumer with threads."""

import os
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.compare.peers import base

COMMAND = "from huey.bin.huey_consumer import consumer_main; consumer_main()"


def setup() -> None:
    """It makes its tables when it is imported."""
    from benchmarks.compare.peers.jobs.huey import queue

    queue.storage.close()


class Client:
    """Enqueues by calling the task."""

    def open(self) -> None:
        """Connect."""
        from benchmarks.compare.peers.jobs import huey as jobs

        self._jobs = vars(jobs)

    def one(self, number: int, task: str) -> Any:
        """Enqueue a job."""
        self._jobs[task](number)

    def many(self, numbers: Sequence[int], task: str) -> Any:
        """It has no call for many: one after another."""
        call = self._jobs[task]
        for number in numbers:
            call(number)

    def close(self) -> None:
        """Disconnect."""
        self._jobs["queue"].storage.close()


def worker(processes: int, concurrency: int, task: str) -> None:
    """Become its consumer."""
    # Its graceful signal is SIGINT unless told otherwise.
    command = ["benchmarks.compare.peers.jobs.huey.queue", "-k", "thread", "-w", str(concurrency), "-n", "-g", "TERM"]
    os.execv(sys.executable, [sys.executable, "-c", COMMAND, *command, "-q"])


PEER = base.Peer(
    name="huey",
    label="huey on PostgreSQL",
    package="huey",
    requires=("huey", "psycopg[binary]"),
    client=Client,
    setup=setup,
    worker=worker,
    settings="8 threads for no-op jobs, no results; deletes a job when it takes it",
    guess=700,
    left="select count(*) from huey_task",
    claim=r"delete from huey_task",
)

if __name__ == "__main__":
    base.run(PEER)
