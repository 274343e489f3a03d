"""A look at the database before the first worker starts, in a short-lived process: the parent never has a connection.

Without tables nothing could ever work, so the command ends at once and says the remedy. A database that is away is no
reason to end: workers wait for it.
"""

import logging
import signal
from multiprocessing.connection import Connection, wait

from djqueue.conf import nearest
from djqueue.runtime import process
from djqueue.runtime.children import Child, Spawner
from djqueue.runtime.plan import Plan
from djqueue.store import claim, db, faults, workers

log = logging.getLogger("djqueue")

EXIT_NO_TABLES = 78
"""The exit code of the command where djqueue's tables are missing."""

LONGEST_LOOK_SECONDS = 3.0


def look(spawner: Spawner, parent_read: Connection) -> int:
    """Let a child look; return 0 where workers may start, else the exit code. A signal to stop ends the look."""
    try:
        child = Child(spawner.start("preflight", process.run_preflight))
    except OSError:
        return 0  # the same will be said of the workers
    wait([child.process.sentinel, parent_read], LONGEST_LOOK_SECONDS)
    child.signal(signal.SIGKILL)
    child.process.join()
    return EXIT_NO_TABLES if child.exit_code == EXIT_NO_TABLES else 0


def run(plan: Plan) -> int:
    """Look, in the child; return its exit code."""
    try:
        _warn_of_unknown_queues(plan)
    except (*faults.ERRORS, OSError) as error:
        if faults.is_missing_table(error):
            log.critical("the tables are missing: run manage.py migrate database=%s", plan.alias)
            return EXIT_NO_TABLES
        log.debug("no look at the database before the start error=%s", faults.words(error))
    finally:
        db.drop(plan.alias)
    return 0


def _warn_of_unknown_queues(plan: Plan) -> None:
    """Where the settings list no queues any name may be right, and a misspelt one would be served in silence."""
    known = [*plan.known_queues, *workers.queue_settings(plan.alias), *claim.queues_with_jobs(plan.alias)]
    for name in sorted({*plan.selection.weights, *plan.selection.excluded} - set(known)):
        log.warning(
            "no jobs and no settings of this queue so far, is it misspelt? queue=%s%s", name, nearest(name, known)
        )
