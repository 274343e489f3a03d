"""Letting a cron entry fire now, by hand: the same job as by the clock, recorded as a manual fire."""

from uuid import UUID

from djqueue.admin import source
from djqueue.runtime.cron_jobs import CronJobs
from djqueue.store import cronedit, cronfire


class CannotRun(Exception):
    """The entry is gone, or its job can't be made."""


def run_now(name: str) -> UUID | None:
    """Enqueue a job of an entry and return its id. Raises `CannotRun` with what is wrong."""
    backend = source.backends()[0]
    entry = cronedit.find(source.alias(), name)
    if entry is None:
        raise CannotRun("it was deleted meanwhile")
    jobs = CronJobs(backend.alias)
    try:
        job = jobs.prepare(entry)
    except Exception as fault:  # whatever a signature or a callable of the project raises
        raise CannotRun(str(fault)) from fault
    return cronfire.fire_by_hand(source.alias(), entry, lambda fires: jobs.enqueue([(job, 0)])).job_id
