"""`runworker` as on systems that can't fork: every child process is a new interpreter."""

import sys
from typing import Any

from djqueue.management.commands import runworker
from djqueue.runtime import start


class Command(runworker.Command):
    help = "Run jobs with processes that are spawned, not forked. For tests."

    def handle(self, *args: Any, **options: Any) -> None:
        runworker.log_to_console(options["verbosity"])
        sys.exit(start.supervise(start.make_plan(runworker.wishes(options)), start_method="spawn"))
