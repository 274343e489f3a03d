"""dj-queue, a backend of Django's Tasks framework, by its own command."""

from collections.abc import Sequence
from typing import Any

from benchmarks.compare.peers import base, djangos

APP, BACKEND = "dj_queue", "dj_queue.backend.DjQueueBackend"


def setup() -> None:
    """Migrate."""
    djangos.configure(APP, BACKEND)
    djangos.migrate()


class Client(djangos.Client):
    """Enqueues through Django."""

    def __init__(self) -> None:
        super().__init__(APP, BACKEND)

    def many(self, numbers: Sequence[int], task: str) -> Any:
        """Enqueue many in one call."""
        func = self.tasks[task]
        return func.get_backend().enqueue_all([(func, [number], {}) for number in numbers])


def worker(processes: int, concurrency: int, task: str) -> None:
    """Become its supervisor."""
    workers = [{"queues": "*", "threads": concurrency, "processes": processes}]
    djangos.configure(APP, BACKEND, {"workers": workers})
    djangos.become("dj_queue", "--migration-wait-timeout=0")


PEER = base.Peer(
    name="dj-queue",
    label="dj-queue",
    package="dj-queue",
    requires=("dj-queue", "django", "psycopg[binary]"),
    client=Client,
    setup=setup,
    worker=worker,
    settings="8 threads for no-op jobs, persistent connections",
    guess=700,
    runs_processes=True,
    left="select (select count(*) from dj_queue_ready_executions) + (select count(*) from dj_queue_claimed_executions)",
    claim=r"skip locked",
)

if __name__ == "__main__":
    base.run(PEER)
