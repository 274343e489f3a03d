"""steady-queue, a backend of Django's Tasks framework, by its own command: three threads, its default."""

from collections.abc import Sequence
from typing import Any

from benchmarks.compare.peers import base, djangos

APP, BACKEND = "steady_queue", "steady_queue.backend.SteadyQueueBackend"


def setup() -> None:
    """Migrate."""
    djangos.configure(APP, BACKEND)
    djangos.migrate()


class Client(djangos.Client):
    """Enqueues through Django."""

    def __init__(self) -> None:
        super().__init__(APP, BACKEND)

    def many(self, numbers: Sequence[int], task: str) -> Any:
        """One after another in a transaction."""
        from django.db import transaction

        with transaction.atomic():
            for number in numbers:
                self.one(number, task)


def worker(processes: int, concurrency: int, task: str) -> None:
    """Become its supervisor."""
    djangos.configure(APP, BACKEND)
    djangos.become("steady_queue")


PEER = base.Peer(
    name="steady-queue",
    label="steady-queue",
    package="steady-queue",
    requires=("steady-queue", "django", "psycopg[binary]"),
    client=Client,
    setup=setup,
    worker=worker,
    settings="three threads, its default",
    runs_processes=True,
)

if __name__ == "__main__":
    base.run(PEER)
