"""`manage.py djqueue import`: move the waiting jobs of another queue here. It parses, calls and prints."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from django.core.management.base import CommandError

from djqueue.api.importing import Decode, Move, Report, Unfit, run
from djqueue.management.verbs.common import PARTLY, Print, as_json, backend_of, known_task, verb, whole
from djqueue.policy import words
from djqueue.store.foreign import SOURCES, Waiting

Q2_WITHOUT = ("hook", "chain", "iter_count", "iter_cached", "cached", "sync")
"""What a job of django-q2 may ask for that no job here can do."""


def add_arguments(verbs: Any) -> None:
    """Declare the verb."""
    parser = verb(verbs, "import", "move the waiting jobs of another queue here, a batch per transaction")
    parser.add_argument("--from", dest="source", required=True, choices=sorted(SOURCES), help="the other queue")
    parser.add_argument("--dry-run", action="store_true", help="do all of it and roll it back")
    parser.add_argument("--map", action="append", default=[], metavar="OLD=NEW", help="a task with another name")
    parser.add_argument(
        "--queue", action="append", default=[], metavar="OLD=NEW", help="a queue with another name here"
    )
    parser.add_argument("--batch", default="500", help="jobs per transaction: 1 to 10,000 (default: 500)")
    parser.set_defaults(run=_import)


def _import(options: dict[str, Any], out: Print) -> None:
    tasks = _pairs("--map", options["map"])
    move = Move(
        source=options["source"],
        backend=backend_of(options),
        tasks={old: known_task(new).module_path for old, new in tasks.items()},
        queues=_pairs("--queue", options["queue"]),
        batch=whole("--batch", options["batch"], 1, 10_000),
        dry_run=options["dry_run"],
        decode=_q2() if options["source"] == "django-q2" else None,
    )
    report = _worked_off(move)
    out(as_json(_answer(move, report)) if options["json"] else "\n".join(_said(move, report)))
    if report.left:
        sys.exit(PARTLY)


def _worked_off(move: Move) -> Report:
    report = Report()
    try:
        for report in run(move):
            if sys.stderr.isatty():
                print(f"\r{sum(report.moved.values()):,}", end="", file=sys.stderr)  # noqa: T201
    except LookupError as error:
        raise CommandError(f"import: {error}") from error
    return report


def _pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for old, _, new in pairs:
        if not old or not new:
            raise CommandError(f"{option}: expected OLD=NEW, got {old or new!r}")
    return {old: new for old, _, new in pairs}


def _answer(move: Move, report: Report) -> dict[str, Any]:
    return {
        "from": move.source,
        "dry_run": move.dry_run,
        "moved": dict(report.moved),
        "left": [
            {"reason": why, "jobs": count, "for_example": report.examples[why]}
            for why, count in report.left.most_common()
        ],
        "notes": dict(report.notes),
        "not_waiting": report.others,
    }


def _said(move: Move, report: Report) -> Iterator[str]:
    verb = "would be moved" if move.dry_run else "moved"
    yield f"{words.count(sum(report.moved.values()), 'job')} of {move.source} {verb}."
    yield from (f"  {count:,} {name}" for name, count in report.moved.most_common())
    for note, count in report.notes.most_common():
        yield f"  {count:,}: {note}"
    for why, number, shown in _left(report):
        yield f"{number:,} left: {why} ({', '.join(shown)}{', …' if number > len(shown) else ''})"
    for state, count in report.others.items():
        yield f"{count:,} {state} there: its own workers have them; import again when they are done"


def _left(report: Report) -> list[tuple[str, int, list[str]]]:
    return [(why, number, report.examples[why]) for why, number in report.left.most_common()]


def _q2() -> Decode:
    """Its payloads are signed pickles, which only its own code, with the project's SECRET_KEY, can open."""
    try:
        from django_q.signing import SignedPackage
    except Exception as error:
        raise CommandError(
            "import: expected django-q2 to be installed and in INSTALLED_APPS, since its payloads are signed pickles "
            f"that only its own code can open; got {type(error).__name__}: {error}"
        ) from error

    def decode(job: Waiting) -> tuple[str, Any, dict[str, Any]]:
        try:
            package = SignedPackage.loads(job.payload)
        except Exception as error:
            raise Unfit(f"its payload can't be opened: {type(error).__name__}") from None
        return _of_package(package)

    return decode


def _of_package(package: dict[str, Any]) -> tuple[str, Any, dict[str, Any]]:
    wanted = sorted(name for name in Q2_WITHOUT if package.get(name))
    if wanted:
        raise Unfit(f"it asks for {', '.join(wanted)}, which no job here can do")
    func = package["func"]
    name = func if isinstance(func, str) else getattr(func, "module_path", None)
    name = name or f"{func.__module__}.{func.__qualname__}"
    return name, {"args": package["args"], "kwargs": package["kwargs"]}, {"timeout_seconds": package.get("timeout")}
