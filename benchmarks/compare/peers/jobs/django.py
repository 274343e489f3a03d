"""The comparison's jobs as tasks of Django's own framework, for the peers that are backends of it."""

from django.tasks import task

from benchmarks.compare import handlers


@task
def noop(number: int) -> None:
    """Do nothing."""
    handlers.noop(number)


@task
def short(number: int) -> None:
    """Wait 10 ms."""
    handlers.short(number)
