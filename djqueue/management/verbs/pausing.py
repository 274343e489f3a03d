"""`manage.py djqueue pause` and `resume`: of a queue, a task or a tenant. It parses, calls and prints."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError

from djqueue.api import registry
from djqueue.conf import nearest
from djqueue.management.verbs.common import (
    Print,
    as_json,
    backend_of,
    known_task,
    moment,
    said,
    seconds,
    stored,
    user,
    verb,
)
from djqueue.store import operate, pauses, workers
from djqueue.store.pauses import Kind

FOREVER = datetime(9999, 12, 31, tzinfo=UTC)
"""Until somebody resumes it."""

LONGEST_NAME = {Kind.QUEUE: 100, Kind.TASK: 300, Kind.TENANT: 200}


def add_arguments(verbs: Any) -> None:
    """Declare both verbs."""
    pause = verb(verbs, "pause", "let no job of a queue, a task or a tenant start; what runs goes on")
    _add_target(pause)
    pause.add_argument("--until", metavar="MOMENT", help="for example 2026-03-28T12:00")
    pause.add_argument("--for", dest="duration", metavar="DURATION", help="for example 90s, 15m, 2h or 3d")
    pause.add_argument("--reason", default="", help="shown wherever the pause is")
    pause.add_argument("--by", default="", help="who says so (default: the user of the system)")
    pause.set_defaults(run=_pause)
    resume = verb(verbs, "resume", "let a queue, a task or a tenant go on")
    _add_target(resume)
    resume.set_defaults(run=_resume)


def _add_target(parser: Any) -> None:
    parser.add_argument("queue", nargs="?", metavar="QUEUE")
    parser.add_argument("--task", metavar="TASK", help="the dotted path of a task")
    parser.add_argument("--tenant", metavar="TENANT", help="a tenant's id")


def _pause(options: dict[str, Any], out: Print) -> None:
    alias = backend_of(options).alias_of_database
    kind, name = _target(options)
    until = _until(alias, options)
    reason, by = stored("--reason", options["reason"]), stored("--by", options["by"]) or user()
    if kind is Kind.QUEUE:
        operate.pause(alias, name, until, reason=reason, by=by)
    else:
        pauses.pause(alias, kind, name, until, reason=reason, by=by)
    answer = {"kind": str(kind), "name": name, "until": until, "reason": reason, "by": by}
    when = "until it is resumed" if until == FOREVER else f"until {said(until)}"
    out(as_json(answer) if options["json"] else f"{kind} {name} is paused {when}; what runs goes on.")


def _resume(options: dict[str, Any], out: Print) -> None:
    alias = backend_of(options).alias_of_database
    kind, name = _target(options, is_new=False)
    names = _same(kind, name)
    paused = [each.name for each in pauses.in_force(alias) if each.kind is kind and each.name in names]
    if not paused:
        raise CommandError(f"resume: expected something that is paused, got {kind} {name!r}, which is not")
    for each in paused:
        if kind is Kind.QUEUE:
            operate.pause(alias, each, None)
        else:
            pauses.resume(alias, kind, each)
    out(as_json({"kind": str(kind), "name": name}) if options["json"] else f"{kind} {name} goes on.")


def _same(kind: Kind, name: str) -> list[str]:
    """The names under which it may be paused: a task may have others, from before it was renamed."""
    if kind is not Kind.TASK:
        return [name]
    registry.load()
    return registry.same(name)


def _target(options: dict[str, Any], *, is_new: bool = True) -> tuple[Kind, str]:
    given = [(kind, options[kind]) for kind in Kind if options[kind] is not None]
    if len(given) != 1:
        raise CommandError(f"expected one of QUEUE, --task and --tenant, got {len(given) or 'none'} of them")
    [(kind, name)] = given
    if not 0 < len(name) <= LONGEST_NAME[kind]:
        raise CommandError(f"{kind}: expected a name of 1 to {LONGEST_NAME[kind]} characters, got {name!r}")
    stored(kind, name)
    if is_new and kind is Kind.QUEUE:
        _check_queue(options, name)
    if is_new and kind is Kind.TASK:
        known_task(name)
    return kind, name


def _check_queue(options: dict[str, Any], name: str) -> None:
    backend = backend_of(options)
    known = sorted({*backend.queues, *workers.queue_settings(backend.alias_of_database)})
    if name not in known:
        raise CommandError(
            f"expected a queue that the settings list or that has a row, got {name!r}{nearest(name, known)}"
        )


def _until(alias: str, options: dict[str, Any]) -> datetime:
    if options["until"] and options["duration"]:
        raise CommandError("expected --until or --for, got both")
    if options["duration"]:
        return pauses.from_now(alias, seconds("--for", options["duration"]))
    if not options["until"]:
        return FOREVER
    until = moment("--until", options["until"])
    if until <= pauses.from_now(alias, 0):
        raise CommandError(f"--until: expected a moment ahead, got {said(until)}")
    return until
