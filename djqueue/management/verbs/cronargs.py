"""The arguments of `manage.py djqueue cron …`."""

from argparse import ArgumentParser
from typing import Any

from djqueue.policy.cronfires import GRACE_SECONDS


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="cron_verb", required=True, metavar="VERB")
    _verb(verbs, "list", "all entries, their next and last fires")
    add = _verb(verbs, "add", "add an entry; nothing fires because of it")
    _add_arguments(add)
    preview = _verb(verbs, "preview", "fires, in local time and UTC, and every change of the clock in twelve months")
    preview.add_argument("name")
    preview.add_argument("--from", dest="start", metavar="MOMENT", help="for example 2026-03-28 (default: now)")
    preview.add_argument("--to", dest="end", metavar="MOMENT", help="default: after ten fires")
    for name, words in (("run-now", "enqueue a job now"), ("pause", "switch off"), ("resume", "switch on")):
        _verb(verbs, name, words).add_argument("name")
    crontab = _verb(verbs, "import-crontab", "show what a crontab's lines would make")
    crontab.add_argument("file")
    crontab.add_argument("--task", help="the task that gets each command as its only argument")
    crontab.add_argument("--tz", default="UTC", help="the zone of lines without CRON_TZ (default: UTC)")
    crontab.add_argument("--system", action="store_true", help="lines have a column for the user, as in /etc/crontab")
    beat = _verb(verbs, "import-celery-beat", "show what django-celery-beat's tables would make")
    for each in (crontab, beat):
        each.add_argument("--apply", action="store_true", help="make the entries, paused; names that exist stay")


def _verb(verbs: Any, name: str, words: str) -> Any:
    parser = verbs.add_parser(name, help=words, description=words)
    parser.add_argument("--backend", default="default", help="alias in TASKS (default: default)")
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    return parser


def _add_arguments(parser: Any) -> None:
    parser.add_argument("name")
    parser.add_argument("schedule", help='five fields or an alias, for example "30 2 * * *"')
    parser.add_argument("task", help="the dotted path of a task")
    parser.add_argument("--tz", default="UTC", help="the zone whose clock the schedule means (default: UTC)")
    parser.add_argument("--args", dest="job_args", default="[]", help="a JSON list")
    parser.add_argument("--kwargs", dest="job_kwargs", default="{}", help="a JSON object")
    parser.add_argument("--queue", default="", help="default: the task's own")
    parser.add_argument("--missed", default="run_once", help="skip, run_once, run_all or run_all(n)")
    parser.add_argument("--grace-seconds", type=int, default=GRACE_SECONDS)
    parser.add_argument("--overlap", default="allow", help="allow, skip or queue_one")
    parser.add_argument("--jitter-seconds", type=int, default=0)
    parser.add_argument("--paused", action="store_true", help="switched off at first")
