"""`manage.py djqueue replay`: dead letters by cause, queue or task, at a rate, canary first.

It parses, calls and prints. It takes the steps that the leader takes as well, and follows the run to its end; where it
is interrupted, the leader goes on alone.
"""

import math
import sys
from dataclasses import asdict
from time import sleep
from typing import Any

from django.core.management.base import CommandError

from djqueue.management.verbs.common import PARTLY, Print, as_json, backend_of, stored, user, verb, whole
from djqueue.store import letters, replay
from djqueue.store.letters import Letters
from djqueue.store.replay import Standing, Wanted

LOOK_SECONDS = 0.2


def add_arguments(verbs: Any) -> None:
    """Declare the verb."""
    parser = verb(verbs, "replay", "make dead letters jobs again at a rate, a few first, and stop when they fail")
    parser.add_argument("--cause", default="", metavar="FINGERPRINT", help="those of this cause")
    parser.add_argument("--queue", default="", metavar="QUEUE", help="those of this queue")
    parser.add_argument("--task", default="", metavar="TASK", help="those of this task")
    parser.add_argument("--all", action="store_true", help="all dead letters there are")
    parser.add_argument("--rate", default="10", metavar="N", help="dead letters per second (10)")
    parser.add_argument("--canary", default="5", metavar="N", help="how many go first, alone (5)")
    parser.add_argument("--stop-ratio", default="0.2", metavar="N", help="stop when a larger share fails (0.2)")
    parser.add_argument("--detach", action="store_true", help="leave it to the leader of the workers at once")
    parser.set_defaults(run=_replay)


def _replay(options: dict[str, Any], out: Print) -> None:
    alias = backend_of(options).alias_of_database
    wanted = _wanted(options)
    if not letters.count(alias, wanted.letters):
        raise CommandError("replay: expected dead letters that match, got none")
    id_ = replay.create(alias, wanted)
    standing = _standing(alias, id_) if options["detach"] else _followed(alias, id_)
    out(as_json(asdict(standing)) if options["json"] else _said(standing))
    if standing.state == "stopped" or standing.refused or standing.failed:
        sys.exit(PARTLY)


def _wanted(options: dict[str, Any]) -> Wanted:
    cause, queue, task = (stored(f"--{name}", options[name]) for name in ("cause", "queue", "task"))
    if bool(cause or queue or task) == options["all"]:
        got = "both" if options["all"] else "none"
        raise CommandError(f"replay: expected --cause, --queue, --task or --all, got {got}")
    return Wanted(
        letters=Letters(fingerprint=cause or None, queue_name=queue or None, task_name=task or None),
        per_second=_number("--rate", options["rate"], 0.001, 10_000),
        canary=whole("--canary", options["canary"], 0, 10_000),
        stop_ratio=_number("--stop-ratio", options["stop_ratio"], 0, 1),
        by=user(),
    )


def _number(flag: str, text: str, low: float, high: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise CommandError(f"{flag}: expected a number from {low:g} to {high:,.0f}, got {text!r}")
    return value


def _followed(alias: str, id_: int) -> Standing:
    """Step until the end; the leader may take steps as well. A run that somebody pauses is waited for."""
    while True:
        replay.step(alias, id_)
        standing = _standing(alias, id_)
        if sys.stderr.isatty():
            print(f"\r{_figures(standing)}", end="", file=sys.stderr)  # noqa: T201
        if standing.state in ("stopped", "finished"):
            return standing
        sleep(LOOK_SECONDS)


def _standing(alias: str, id_: int) -> Standing:
    standing = replay.look(alias, id_)
    if standing is None:
        raise CommandError("replay: the run is gone: somebody has deleted it")
    return standing


def _figures(standing: Standing) -> str:
    refused = f", {standing.refused:,} refused (their key is taken)" if standing.refused else ""
    return (
        f"{standing.requeued:,} of {standing.total:,} queued again, {standing.succeeded:,} succeeded, "
        f"{standing.failed:,} failed{refused}"
    )


def _said(standing: Standing) -> str:
    reason = f": {standing.reason}" if standing.reason else ""
    return f"Replay {standing.id} {standing.state}{reason}. {_figures(standing)}."
