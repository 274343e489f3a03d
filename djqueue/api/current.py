"""Which job runs here: set by the executor around a handler, asked when a job is enqueued, so that the new job can say
where it comes from."""

from contextvars import ContextVar
from uuid import UUID

running_job: ContextVar[UUID | None] = ContextVar("djqueue_running_job", default=None)
"""The id of the job whose handler this is; None outside of handlers. Threads that a handler starts don't inherit it."""
