"""`manage.py djqueue health`: whether workers are able to work, for probes. It calls and prints."""

import socket
import sys
from dataclasses import asdict
from typing import Any

from djqueue.backend import DjqueueBackend
from djqueue.management.verbs.common import Print, as_json, backend_of, seconds, verb
from djqueue.policy import alive
from djqueue.policy.alive import Problem, WorkerLook
from djqueue.store import alive as store
from djqueue.store import faults

UNHEALTHY = 4
"""The exit code where something is not healthy."""


def add_arguments(verbs: Any) -> None:
    """Declare the verb."""
    parser = verb(verbs, "health", "whether workers look for jobs, somebody leads and the database answers")
    parser.add_argument("--max-age", metavar="DURATION", help="how old a worker's last look for jobs may be")
    parser.add_argument("--this-host", action="store_true", help="judge only the workers of this host")
    parser.set_defaults(run=_health)


def _health(options: dict[str, Any], out: Print) -> None:
    backend = backend_of(options)
    given, settings = options["max_age"], backend.djqueue_options
    most = seconds("--max-age", given) if given else alive.patience(settings.beat_seconds, settings.poll_seconds)
    workers, problems = _looked(backend, socket.gethostname() if options["this_host"] else "", most)
    if options["json"]:
        answer = {"healthy": not problems, "max_age_seconds": most, "problems": [asdict(each) for each in problems]}
        out(as_json({**answer, "workers": [asdict(each) for each in workers]}))
    else:
        out("\n".join(f"{each.id}: {each.found}" for each in problems) or f"Healthy: {len(workers)} workers.")
    if problems:
        sys.exit(UNHEALTHY)


def _looked(backend: DjqueueBackend, host: str, most: float) -> tuple[list[WorkerLook], list[Problem]]:
    alias = backend.alias_of_database
    try:
        workers = store.looks(alias, host)
        return workers, alive.problems(workers, store.leaderless_seconds(alias), most)
    except faults.ERRORS as error:
        return [], [Problem(id="database", found=f"the database did not answer: {faults.words(error)}")]
