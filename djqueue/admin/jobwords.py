"""What a job's page says besides its columns: why it does not run, who belongs to it, how far it is."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from djqueue.admin import joblist, look, source
from djqueue.api import why as reasons
from djqueue.policy.search import Search, token
from djqueue.policy.words import span
from djqueue.store.story import CHILDREN, Relative, Story

WAITING = frozenset({"ready", "scheduled", "parked"})


def why(state: str, id_: UUID) -> dict[str, Any] | None:
    """Return the conditions of a claim for a job that waits, the first that does not hold in front."""
    if state not in WAITING:
        return None
    found = reasons.about(source.alias(), id_, source.options().queues)
    if found is None:
        return None
    first = found.first
    expected = "" if found.expected_seconds is None else f", in about {span(found.expected_seconds)}"
    verdict = f"Nothing is in its way: a worker takes it as soon as it is its turn{expected}."
    if first is not None:
        verdict = f"{first.name[:1].upper()}{first.name[1:]}: {first.detail}."
    return {
        "verdict": verdict,
        "kind": "ok" if first is None else "warn",
        "conditions": [
            {"badge": look.badge("yes" if each.holds else "no", "ok" if each.holds else "warn"), "condition": each}
            for each in found.conditions
        ],
    }


def family(page: Any, request: HttpRequest, id_: UUID, found: Story) -> dict[str, Any] | None:
    """Return the job that enqueued it, the jobs that it enqueued, and the object that it is about."""
    if found.parent_id is None and found.subject is None and not found.children:
        return None
    allowed = joblist.places(page, request)
    children = [_relative(page, each, allowed) for each in found.children[:CHILDREN]]
    address = joblist.address(page)
    more = joblist.Asked(search=Search(), text=token("parent", str(id_))).address()
    subject = joblist.Asked(search=Search(), text=token("subject", found.subject or "")).address()
    return {
        "parent": _relative(page, found.parent, allowed) if found.parent else found.parent_id,
        "children": children,
        "more_url": f"{address}{more}" if len(found.children) > CHILDREN else "",
        "subject": found.subject,
        "subject_url": f"{address}{subject}" if found.subject else "",
    }


def progress(found: Story) -> SafeString | str:
    """Return how far its handler says that it is."""
    if found.progress is None or found.progress[1] <= 0:
        return ""
    done, total = found.progress
    return look.meter(done, total, f"{done:,.10g} of {total:,.10g}")


def _relative(page: Any, each: Relative, allowed: frozenset[Any]) -> SafeString:
    state = "running" if each.state == "leased" else each.state
    place = joblist.place_of(state)
    url = page.address_of(joblist.MODELS[place], each.id) if place in allowed else ""
    return format_html("{} {}", look.badge(state), look.link(url, joblist.in_pieces(each.task_name)))
