"""Orphans: jobs of tasks that no living worker knows. They wait, uncharged, for a worker that does; or are cancelled.

Invariant: those alone are cancelled that are parked and of this very task, 10,000 in one go.
"""

from itertools import islice
from typing import Any

from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from djqueue.admin import fragments, look, show, source
from djqueue.admin.base import PlainAdmin
from djqueue.models import Job
from djqueue.policy import aside, words
from djqueue.policy.payloads import parts
from djqueue.policy.search import Tab, token
from djqueue.states import State
from djqueue.store import figures, operate
from djqueue.store.operate import CancelAnswer, Jobs

MOST_TASKS = 200
BATCHES = 10


def view(page: PlainAdmin, request: HttpRequest) -> HttpResponse:
    """Show the tasks; cancel the jobs of one of them where the form asks for it."""
    if request.method == "POST":
        return _cancel(page, request)
    context = {
        **page.admin_site.each_context(request),
        "opts": page.opts,
        "media": page.media,
        "title": "Orphans",
        "rows": [_row(page, *row) for row in figures.orphans(source.alias(), MOST_TASKS)],
        "may_cancel": _may_cancel(request),
    }
    answer: Any = fragments.cut(request, TemplateResponse(request, "djqueue/admin/orphans.html", context))
    return answer  # type: ignore[no-any-return]


def _row(page: PlainAdmin, task: str, jobs: int, queues: Any, oldest: float) -> dict[str, Any]:
    address = look.address(
        "djqueue_job_changelist", site=page.admin_site.name, q=token("task", parts(task)[0]), state=str(Tab.PARKED)
    )
    return {
        "task": task,
        "name": show.dotted(task),
        "jobs": look.link(address, f"{jobs:,}" + ("+" if jobs >= figures.MOST_ORPHANS else "")),
        "queues": ", ".join(sorted(queues)),
        "oldest": words.span(oldest),
    }


def _may_cancel(request: HttpRequest) -> bool:
    return bool(request.user.has_perm("djqueue.cancel_job"))


def _cancel(page: PlainAdmin, request: HttpRequest) -> HttpResponse:
    if not _may_cancel(request):
        raise PermissionDenied
    task, reason = request.POST.get("task", ""), request.POST.get("reason", "").strip().replace("\0", "")[:1_000]
    known = {name for name, *_ in figures.orphans(source.alias(), MOST_TASKS)}
    if task not in known or not reason:
        text = "Cancel: expected a reason, got none." if task in known else "Cancel: nothing of this task is set aside."
        page.message_user(request, text, messages.ERROR)
        return HttpResponseRedirect(request.path)
    done = 0
    name, version = parts(task)
    wanted = Jobs(task_name=name, state=State.PARKED, parked_for=aside.orphan(task) if version > 1 else None)
    for answers in islice(operate.cancel_matching(source.alias(), wanted), BATCHES):
        done += sum(answer is CancelAnswer.CANCELLED for answer in answers.values())
    with transaction.atomic(using=source.alias()):
        _log(request, task, done, reason)
    page.message_user(request, f"Cancel: {words.count(done, 'job')} of {task} cancelled.", messages.SUCCESS)
    return HttpResponseRedirect(request.path)


def _log(request: HttpRequest, task: str, done: int, reason: str) -> None:
    """Write one entry for all of them: they stand in no table any more that an entry could lead to."""
    user: Any = request.user
    LogEntry.objects.create(
        user_id=user.pk,
        content_type=ContentType.objects.get_for_model(Job),
        object_repr=task[:200],
        action_flag=CHANGE,
        change_message=f"Cancelled {done:,} orphans: {reason}",
    )
