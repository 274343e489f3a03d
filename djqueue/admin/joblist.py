"""The list of jobs: live ones, history and dead letters in one, by state and by what is typed into the search field.

Invariant: everything that decides what is shown stands in the address; a page costs the same on the first day and with
millions of rows, and where it has not looked at all of them it says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe

from djqueue.admin import look, show, source
from djqueue.admin.base import as_uuid
from djqueue.models import DeadLetter, History, Job
from djqueue.policy.search import HISTORY_TABS, LIVE_TABS, Search, SearchInvalid, Tab, parse, token
from djqueue.store import search as store
from djqueue.store.search import Hit, Page, Place
from djqueue.store.searchcount import Count

PER_PAGE = 50
MODELS = {Place.LIVE: Job, Place.HISTORY: History, Place.DEAD: DeadLetter}
EXAMPLES = (
    ("id:", "a job's id"),
    ("task:send_receipt", "a task's name or its end; * is any text"),
    ("queue:emails", "exactly this queue"),
    ("state:dead", "as the tabs"),
    ("tenant: tag: subject: cause:", "exactly this value"),
    ("key:receipt:*", "the dedupe key; * is any text"),
    ("parent:", "jobs that this job enqueued"),
    ("error:timeout", "part of what is kept of failures"),
    ("args.0:7 args.order_id:7", "a positional or a named argument; a* is a beginning"),
    ("older:10m", "enqueued longer ago: s, m, h, d, w"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What an address asks for."""

    search: Search
    text: str = ""
    tab: Tab | None = None
    before: UUID = store.TOP
    error: str = ""
    """Why the text means no search; nothing is shown then."""

    def address(self, **changes: str) -> str:
        """Return the query string of the same list with some parts changed; an empty value takes one away."""
        parts = {"state": str(self.tab or ""), "q": self.text, **changes}
        return "?" + urlencode({name: value for name, value in parts.items() if value})


def asked(parameters: Mapping[str, str], *, may_see_payload: bool) -> Asked:
    """Read the address. `state`, `queue` and `task` may stand beside the text, as links of other pages have it."""
    text = " ".join(parameters.get("q", "").split("\n")).strip()
    extra = " ".join(token(name, parameters[name]) for name in ("queue", "task") if parameters.get(name))
    text = f"{text} {extra}".strip()
    before = as_uuid(parameters.get("before", "")) or store.TOP
    word = parameters.get("state", "")
    try:
        tab = parse(token("state", word)).tab if word else None
        found = parse(text)
        if tab is not None and found.tab not in (None, tab):
            raise SearchInvalid(f"state: expected one state, got {tab} on the tab and {found.tab} in the text.")
        if found.reads_payload and not may_see_payload:
            raise SearchInvalid(
                "args. and error: need the permission “Can see arguments, results and tracebacks”, since what is found "
                "tells what stands there."
            )
    except SearchInvalid as fault:
        return Asked(search=Search(), text=text, error=str(fault))
    return Asked(search=replace(found, tab=found.tab or tab), text=text, tab=found.tab or tab, before=before)


def places(page: Any, request: HttpRequest) -> frozenset[Place]:
    """Return where the user may look: each place has a permission of its own."""
    registry = page.admin_site._registry
    found = ((place, registry.get(model)) for place, model in MODELS.items())
    return frozenset(place for place, each in found if each is not None and each.has_view_permission(request))


def tabs(wanted: Asked, allowed: frozenset[Place], counts: Mapping[Tab, Count]) -> Iterator[dict[str, Any]]:
    """Yield the links to the states that the user may see, with how many jobs are in each."""
    yield {"name": "all", "url": wanted.address(state=""), "is_here": wanted.tab is None, "count": ""}
    for tab in Tab:
        if place_of(tab) in allowed:
            found = counts.get(tab)
            yield {
                "name": str(tab),
                "url": wanted.address(state=str(tab)),
                "is_here": wanted.tab is tab,
                "count": "" if found is None else in_words(found),
                "kind": look.KINDS.get(str(tab), "quiet"),
            }


def place_of(tab: Tab | str) -> Place:
    """Return where jobs of a state stand."""
    return Place.LIVE if tab in LIVE_TABS else Place.HISTORY if tab in HISTORY_TABS else Place.DEAD


def in_words(count: Count) -> str:
    """Return a count: exact, about so many, or at least so many."""
    if count.is_exact:
        return f"{count.number:,}"
    if count.about and count.about > count.number:
        return f"≈ {count.about:,}"
    return f"{count.number:,}+"


def said(wanted: Asked, page: Page) -> str:
    """Return what there is to say about how far was looked."""
    if page.looked_to is None:
        return ""
    window = store.JSON_WINDOW if wanted.search.reads_json else store.WINDOW
    return (
        f"No index leads to these, so only the newest {window:,} jobs of each table below this page's beginning were "
        "looked at. Go on to look at older ones."
    )


def rows(page: Any, hits: Sequence[Hit]) -> Iterator[dict[str, Any]]:
    """Yield what the list shows of each job."""
    for hit in hits:
        yield {
            "id": hit.id,
            "state": look.badge(hit.state),
            "url": page.address_of(MODELS[place_of(hit.state)], hit.id),
            "task": in_pieces(hit.task_name),
            "queue": hit.queue_name,
            "tenant": hit.tenant_id,
            "attempts": f"{hit.attempts} of {hit.max_attempts}" if hit.max_attempts else hit.attempts,
            "created": show.moment(hit.created_at),
            "when": _when(hit),
            "note": hit.note,
        }


def address(page: Any) -> str:
    """Return the address of the list."""
    return reverse("admin:djqueue_job_changelist", current_app=page.admin_site.name)


def in_pieces(task_name: str) -> SafeString:
    """Return a dotted name that may break at its dots."""
    return mark_safe(escape(task_name).replace(".", ".<wbr>"))


def queue_choices() -> list[str]:
    """Return the queues that a job may be moved to."""
    return source.queue_names()


def _when(hit: Hit) -> SafeString | str:
    if hit.ended_at is not None:
        return format_html("ended {}", show.moment(hit.ended_at))
    if hit.state == Tab.RUNNING:
        return format_html("started {}", show.moment(hit.started_at)) if hit.started_at else "not started yet"
    if hit.state in (Tab.SCHEDULED, Tab.RETRYING):
        return format_html("runs {}", show.moment(hit.run_at))
    return format_html("ready since {}", show.moment(hit.run_at)) if hit.state == Tab.READY else ""
