"""Signals of djqueue itself; those of Django's Tasks framework (`task_enqueued`, `task_started`, `task_finished`) are
sent as well, by the backend and the worker.

Receivers run in the process that does the work and must be quick; their exceptions are logged and change nothing.
"""

from django.dispatch import Signal

worker_started = Signal()
"""A worker process is ready to claim. Arguments: `worker_id`."""

worker_stopping = Signal()
"""A worker process has stopped claiming. Arguments: `worker_id`."""
