"""A job's arguments that are kept in a file: served by the admin itself, to those who may see payloads.

Invariant: they go through the redact hook like those in a row, and never by an address of the storage, which might be
open to anybody.
"""

import json
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

from djqueue.admin import source
from djqueue.api import largeargs

LABEL = "Download the arguments"
MOST_REDACTED = 2_000_000
TOO_LARGE = "[too large to be redacted]"


def address(obj: Model) -> str:
    """Return where the arguments of a row are served."""
    return reverse(f"admin:djqueue_{obj._meta.model_name}_arguments", args=[obj.pk])


def view(page: Any, request: HttpRequest, id_: UUID) -> HttpResponse:
    """Send the arguments of a job as a file."""
    if not page.has_view_permission(request) or not page.has_payload_permission(request):
        raise PermissionDenied
    rows = page.model._default_manager.using(source.alias())
    job = rows.only("id", "task_name", "args").filter(pk=id_).first()
    if job is None or largeargs.reference(job.args) is None:
        raise Http404("No job with arguments in a file has this id here; it may have ended and moved.")
    try:
        text = largeargs.whole(json.dumps(job.args))
    except largeargs.ArgumentsMissing as fault:
        raise Http404(str(fault)) from None
    hook = source.redaction()
    if hook:
        text = TOO_LARGE if len(text) > MOST_REDACTED else hook.text("arguments", job.task_name, text, MOST_REDACTED)
    headers = {"Content-Disposition": f'attachment; filename="{id_}.json"', "X-Content-Type-Options": "nosniff"}
    return HttpResponse(text, content_type="application/json", headers=headers)
