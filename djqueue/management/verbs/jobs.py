"""`manage.py djqueue list`, `show` and `enqueue`: find jobs, look at one, make one. It parses, calls and prints."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError
from django.db import Error

from djqueue.api.redaction import Redaction
from djqueue.api.shown import shown
from djqueue.compat import InvalidTask
from djqueue.exceptions import DjqueueError
from djqueue.management.verbs.common import (
    Print,
    as_json,
    backend_of,
    job_id,
    known_task,
    moment,
    parsed,
    said,
    seconds,
    verb,
    whole,
)
from djqueue.policy.search import SearchInvalid, parse
from djqueue.store import search
from djqueue.store.search import TOP, Hit

MOST_LISTED = 10_000


def add_arguments(verbs: Any) -> None:
    """Declare the verbs."""
    listing = verb(verbs, "list", "jobs that fit, newest first, wherever they stand")
    listing.add_argument("search", nargs="*", metavar="SEARCH", help="for example state:dead queue:emails older:10m")
    listing.add_argument("--limit", default="50", help="so many at the most (default: 50)")
    listing.add_argument("--before", metavar="ID", help="go on below this id, as the answer before has said")
    listing.set_defaults(run=_list)
    show = verb(verbs, "show", "one job with all that its row holds")
    show.add_argument("id", metavar="ID")
    show.add_argument("--no-payload", action="store_true", help="leave out arguments, results and errors")
    show.set_defaults(run=_show)
    enqueue = verb(verbs, "enqueue", "write a job")
    enqueue.add_argument("task", metavar="TASK", help="the dotted path of a task")
    enqueue.add_argument("--args", dest="job_args", default="[]", help="a JSON list")
    enqueue.add_argument("--kwargs", dest="job_kwargs", default="{}", help="a JSON object")
    enqueue.add_argument("--queue", help="default: the task's own")
    enqueue.add_argument("--priority", help="-100 to 100, higher first (default: the task's own)")
    enqueue.add_argument("--in", dest="delay", metavar="DURATION", help="for example 90s, 15m, 2h or 3d")
    enqueue.add_argument("--at", metavar="MOMENT", help="for example 2026-03-28T12:00")
    enqueue.add_argument("--dedupe-key", help="no second job while an unfinished one holds the key")
    enqueue.set_defaults(run=_enqueue)


def _list(options: dict[str, Any], out: Print) -> None:
    alias = backend_of(options).alias_of_database
    limit = whole("--limit", options["limit"], 1, MOST_LISTED)
    before = job_id(options["before"]) if options["before"] else TOP
    try:
        wanted = parse(" ".join(options["search"]))
    except SearchInvalid as error:
        raise CommandError(f"list: {error}") from error
    page = search.page(alias, wanted, before=before, limit=limit)
    if options["json"]:
        out(as_json({"jobs": [each._asdict() for each in page.hits], "next": page.after}))
    else:
        out("\n".join(_listed(page.hits, page)) or "No jobs.")


def _listed(hits: list[Hit], page: search.Page) -> Iterator[str]:
    for each in hits:
        tries = f"{each.attempts}" if each.max_attempts is None else f"{each.attempts}/{each.max_attempts}"
        note = f"  ({each.note})" if each.note else ""
        when = each.ended_at or each.started_at or each.run_at
        yield f"{each.id}  {each.state:<9}  {said(when)}  {tries:>5}  {each.queue_name}  {each.task_name}{note}"
    if page.after is not None:
        yield f"There may be more: --before {page.after}"


def _show(options: dict[str, Any], out: Print) -> None:
    backend = backend_of(options)
    id_ = job_id(options["id"])
    found = shown(backend.alias_of_database, id_, Redaction(backend.redact), payload=not options["no_payload"])
    if found is None:
        raise CommandError(f"expected the id of a job, got {id_}, which is in no table: never enqueued, or pruned")
    out(as_json(found) if options["json"] else "\n".join(_shown(found)))


def _shown(found: dict[str, Any]) -> Iterator[str]:
    for name, value in found.items():
        if value not in (None, "", [], {}):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
            yield f"{name + ':':<20} " + text.replace("\n", "\n" + " " * 21)


def _enqueue(options: dict[str, Any], out: Print) -> None:
    backend_of(options)
    task = known_task(options["task"])
    args, kwargs = parsed("--args", options["job_args"], list), parsed("--kwargs", options["job_kwargs"], dict)
    try:
        result = task.using(**_choices(options)).enqueue(*args, **kwargs)
    except (DjqueueError, InvalidTask, TypeError, ValueError) as error:
        raise CommandError(f"enqueue: {error}") from error
    except Error as error:
        raise CommandError(f"enqueue: the database refused: {error}") from error
    created = bool(getattr(result, "created", True))
    answer = {"id": result.id, "created": created, "task": task.module_path, "queue": result.task.queue_name}
    words = "is enqueued" if created else "holds the dedupe key already; nothing was written"
    out(as_json(answer) if options["json"] else f"Job {result.id} {words}.")


def _choices(options: dict[str, Any]) -> dict[str, Any]:
    if options["delay"] and options["at"]:
        raise CommandError("expected --in or --at, got both")
    choices = {
        "backend": options["backend"],
        "queue_name": options["queue"],
        "dedupe_key": options["dedupe_key"],
        "priority": None if options["priority"] is None else whole("--priority", options["priority"], -100, 100),
        "run_after": moment("--at", options["at"]) if options["at"] else None,
    }
    if options["delay"]:
        choices["run_after"] = timedelta(seconds=seconds("--in", options["delay"]))
    return {name: value for name, value in choices.items() if value is not None}
