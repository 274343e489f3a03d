"""The backend that a test's helpers work on."""

from djqueue.backend import DjqueueBackend
from djqueue.compat import task_backends


def djqueue_backend(alias: str, who: str) -> DjqueueBackend:
    """Return the djqueue backend of this alias; raise `TypeError` where it is another one, in the name of `who`."""
    backend = task_backends[alias]
    if not isinstance(backend, DjqueueBackend):
        raise TypeError(
            f"{who}: expected a djqueue backend for {alias!r}, got {type(backend).__name__}; let the test's TASKS "
            "setting name djqueue.backend.DjqueueBackend"
        )
    return backend
