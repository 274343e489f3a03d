"""`manage.py djqueue cron …`: look at recurring jobs and change them; it parses, calls and prints.

Saving fires nothing; `run-now` alone enqueues a job. Imports show what they would make; `--apply` makes it.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from django.core.management.base import CommandError

from djqueue.api import cron as declarations
from djqueue.api import registry
from djqueue.backend import DjqueueBackend
from djqueue.conf import nearest
from djqueue.exceptions import ArgumentsError, ConfigurationError
from djqueue.management.verbs import cronimport, cronsaid
from djqueue.management.verbs.common import Print, as_json, backend_of, parsed
from djqueue.management.verbs.cronargs import add_arguments
from djqueue.management.verbs.cronimport import Proposal
from djqueue.policy.cron import CronExpression
from djqueue.policy.cronpreview import fires_between, local, zone_changes
from djqueue.policy.cronwords import in_words
from djqueue.runtime.cron_jobs import CronJobs
from djqueue.store import cronedit, cronfire, db
from djqueue.store.cron import Entry
from djqueue.store.cronsync import Declared

__all__ = ["add_arguments", "run"]

MOST_SHOWN = 1_000
YEAR = timedelta(days=365)


def run(options: dict[str, Any], out: Print) -> None:
    """Do what the command line asks."""
    registry.load()
    backend = backend_of(options)
    answer = _VERBS[options["cron_verb"]](backend, options)
    out(as_json(answer) if options["json"] else cronsaid.say(options["cron_verb"], answer))


def _list(backend: DjqueueBackend, options: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**each, "words": _schedule_words(each)} for each in cronedit.entries(backend.alias_of_database)]


def _add(backend: DjqueueBackend, options: dict[str, Any]) -> dict[str, Any]:
    entry = _checked(
        "cron add",
        options["task"],
        name=options["name"],
        schedule=options["schedule"],
        tz=options["tz"],
        args=parsed("--args", options["job_args"], list),
        kwargs=parsed("--kwargs", options["job_kwargs"], dict),
        missed=options["missed"],
        grace_seconds=options["grace_seconds"],
        overlap=options["overlap"],
        jitter_seconds=options["jitter_seconds"],
        queue_name=options["queue"],
    )
    if not cronedit.add(backend.alias_of_database, entry, enabled=not options["paused"]):
        raise CommandError(f"cron add: expected a name that is free, got {entry.name!r}; choose another")
    found = _found(backend, entry.name)
    return {**_preview_of(found, found.now, None), "added": True, "enabled": not options["paused"]}


def _preview(backend: DjqueueBackend, options: dict[str, Any]) -> dict[str, Any]:
    entry = _found(backend, options["name"])
    try:
        zone = ZoneInfo(entry.timezone)
    except (KeyError, ValueError, OSError):
        zone = ZoneInfo("UTC")
    start = _moment("--from", options["start"], zone) or entry.now
    return _preview_of(entry, start, _moment("--to", options["end"], zone))


def _run_now(backend: DjqueueBackend, options: dict[str, Any]) -> dict[str, Any]:
    entry = _found(backend, options["name"])
    jobs = CronJobs(backend.alias)
    try:
        job = jobs.prepare(entry)
    except Exception as error:
        raise CommandError(f"cron run-now {entry.name}: {error}") from error
    fired = cronfire.fire_by_hand(backend.alias_of_database, entry, lambda fires: jobs.enqueue([(job, 0)]))
    return {"name": entry.name, "job": fired.job_id}


def _pause(backend: DjqueueBackend, options: dict[str, Any]) -> dict[str, Any]:
    return _switched(backend, options["name"], on=False)


def _resume(backend: DjqueueBackend, options: dict[str, Any]) -> dict[str, Any]:
    return _switched(backend, options["name"], on=True)


def _import_crontab(backend: DjqueueBackend, options: dict[str, Any]) -> dict[str, Any]:
    try:
        text = Path(options["file"]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cron import-crontab: {error}") from error
    if options["apply"] and not options["task"]:
        raise CommandError("cron import-crontab --apply: expected --task, a task that runs a command, got none")
    proposals = cronimport.from_crontab(text, options["tz"], options["task"] or "", system=options["system"])
    return _imported(backend, proposals, options["apply"])


def _import_celery_beat(backend: DjqueueBackend, options: dict[str, Any]) -> dict[str, Any]:
    found = cronedit.celery_beat(backend.alias_of_database)
    if found is None:
        raise CommandError(
            "cron import-celery-beat: expected the table django_celery_beat_periodictask, found none in the database "
            f"{backend.alias_of_database!r}; name the backend of another database with --backend"
        )
    return _imported(backend, cronimport.from_celery_beat(found, backend.queues), options["apply"])


_VERBS: dict[str, Callable[[DjqueueBackend, dict[str, Any]], Any]] = {
    "list": _list,
    "add": _add,
    "preview": _preview,
    "run-now": _run_now,
    "pause": _pause,
    "resume": _resume,
    "import-crontab": _import_crontab,
    "import-celery-beat": _import_celery_beat,
}


def _found(backend: DjqueueBackend, name: str) -> Entry:
    entry = cronedit.find(backend.alias_of_database, name)
    if entry is None:
        raise _no_such(backend, name)
    return entry


def _no_such(backend: DjqueueBackend, name: str) -> CommandError:
    close = nearest(name, cronedit.names(backend.alias_of_database))
    return CommandError(f"cron: expected the name of an entry, got {name!r}{close}; `cron list` shows all")


def _switched(backend: DjqueueBackend, name: str, *, on: bool) -> dict[str, Any]:
    may_fire = cronedit.switch(backend.alias_of_database, name, on=on)
    if may_fire is None:
        raise _no_such(backend, name)
    if on and not may_fire:
        raise CommandError(f"cron resume {name}: the code no longer declares this entry, so that it can't fire")
    return {"name": name, "enabled": on}


def _checked(where: str, task_name: str, **values: Any) -> Declared:
    task = registry.get(task_name)
    if task is None:
        close = nearest(task_name, registry.names())
        raise CommandError(f"{where}: expected a task that this project has, got {task_name!r}{close}")
    try:
        return declarations.checked(where, task, **values)
    except (ConfigurationError, ArgumentsError) as error:
        raise CommandError(str(error)) from error


def _imported(backend: DjqueueBackend, proposals: Iterable[Proposal], apply: bool) -> dict[str, Any]:
    """Check each proposal as `cron add` would, and make those that are right if asked to."""
    shown: list[dict[str, Any]] = []
    taken = set(cronedit.names(backend.alias_of_database))
    with db.one_transaction(backend.alias_of_database):
        for each in proposals:
            outcome, problem = "would be made", each.problem
            if not problem and each.name in taken:
                outcome = "exists"
            elif not problem:
                problem = _added(backend, each, apply)
                outcome = "made, paused" if apply else outcome
            shown.append({**asdict(each), "problem": problem, "outcome": "left out" if problem else outcome})
    return {"applied": apply, "entries": shown}


def _added(backend: DjqueueBackend, each: Proposal, apply: bool) -> str:
    """Return why the proposal can't be an entry, or nothing."""
    if not each.task:
        return "" if not apply else "no task"
    values = {"name": each.name, "schedule": each.schedule, "tz": each.timezone, "queue_name": each.queue}
    try:
        entry = _checked("entry", each.task, args=each.args, kwargs=each.kwargs, **values)
    except CommandError as error:
        return str(error)
    if apply:
        cronedit.add(backend.alias_of_database, entry, enabled=False)
    return ""


def _preview_of(entry: Entry, start: datetime, end: datetime | None) -> dict[str, Any]:
    try:
        expression, zone = CronExpression.parse(entry.schedule, entry.name), ZoneInfo(entry.timezone)
    except (ValueError, KeyError, OSError) as error:
        raise CommandError(f"cron preview {entry.name}: it can't fire: {error}") from error
    limit = MOST_SHOWN if end else 10
    fires = list(islice(fires_between(expression, zone, start, end or start + 50 * YEAR), limit))
    changes = zone_changes(expression, zone, start, start + YEAR)
    return {
        "name": entry.name,
        "schedule": expression.text,
        "timezone": entry.timezone,
        "words": in_words(expression, entry.timezone),
        "fires": [_both(at, zone) for at in fires],
        "more": len(fires) == limit,
        "zone_changes": [
            {
                "at": each.at,
                "before": each.before,
                "after": each.after,
                "fires": [{**_both(at, zone), "is_after": at >= each.at} for at in each.fires],
            }
            for each in changes
        ],
    }


def _both(at: datetime, zone: ZoneInfo) -> dict[str, Any]:
    return {"utc": at, "local": local(at, zone)}


def _schedule_words(each: dict[str, Any]) -> str:
    try:
        return in_words(CronExpression.parse(each["schedule"], each["name"]), each["timezone"])
    except ValueError:
        return each["schedule"]  # type: ignore[no-any-return]


def _moment(option: str, text: str | None, zone: ZoneInfo) -> datetime | None:
    """Read a date or a moment, of the entry's zone where it names none."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise CommandError(f"{option}: expected a date or a moment, such as 2026-03-28T12:00, got {text!r}") from error
    return (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(UTC)
