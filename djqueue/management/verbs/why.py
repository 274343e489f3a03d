"""`manage.py djqueue why ID`: the conditions for a job to run, in the order of the claim. It calls and prints."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from djqueue.api import why
from djqueue.api.why import Why
from djqueue.management.verbs.common import Print, as_json, backend_of, job_id, verb
from djqueue.policy import durations


def add_arguments(verbs: Any) -> None:
    """Declare the verb."""
    parser = verb(verbs, "why", "why a job does not run: every condition, in the order of the claim")
    parser.add_argument("id", metavar="ID", help="the id of a job")
    parser.set_defaults(run=_why)


def _why(options: dict[str, Any], out: Print) -> None:
    id_ = job_id(options["id"])
    backend = backend_of(options)
    found = why.about(backend.alias_of_database, id_, backend.djqueue_options.queues)
    if found is None:
        raise CommandError(f"expected the id of a job, got {id_}, which is in no table: never enqueued, or pruned")
    out(as_json(asdict(found)) if options["json"] else "\n".join(_said(found)))


def _said(found: Why) -> Iterator[str]:
    yield f"{found.task_name} {found.id} in queue {found.queue_name}: {found.state}"
    for each in found.conditions:
        yield f"  {'yes' if each.holds else 'NO ':<3}  {each.name.replace('_', ' ')}: {each.detail}"
    yield _summary(found)


def _summary(found: Why) -> str:
    if found.first is not None and not found.runnable:
        return f"It does not run: {found.first.detail}."
    if found.first is not None and found.first.name != "its_turn":
        return f"A claim would take it, but: {found.first.detail}."
    if found.ahead and found.expected_seconds is not None:
        return f"It runs when its turn comes, in about {durations.in_words(found.expected_seconds)}."
    return "It runs when its turn comes." if found.ahead else "Nothing is in its way: the next claim takes it."
