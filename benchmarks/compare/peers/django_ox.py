"""django-ox, a backend of Django's Tasks framework, by its own command."""

from collections.abc import Sequence
from typing import Any

from benchmarks.compare.peers import base, djangos

APP, BACKEND = "django_ox", "django_ox.backend.OxBackend"


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
        from django_ox.bulk import enqueue_many

        return enqueue_many(self.tasks[task], [([number], {}) for number in numbers])


def worker(processes: int, concurrency: int, task: str) -> None:
    """Become its worker."""
    djangos.configure(APP, BACKEND)
    djangos.become("ox_worker", f"--processes={processes}", f"--concurrency={concurrency}", "-v", "0")


PEER = base.Peer(
    name="django-ox",
    label="django-ox",
    package="django-ox",
    requires=("django-ox", "django", "psycopg[binary]"),
    client=Client,
    setup=setup,
    worker=worker,
    settings="8 threads for no-op jobs, persistent connections",
    guess=300,
    runs_processes=True,
    left="select count(*) from django_ox_oxtask where status in ('READY', 'RUNNING')"
    " and coalesce(run_after, now()) <= now()",
    claim=r"skip locked",
)

if __name__ == "__main__":
    base.run(PEER)
