"""`manage.py djqueue VERB`: everything about the queue under one name."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from djqueue.management.commands.runworker import (
    add_worker_arguments,
    run_worker,
    with_checks_where_work_is_done,
)
from djqueue.management.verbs import (
    acts,
    circuits,
    cron,
    doctor,
    health,
    importing,
    jobs,
    pausing,
    replay,
    sizing,
    stats,
    why,
)

GROUPS = (stats, jobs, why, acts, pausing, importing, circuits, sizing, doctor, replay, health)
"""Each declares its verbs, and with each what runs it."""


class Command(BaseCommand):
    help = "Run and operate the job queue. `djqueue worker` is the same as `runworker`."
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        add_worker_arguments(verbs.add_parser("worker", help="run jobs"))
        cron.add_arguments(verbs.add_parser("cron", help="look at recurring jobs and change them"))
        for group in GROUPS:
            group.add_arguments(verbs)

    def execute(self, *args: Any, **options: Any) -> str | None:
        return super().execute(*args, **with_checks_where_work_is_done(options))

    def handle(self, *args: Any, **options: Any) -> None:
        match options["verb"]:
            case "worker":
                run_worker(options)
            case "cron":
                cron.run(options, self.stdout.write)
            case _:
                options["run"](options, self.stdout.write)
