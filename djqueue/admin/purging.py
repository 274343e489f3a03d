"""Emptying a queue: all its unfinished jobs are cancelled, by whoever types its name and says why.

Invariant: it is an act like any other on many jobs: in batches, followed to its end; running jobs are asked to stop.
"""

from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from djqueue.admin import source
from djqueue.admin.actions import log
from djqueue.admin.base import PlainAdmin
from djqueue.models import BulkAct, Queue
from djqueue.policy.search import Search, token
from djqueue.store import bulk
from djqueue.store.bulk import Act, Wanted


class PurgeForm(forms.Form):
    """The name once more, and why."""

    name = forms.CharField(label="Name of the queue", max_length=200, strip=False)
    reason = forms.CharField(max_length=1_000)

    def __init__(self, queue_name: str, *args: Any, **kwargs: Any) -> None:
        self._queue_name = queue_name
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget.attrs.update({"class": "vTextField", "autocomplete": "off"})

    def clean_name(self) -> str:
        """Nobody empties a queue by mistake."""
        name: str = self.cleaned_data["name"]
        if name != self._queue_name:
            raise forms.ValidationError("Expected the name of the queue, letter by letter, got something else.")
        return name


def view(page: PlainAdmin, request: HttpRequest, queue: Queue) -> HttpResponse:
    """Ask, and then empty the queue."""
    form = PurgeForm(queue.name, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        act = _purge(page, request, queue, form.cleaned_data["reason"])
        return HttpResponseRedirect(page.address_of(BulkAct, act))
    context = {
        **page.admin_site.each_context(request),
        "opts": page.opts,
        "media": page.media,
        "original": queue,
        "title": f"Empty queue {queue.name}",
        "form": form,
        "waiting": f"{queue.ready + queue.scheduled + queue.parked:,}",
        "running": f"{queue.leased:,}",
    }
    return TemplateResponse(request, "djqueue/admin/purge.html", context)


def _purge(page: PlainAdmin, request: HttpRequest, queue: Queue, reason: str) -> int:
    """Start the act; its first batch is done with this answer, the leader of the workers goes on with the others."""
    alias = source.alias()
    wanted = Wanted(
        act=Act.CANCEL,
        search=Search(queue=queue.name),
        query=token("queue", queue.name),
        reason=reason,
        by=str(request.user),
    )
    with transaction.atomic(using=alias):
        id_ = bulk.create(alias, wanted)
        log(request, [queue], f"Emptied, act {id_}. {reason}")
    bulk.step(alias, id_)
    page.message_user(request, f"Queue {queue.name} is being emptied.", messages.SUCCESS)
    return id_
