"""What every benchmark needs: a server of its own, Django set up on it, one heavy run at a time, machine facts."""

import fcntl
import os
import platform
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testproject.embedded import EmbeddedServer


@contextmanager
def alone() -> Iterator[None]:
    """Wait until no other benchmark runs on this machine."""
    with open(Path(tempfile.gettempdir()) / "djqueue-benchmark.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def fresh_server() -> Iterator[EmbeddedServer]:
    """Start a temporary server with its default settings, set Django up on it and migrate."""
    with EmbeddedServer() as server:
        os.environ["DATABASE_URL"] = server.url
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0, interactive=False)
        yield server


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    import django
    import psycopg
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("show server_version")
        (server_version,) = cursor.fetchone()
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "django": django.get_version(),
        "psycopg": f"{psycopg.__version__} ({psycopg.pq.__impl__})",
        "postgresql": server_version,
    }


def quartiles(values: Sequence[float]) -> dict[str, float]:
    """Return the median and the quartiles."""
    if len(values) < 2:
        return {"median": values[0], "q1": values[0], "q3": values[0]}
    q1, median, q3 = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": median, "q1": q1, "q3": q3}
