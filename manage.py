#!/usr/bin/env python
"""Run Django's commands for the shop; without DATABASE_URL, start PostgreSQL first.

The settings start nothing. This is the only place that does, and it exports DATABASE_URL, so that the processes
started from here (runserver's reloader, workers) use the same server.
"""

import os
import sys
from contextlib import AbstractContextManager, nullcontext

from django.core.management import execute_from_command_line

from testproject.embedded import EmbeddedServer, EmbeddedServerError
from testproject.embedded.home import default_data_dir


def main() -> None:
    """Run the command that the arguments name."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    try:
        with database():
            execute_from_command_line(sys.argv)
    except EmbeddedServerError as error:
        sys.exit(f"{type(error).__name__}: {error}")


def database() -> AbstractContextManager[object]:
    """Use the database that DATABASE_URL names, or else an embedded one for as long as the command runs."""
    if os.environ.get("DATABASE_URL"):
        return nullcontext()
    server = EmbeddedServer(data_dir=default_data_dir()).start()
    os.environ["DATABASE_URL"] = server.url
    return server


if __name__ == "__main__":
    main()
