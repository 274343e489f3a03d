"""What people do to one job on its page: reschedule, change queue or priority, duplicate with other arguments.

Invariant: the store decides by the row as it is at that moment; a running job is left as it is, and the answer says so;
each act is in the admin's log with its reason.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from djqueue.admin import editing, joblist, source
from djqueue.admin.actions import log
from djqueue.api import registry
from djqueue.compat import InvalidTask
from djqueue.exceptions import EnqueueError
from djqueue.models import Job
from djqueue.policy import durations
from djqueue.store import change, search
from djqueue.store.change import ChangeAnswer
from djqueue.store.story import Story

SAID = {
    ChangeAnswer.CHANGED: "changed",
    ChangeAnswer.SAME: "refused, it is so already",
    ChangeAnswer.RUNNING: "refused, it is running",
    ChangeAnswer.PARKED: "refused, it is parked",
    ChangeAnswer.ORDERED: "refused, jobs behind its ordering key wait for it in its queue",
    ChangeAnswer.KEY_TAKEN: "refused, an unfinished job of that queue holds the same dedupe key",
    ChangeAnswer.GONE: "refused, it ended or moved meanwhile",
}


class MomentOrDelayField(forms.Field):
    """A moment in the current zone, or how long from now."""

    def to_python(self, value: Any) -> Any:
        """Return a moment, or a timedelta from the database's now."""
        text = str(value or "")[:60].strip().removeprefix("in ").strip()
        if not text:
            return None
        try:
            return timedelta(seconds=durations.parse(text))
        except ValueError:
            pass
        try:
            found = parse_datetime(text)
        except ValueError:
            found = None
        if found is None:
            raise forms.ValidationError("Expected a moment like 2026-12-31 08:00, or a duration like 10m or 2h.")
        try:
            return (timezone.make_aware(found) if timezone.is_naive(found) else found).astimezone(UTC)
        except (OverflowError, ValueError):
            raise forms.ValidationError("Expected a moment between the years 1 and 9999 in UTC.") from None


class ChangeForm(forms.Form):
    """One change of one job."""

    reason = forms.CharField(required=False, max_length=1_000)


class RescheduleForm(ChangeForm):
    """When it runs."""

    run_at = MomentOrDelayField(label="Run at, or in", widget=forms.TextInput(attrs={"placeholder": "10m"}))
    field_order = ("run_at", "reason")


class PriorityForm(ChangeForm):
    """How urgent it is."""

    priority = forms.IntegerField(min_value=-100, max_value=100)
    field_order = ("priority", "reason")


class QueueForm(ChangeForm):
    """Where it waits."""

    queue = forms.ChoiceField()
    field_order = ("queue", "reason")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["queue"].choices = [(name, name) for name in joblist.queue_choices()]  # type: ignore[attr-defined]


FORMS: Mapping[str, tuple[str, type[ChangeForm]]] = {
    "reschedule": ("Reschedule", RescheduleForm),
    "priority": ("Change priority", PriorityForm),
    "queue": ("Change queue", QueueForm),
}


def may_change(request: HttpRequest) -> bool:
    """Tell whether the user may change waiting jobs."""
    return request.user.has_perm("djqueue.edit_job")


def may_duplicate(page: Any, request: HttpRequest) -> bool:
    """Tell whether the user may enqueue copies, which nobody may who may not see arguments."""
    return request.user.has_perm("djqueue.duplicate_job") and page.has_payload_permission(request)


def forms_for(job: Story) -> list[dict[str, Any]]:
    """Return the forms of a waiting job's page."""
    initial = {"priority": job.priority, "queue": job.queue_name}
    return [
        {"act": act, "label": label, "form": form(initial=initial, prefix=act)} for act, (label, form) in FORMS.items()
    ]


def change_view(page: Any, request: HttpRequest, id_: UUID) -> HttpResponse:
    """Do one change, and go back to the job wherever it stands then."""
    if request.method != "POST" or not page.has_view_permission(request) or not may_change(request):
        raise PermissionDenied
    act = request.POST.get("act", "")
    if act not in FORMS:
        raise PermissionDenied
    label, kind = FORMS[act]
    form = kind(request.POST, prefix=act)
    if form.is_valid():
        _change(page, request, id_, act, label, form.cleaned_data)
    else:
        faults = " ".join(str(fault) for found in form.errors.values() for fault in found)
        page.message_user(request, f"{label}: nothing changed. {faults}", messages.ERROR)
    return HttpResponseRedirect(page.address_of(Job, id_))


def _change(page: Any, request: HttpRequest, id_: UUID, act: str, label: str, wanted: dict[str, Any]) -> None:
    alias = source.alias()
    with transaction.atomic(using=alias):
        answer, to = _answer(alias, id_, act, wanted)
        said = f"{SAID[answer]} to {to}" if answer is ChangeAnswer.CHANGED else SAID[answer]
        why = f" Reason: {wanted['reason']}" if wanted["reason"] else ""
        job = Job.objects.using(alias).filter(pk=id_).only("id", "task_name").first()
        if job is not None:
            log(request, [job], f"{label}: {said}.{why}")
    level = messages.SUCCESS if answer is ChangeAnswer.CHANGED else messages.ERROR
    page.message_user(request, f"{label}: {said}.", level)


def _answer(alias: str, id_: UUID, act: str, wanted: dict[str, Any]) -> tuple[ChangeAnswer, object]:
    match act:
        case "priority":
            return change.priority(alias, [id_], wanted["priority"])[id_], wanted["priority"]
        case "queue":
            return change.queue(alias, [id_], wanted["queue"])[id_], wanted["queue"]
        case _:
            run_at = wanted["run_at"]
            moment: datetime = search.now(alias) + run_at if isinstance(run_at, timedelta) else run_at
            return change.reschedule(alias, [id_], moment)[id_], moment.isoformat(sep=" ", timespec="seconds")


class DuplicateForm(editing.EditForm):
    """A copy: its arguments, its queue, its priority."""

    queue = forms.ChoiceField()
    priority = forms.IntegerField(min_value=-100, max_value=100)
    reason = forms.CharField(required=False, max_length=1_000)
    wants_whole = True

    def __init__(self, job: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(job, *args, **kwargs)
        names = [(name, name) for name in sorted({*source.settings_queues(), job.queue_name})]
        self.fields["queue"].choices = names  # type: ignore[attr-defined]


def duplicate_view(page: Any, request: HttpRequest, id_: UUID) -> HttpResponse:
    """Show the arguments of a job, and enqueue a copy with those that are sent."""
    if not page.has_view_permission(request) or not may_duplicate(page, request):
        raise PermissionDenied
    rows = page.model._default_manager.using(source.alias())
    job = rows.only("id", "task_name", "queue_name", "priority", "args", "options").filter(pk=id_).first()
    if job is None:
        answer: HttpResponse = page._get_obj_does_not_exist_redirect(request, page.opts, str(id_))
        return answer
    if request.method == "POST":
        form = DuplicateForm(job, request.POST)
        if form.is_valid() and _duplicate(page, request, job, form):
            return HttpResponseRedirect(page.address_of(page.model, id_))
    else:
        first = {"arguments": editing.initial(job), "queue": job.queue_name, "priority": job.priority}
        form = DuplicateForm(job, initial=first)
    context = {
        **page.admin_site.each_context(request),
        "opts": page.opts,
        "original": job,
        "title": "Duplicate",
        "media": page.media,
        "form": form,
        "submit": "Enqueue a copy",
    }
    return TemplateResponse(request, "djqueue/admin/edit.html", context)


def _duplicate(page: Any, request: HttpRequest, job: Any, form: DuplicateForm) -> bool:
    """Enqueue the copy through its task, so that every option of the task is obeyed; False where it is refused."""
    wanted = form.cleaned_data
    given = json.loads(wanted["arguments"])
    task: Any = registry.get(job.task_name)
    kept = job.options if isinstance(job.options, dict) else {}
    tags, subject = kept.get("tags"), kept.get("subject")
    try:
        copy = task.using(
            queue_name=wanted["queue"],
            priority=wanted["priority"],
            tags=tags,
            subject=subject,
            outside_transaction=True,
        )
        with transaction.atomic(using=source.alias()):
            result = copy.enqueue(*given["args"], **given["kwargs"])
            said = f"enqueued as {result.id}" if result.created else f"refused, {result.id} holds the same dedupe key"
            why = f" Reason: {wanted['reason']}" if wanted["reason"] else ""
            log(request, [job], f"Duplicate: {said}.{why}")
    except (InvalidTask, EnqueueError, ValueError, TypeError) as fault:
        form.add_error(None, str(fault))
        return False
    page.message_user(request, f"Duplicate: {said}.", messages.SUCCESS if result.created else messages.ERROR)
    return True
