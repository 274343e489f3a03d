"""Celery's application and tasks."""

from celery import Celery

from benchmarks.compare import handlers
from benchmarks.compare.peers import base

app = Celery("compare", broker=base.redis_url())
app.conf.update(task_ignore_result=True, task_acks_late=True, worker_hijack_root_logger=False)


@app.task(name="noop")
def noop(number: int) -> None:
    """Do nothing."""
    handlers.noop(number)


@app.task(name="short")
def short(number: int) -> None:
    """Wait 10 ms."""
    handlers.short(number)
