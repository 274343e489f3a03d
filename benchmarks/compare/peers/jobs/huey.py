"""huey's instance and tasks."""

from huey import PostgresHuey

from benchmarks.compare import handlers
from benchmarks.compare.peers import base

queue = PostgresHuey("compare", dsn=base.dsn(), results=False)


@queue.task()
def noop(number: int) -> None:
    """Do nothing."""
    handlers.noop(number)


@queue.task()
def short(number: int) -> None:
    """Wait 10 ms."""
    handlers.short(number)
