"""`manage.py djqueue retry`, `cancel`, `requeue` and `prune`: what is done to jobs. It parses, calls and prints.

Jobs are named one by one or by a search; a search is worked off in batches, as the admin's acts on all that match are.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandError

from djqueue.management.verbs.common import PARTLY, Print, as_json, backend_of, ids, user, verb, whole
from djqueue.policy.search import Search, SearchInvalid, parse
from djqueue.runtime.pruning import prune
from djqueue.store import bulk
from djqueue.store.bulk import REFUSED_WORDS, Act, Progress, Wanted

LOOK_SECONDS = 0.05

WORDS = {
    Act.RETRY: ("let waiting jobs start now", "will start as soon as a worker is free"),
    Act.CANCEL: ("cancel unfinished jobs; those that run are asked to stop", "cancelled, or asked to stop"),
    Act.REQUEUE: ("make dead letters jobs again, with all their attempts", "queued again"),
}


def add_arguments(verbs: Any) -> None:
    """Declare the verbs."""
    for act, (words, _) in WORDS.items():
        parser = verb(verbs, str(act), words)
        parser.add_argument("ids", nargs="*", metavar="ID")
        parser.add_argument("--matching", metavar="SEARCH", help="all that fit, for example 'queue:emails older:1h'")
        parser.set_defaults(run=_act, act=act)
    pruning = verb(verbs, "prune", "remove now what is older than the settings keep, as the leader does by and by")
    pruning.add_argument("--history-days", help="another number of days than the settings say; 0: about a minute")
    pruning.add_argument("--dead-letter-days", help="also dead letters older than so many days")
    pruning.set_defaults(run=_prune)


def _act(options: dict[str, Any], out: Print) -> None:
    alias = backend_of(options).alias_of_database
    id_ = bulk.create(alias, _wanted(options))
    progress = _worked_off(alias, id_)
    refused = {REFUSED_WORDS.get(why, why): count for why, count in progress.refused.items()}
    answer = {"act": str(options["act"]), "done": progress.done, "refused": refused}
    out(as_json(answer) if options["json"] else _said(options["act"], progress.done, refused))
    if refused:
        sys.exit(PARTLY)


def _wanted(options: dict[str, Any]) -> Wanted:
    act: Act = options["act"]
    matching = options["matching"]
    if bool(options["ids"]) == (matching is not None):
        raise CommandError(f"{act}: expected ids of jobs or --matching, got {'both' if matching else 'none'}")
    if matching is None:
        return Wanted(act=act, ids=ids(options["ids"]), by=user())
    try:
        search = parse(matching)
    except SearchInvalid as error:
        raise CommandError(f"{act} --matching: {error}") from error
    if search == Search():
        raise CommandError(f"{act} --matching: expected a search, such as queue:emails, got {matching!r}")
    return Wanted(act=act, search=search, query=matching, by=user())


def _worked_off(alias: str, id_: int) -> Progress:
    """Step until the end; a leader may take steps as well, and then this waits for its turn."""
    while True:
        stepped = bulk.step(alias, id_)
        found = bulk.look(alias, id_)
        if found is None or found.state == "stopped":
            raise CommandError(f"it was stopped: {found.error if found else 'the act is gone'}")
        if sys.stderr.isatty():
            print(f"\r{found.done:,} of {found.total:,}", end="", file=sys.stderr)  # noqa: T201
        if found.state != "running":
            return found
        if stepped is None:
            time.sleep(LOOK_SECONDS)


def _said(act: Act, done: int, refused: dict[str, int]) -> str:
    left = "".join(f"; {count:,} {why}" for why, count in refused.items())
    return f"{done:,} {WORDS[act][1]}{left}."


def _prune(options: dict[str, Any], out: Print) -> None:
    backend = backend_of(options)
    found = backend.djqueue_options
    history_days, letter_days = found.history_days, found.dead_letter_days
    if options["history_days"] is not None:
        history_days = whole("--history-days", options["history_days"], 0, 3_650)
    if options["dead_letter_days"] is not None:
        letter_days = whole("--dead-letter-days", options["dead_letter_days"], 1, 36_500)
    removed: Counter[str] = Counter()
    for name, count in prune(backend.alias_of_database, history_days, letter_days):
        removed[name] += count
        if sys.stderr.isatty():
            print(f"\r{name} {removed[name]:,}", end="", file=sys.stderr)  # noqa: T201
    out(as_json(removed) if options["json"] else "\n".join(_pruned(removed)))


def _pruned(removed: Counter[str]) -> Iterator[str]:
    for name, count in removed.items():
        if count:
            yield f"{name.replace('_', ' ')}: {count:,} removed"
    if not any(removed.values()):
        yield "Nothing is old enough."
