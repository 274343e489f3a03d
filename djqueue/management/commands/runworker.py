"""`manage.py runworker`: run workers until stopped, or until the queues are drained."""

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from djqueue.exceptions import ConfigurationError
from djqueue.management.logging import log_to_console
from djqueue.runtime import reload, start

EXIT_USAGE = 2
"""What the parser of the command line leaves with, too."""


class Command(BaseCommand):
    help = "Run jobs: one supervisor with a keeper and worker processes. SIGTERM drains, a second one stops now."
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        add_worker_arguments(parser)

    def execute(self, *args: Any, **options: Any) -> str | None:
        return super().execute(*args, **with_checks_where_work_is_done(options))

    def handle(self, *args: Any, **options: Any) -> None:
        run_worker(options)


def add_worker_arguments(parser: CommandParser) -> None:
    """Declare the arguments of a worker."""
    parser.add_argument("--queues", default="*", help="for example default:5,email:3 or *,-reports (default: *, all)")
    parser.add_argument("--processes", type=int, default=1, help="worker processes (default: 1)")
    parser.add_argument("--threads", type=int, default=8, help="jobs at a time in each process (default: 8)")
    parser.add_argument("--slots", default="", help="more slots for some queues only, for example critical:2")
    parser.add_argument("--backend", default="default", help="alias in TASKS (default: default)")
    parser.add_argument(
        "--drain",
        nargs="?",
        const="due",
        default="",
        choices=["due", "all"],
        help="end when no job is ready, leased or parked; =all: nor scheduled",
    )
    parser.add_argument("--max-jobs", type=int, default=0, help="replace a worker process after so many jobs")
    parser.add_argument("--max-rss", type=int, default=0, metavar="MB", help="replace one that has so much in memory")
    parser.add_argument("--liveness-file", default="", metavar="PATH", help="touch it while workers are able to work")
    parser.add_argument(
        "--chaos",
        type=float,
        default=0,
        metavar="SHARE",
        help="deliver so many jobs (0.05: one in twenty) twice, or kill their process after their effect",
    )
    parser.add_argument("--pool", default="", help="serve the tenants of this pool: 3/8, or 3/8:2 (two pools for each)")
    parser.add_argument("--no-cron", action="store_true", help="leave recurring jobs to other supervisors")
    parser.add_argument("--no-reaper", action="store_true", help="leave ended leases to other supervisors")
    parser.add_argument("--reload", action="store_true", help="start again when code changes (for development)")


def with_checks_where_work_is_done(options: dict[str, Any]) -> dict[str, Any]:
    """A reloader must live through code that is broken for a moment: only its real worker checks the project."""
    if options.get("reload") and not reload.is_inside():
        return {**options, "skip_checks": True}
    return options


def run_worker(options: dict[str, Any]) -> None:
    """Run a supervisor as asked; leave with its exit code."""
    log_to_console(options["verbosity"])
    if reload.is_inside():
        reload.end_with_reloader()
    elif options["reload"]:
        reload.run()
        return
    try:
        plan = start.make_plan(wishes(options))
    except ConfigurationError as error:
        returncode = EXIT_USAGE if isinstance(error, start.WishRefused) else 1
        raise CommandError(str(error), returncode=returncode) from error
    sys.exit(start.supervise(plan))


def wishes(options: dict[str, Any]) -> start.Wishes:
    """Return what the parsed command line asks for."""
    return start.Wishes(
        queues=options["queues"],
        processes=options["processes"],
        threads=options["threads"],
        backend=options["backend"],
        drain=options["drain"],
        max_jobs=options["max_jobs"],
        max_rss_mb=options["max_rss"],
        liveness_file=options["liveness_file"],
        slots=options["slots"],
        pool=options["pool"],
        chaos=options["chaos"],
        cron=not options["no_cron"],
        reaper=not options["no_reaper"],
    )
