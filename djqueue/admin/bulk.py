"""Acts on many jobs: the buttons of the list, the page that asks before anything happens, the page that shows how far
it is.

Invariant: nothing changes before the second page is sent back; what it counted is what is done, jobs that were enqueued
since then excepted; and the act says who, what and why in its row and in the admin's log.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import CHANGE, LogEntry
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.dateparse import parse_datetime

from djqueue.admin import joblist, source
from djqueue.admin.actions import log
from djqueue.admin.base import PlainAdmin, as_uuid, selected
from djqueue.models import BulkAct
from djqueue.store import bulk
from djqueue.store import search as store
from djqueue.store.bulk import Act, Wanted

SAMPLE = 10
LOGGED_ONE_BY_ONE = 100
"""Up to so many chosen jobs get log entries of their own, besides the act's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """An act as people see it."""

    label: str
    permission: str
    does: str
    """What becomes of the jobs."""


KINDS: dict[Act, Kind] = {
    Act.RETRY: Kind(label="Retry now", permission="retry_job", does="start as soon as a worker is free"),
    Act.CANCEL: Kind(label="Cancel", permission="cancel_job", does="end as cancelled; running ones are asked to stop"),
    Act.REQUEUE: Kind(
        label="Requeue", permission="requeue_deadletter", does="are queued again, with all their attempts"
    ),
    Act.DISCARD: Kind(
        label="Discard", permission="discard_deadletter", does="end for good; they stay in history as cancelled"
    ),
    Act.QUEUE: Kind(label="Change queue", permission="edit_job", does="move to another queue"),
    Act.PRIORITY: Kind(label="Change priority", permission="edit_job", does="get another priority"),
}
NEEDS_REASON = frozenset({Act.DISCARD})


class ReasonForm(forms.Form):
    """Why, and for some acts what is to become of the jobs."""

    reason = forms.CharField(required=False, max_length=1_000, widget=forms.TextInput(attrs={"size": 60}))

    def __init__(self, act: Act, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["reason"].required = act in NEEDS_REASON
        if act is Act.QUEUE:
            names = [(name, name) for name in joblist.queue_choices()]
            self.fields["to_queue"] = forms.ChoiceField(label="New queue", choices=names)
        if act is Act.PRIORITY:
            self.fields["to_priority"] = forms.IntegerField(label="New priority", min_value=-100, max_value=100)


def may(request: HttpRequest, act: Act) -> bool:
    """Tell whether the user may do this."""
    return request.user.has_perm(f"djqueue.{KINDS[act].permission}")


def choices(request: HttpRequest, allowed: frozenset[store.Place], tab: Any) -> list[dict[str, str]]:
    """Return the acts that the user may do on jobs of a state."""
    here = allowed if tab is None else allowed & {joblist.place_of(tab)}
    return [
        {"act": str(act), "label": kind.label}
        for act, kind in KINDS.items()
        if bulk.PLACES[act] in here and may(request, act)
    ]


def confirm_view(page: PlainAdmin, request: HttpRequest) -> HttpResponse:
    """Ask first: what, how many, which for example. Then do it."""
    if request.method != "POST" or not page.has_view_permission(request):
        raise PermissionDenied
    try:
        act = Act(request.POST.get("act", ""))
    except ValueError:
        return _back(page, request, "Choose what to do.")
    if not may(request, act) or bulk.PLACES[act] not in joblist.places(page, request):
        raise PermissionDenied
    wanted = joblist.asked(request.POST, may_see_payload=page.has_payload_permission(request))
    ids = [] if request.POST.get("all") == "1" else _ids(request)
    if wanted.error or (not ids and request.POST.get("all") != "1"):
        return _back(page, request, wanted.error or "Choose jobs, or all that match.")
    is_sent = request.POST.get("confirmed") == "yes"
    form = ReasonForm(act, request.POST if is_sent else None)
    until = _moment(request.POST.get("until", "")) or store.now(source.alias())
    if is_sent and form.is_valid():
        return _start(page, request, _wanted(request, act, wanted, ids, until, form.cleaned_data))
    return _ask(page, request, _wanted(request, act, wanted, ids, until, {}), wanted, form)


def _ask(
    page: PlainAdmin, request: HttpRequest, wanted: Wanted, asked: joblist.Asked, form: ReasonForm
) -> HttpResponse:
    kind = KINDS[wanted.act]
    sample = _sample(wanted)
    found = bulk.count(source.alias(), wanted, wanted.until)
    context = {
        **page.admin_site.each_context(request),
        "opts": page.opts,
        "title": kind.label,
        "media": page.media,
        "kind": kind,
        "act": str(wanted.act),
        "count": f"{joblist.in_words(found)} {'job' if found.number == 1 else 'jobs'}",
        "rows": joblist.rows(page, sample),
        "ids": wanted.ids,
        "asked": asked,
        "until": wanted.until.isoformat() if wanted.until else "",
        "form": form,
        "checkbox": ACTION_CHECKBOX_NAME,
        "is_asked": True,
    }
    return TemplateResponse(request, "djqueue/admin/confirm.html", context)


def _sample(wanted: Wanted) -> list[store.Hit]:
    places = frozenset({bulk.PLACES[wanted.act]})
    if not wanted.ids:
        return store.page(source.alias(), wanted.search, places, until=wanted.until, limit=SAMPLE).hits
    return store.by_ids(source.alias(), wanted.ids[:SAMPLE], places)


def _start(page: PlainAdmin, request: HttpRequest, wanted: Wanted) -> HttpResponse:
    alias = source.alias()
    with transaction.atomic(using=alias):
        id_ = bulk.create(alias, wanted)
        act = BulkAct.objects.using(alias).get(pk=id_)
        why = f" Reason: {wanted.reason}" if wanted.reason else ""
        log(request, [act], f"{KINDS[wanted.act].label}: {act.total:,} jobs. {_target(wanted)}{why}")
        _log_each(request, page, wanted, why)
    # The first batch at once: what is small is done with this answer, also where no worker runs.
    bulk.step(alias, id_)
    act.refresh_from_db(using=alias)
    level = messages.SUCCESS if not act.refused else messages.WARNING
    page.message_user(request, said(act), level)
    acts = page.admin_site._registry.get(BulkAct)
    may_follow = acts is not None and acts.has_view_permission(request)
    return HttpResponseRedirect(page.address_of(BulkAct, id_) if may_follow else joblist.address(page))


def _log_each(request: HttpRequest, page: PlainAdmin, wanted: Wanted, why: str) -> None:
    if wanted.ids and len(wanted.ids) <= LOGGED_ONE_BY_ONE:
        model = joblist.MODELS[bulk.PLACES[wanted.act]]
        chosen = model._default_manager.using(source.alias()).filter(pk__in=wanted.ids).only("id", "task_name")
        user: Any = request.user
        LogEntry.objects.log_actions(user.pk, list(chosen), CHANGE, f"{KINDS[wanted.act].label}.{why}")


def said(act: Any) -> str:
    """Return how far an act is, in one sentence or two: what changed, and what was refused and why."""
    label = KINDS[Act(act.act)].label if act.act in list(Act) else act.act
    text = f"{label}: {act.done:,} of {act.total:,} done."
    if act.refused:
        parts = (f"{number:,} {bulk.REFUSED_WORDS.get(word, word)}" for word, number in act.refused.items())
        named = ", ".join(id_ for id_, _ in act.refused_ids[:3])
        text += f" Refused: {'; '.join(parts)} ({named}{', …' if sum(act.refused.values()) > 3 else ''})."
    if act.state == "running":
        text += " The workers go on with it."
    return text


def _wanted(
    request: HttpRequest, act: Act, asked: joblist.Asked, ids: list[UUID], until: datetime, form: dict[str, Any]
) -> Wanted:
    return Wanted(
        act=act,
        search=asked.search,
        ids=ids,
        query=_query(asked),
        queue=form.get("to_queue"),
        priority=form.get("to_priority"),
        reason=form.get("reason", "").replace("\0", ""),
        by=str(request.user),
        until=until,
    )


def _query(asked: joblist.Asked) -> str:
    state = f"state:{asked.tab}" if asked.tab and "state:" not in asked.text else ""
    return f"{state} {asked.text}".strip()


def _target(wanted: Wanted) -> str:
    what = f"{len(wanted.ids):,} chosen." if wanted.ids else f"All that match “{wanted.query or 'everything'}”."
    to = wanted.queue if wanted.queue is not None else wanted.priority
    return what if to is None else f"{what} To {to}."


def _ids(request: HttpRequest) -> list[UUID]:
    found = sorted({id_ for id_ in map(as_uuid, selected(request.POST)) if id_ is not None}, reverse=True)
    return found[: bulk.MOST_IDS]


def _moment(text: str) -> datetime | None:
    try:
        found = parse_datetime(text)
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def _back(page: PlainAdmin, request: HttpRequest, text: str) -> HttpResponse:
    page.message_user(request, text, messages.ERROR)
    wanted = joblist.asked(request.POST, may_see_payload=True)
    return HttpResponseRedirect(joblist.address(page) + wanted.address())
