"""What the peers that are backends of Django's Tasks framework have in common."""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any


def configure(app: str, backend: str, options: Mapping[str, Any] | None = None) -> None:
    """Choose the backend for this process and those that it starts."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.compare.peers.django_settings"
    os.environ["COMPARE_APP"] = app
    os.environ["COMPARE_BACKEND"] = backend
    os.environ["COMPARE_OPTIONS"] = json.dumps(options or {})


def migrate() -> None:
    """Make the tables."""
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0, interactive=False)


def become(*command: str) -> None:
    """Become a management command."""
    os.execv(sys.executable, [sys.executable, "-m", "django", *command])


class Client:
    """Enqueues one by one."""

    def __init__(self, app: str, backend: str) -> None:
        configure(app, backend)

    def open(self) -> None:
        """Connect."""
        import django

        django.setup()
        from django.db import connection

        from benchmarks.compare.peers.jobs import django as jobs

        connection.ensure_connection()
        self.tasks = vars(jobs)

    def one(self, number: int, task: str) -> Any:
        """Enqueue a job."""
        return self.tasks[task].enqueue(number)

    def close(self) -> None:
        """Disconnect."""
        from django.db import connection

        connection.close()
