"""django-tasks-db, a backend of Django's Tasks framework, by its own command: one job at a time."""

from collections.abc import Sequence
from typing import Any

from benchmarks.compare.peers import base, djangos

APP, BACKEND = "django_tasks_db", "django_tasks_db.DatabaseBackend"


def setup() -> None:
    """Migrate."""
    djangos.configure(APP, BACKEND)
    djangos.migrate()


class Client(djangos.Client):
    """Enqueues through Django."""

    def __init__(self) -> None:
        super().__init__(APP, BACKEND)

    def many(self, numbers: Sequence[int], task: str) -> Any:
        """It has no call for many: one after another in a transaction."""
        from django.db import transaction

        with transaction.atomic():
            for number in numbers:
                self.one(number, task)


def worker(processes: int, concurrency: int, task: str) -> None:
    """Become its worker."""
    djangos.configure(APP, BACKEND)
    djangos.become("db_worker", "--no-startup-delay", "-v", "0")


PEER = base.Peer(
    name="django-tasks-db",
    label="django-tasks-db",
    package="django-tasks-db",
    requires=("django-tasks-db", "django", "psycopg[binary]"),
    client=Client,
    setup=setup,
    worker=worker,
    settings="one job at a time per process, persistent connections",
    guess=180,
    drain_concurrency=1,
    one_at_a_time=True,
    left="select count(*) from django_tasks_database_dbtaskresult where status in ('READY', 'RUNNING')",
    claim=r"skip locked",
)

if __name__ == "__main__":
    base.run(PEER)
