"""The doctor's page: what is wrong around the queue, with its remedy, looked at anew each time. It asks and shows.

Only for those who may give orders to workers: findings name roles and sessions of the database.
"""

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse

from djqueue.admin import look, source
from djqueue.admin.base import PlainAdmin
from djqueue.api import doctor
from djqueue.policy.diagnosis import Finding, Severity


def view(page: PlainAdmin, request: HttpRequest) -> HttpResponse:
    """Show what the doctor finds."""
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    context = {
        **page.admin_site.each_context(request),
        "opts": page.opts,
        "media": page.media,
        "title": "Doctor",
        "rows": [_row(each) for each in doctor.examine(source.alias(), source.options())],
    }
    answer: Any = TemplateResponse(request, "djqueue/admin/doctor.html", context)
    return answer  # type: ignore[no-any-return]


def _row(each: Finding) -> dict[str, Any]:
    kind = "bad" if each.severity is Severity.ERROR else "warn"
    return {"finding": each, "badge": look.badge(str(each.severity), kind)}
