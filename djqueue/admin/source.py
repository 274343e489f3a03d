"""Where the admin's rows are and which queues and tasks there are: what the project's djqueue backends say."""

from djqueue.api import registry
from djqueue.api.redaction import Redaction
from djqueue.backend import DjqueueBackend
from djqueue.compat import task_backends
from djqueue.conf import Options
from djqueue.models import Queue

MOST_QUEUES = 500


def backends() -> list[DjqueueBackend]:
    """Return the project's djqueue backends, in the order of the settings."""
    return [backend for backend in task_backends.all() if isinstance(backend, DjqueueBackend)]


def options() -> Options:
    """Return the options that the admin goes by: the first backend's."""
    found = backends()
    return found[0].djqueue_options if found else Options()


def alias() -> str:
    """Return the database alias that the admin shows, whatever a router says of reads."""
    return options().database


def redaction() -> Redaction:
    """Return the hook that takes secrets out of what is shown."""
    return Redaction(options().redact)


def settings_queues() -> set[str]:
    """Return the names of the queues that the settings list."""
    return {name for backend in backends() for name in backend.queues}


def queue_names() -> list[str]:
    """Return the names of the queues that the settings list or that have a row; never by looking at jobs."""
    with_rows = Queue.objects.using(alias()).order_by("name").values_list("name", flat=True)[:MOST_QUEUES]
    return sorted(settings_queues().union(with_rows))


def task_names() -> list[str]:
    """Return the names of the tasks that the project knows, in order."""
    registry.load()
    return registry.names()
