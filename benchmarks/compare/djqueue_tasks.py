"""The comparison's jobs as djqueue's tasks."""

from benchmarks.compare import handlers
from djqueue import task


@task
def noop(number: int) -> None:
    """Do nothing."""
    handlers.noop(number)


@task
def short(number: int) -> None:
    """Wait 10 ms."""
    handlers.short(number)
