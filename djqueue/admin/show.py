"""How values look: moments of any year, lists, states. Everything from a row is escaped."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.utils import timezone
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import mark_safe

from djqueue.models import Job
from djqueue.states import State

EMPTY = "-"

Column = Callable[[Any, Any], Any]


def moment(value: datetime | None) -> str:
    """Return a moment in the reader's zone, its UTC time in the title.

    A moment that the zone can't express (the last hours of year 9999, the first of year 1) stays in UTC and says so.
    """
    if value is None:
        return EMPTY
    exact = _utc(value)
    # Each part in one piece: a narrow column breaks between date and time only.
    parts = format_html_join(" ", "<span>{}</span>", ((part,) for part in _local(value).split()))
    return format_html('<time class="djqueue-moment" datetime="{}" title="{}">{}</time>', exact, exact, parts)


def moment_column(field: str, label: str) -> Column:
    """Return a column or read-only field that shows a moment of the row."""

    @admin.display(description=label)
    def column(self: Any, obj: Model) -> str:
        return moment(getattr(obj, field))

    return column


def list_column(field: str, label: str) -> Column:
    """Return a read-only field that shows a list of texts."""

    @admin.display(description=label)
    def column(self: Any, obj: Model) -> str:
        return ", ".join(str(item) for item in getattr(obj, field) or ()) or EMPTY

    return column


@admin.display(description="job")
def job_column(self: Any, obj: Any) -> str:
    """The task, and under it the id."""
    return format_html('{}<br><span class="djqueue-id">{}</span>', dotted(obj.task_name), obj.pk)


@admin.display(description="attempts")
def attempts_column(self: Any, obj: Any) -> str:
    """Attempts so far, of those allowed."""
    return f"{obj.attempts} of {obj.max_attempts}"


def state_of(job: Job) -> str:
    """Return a job's state in words: a scheduled job that was tried before is retrying."""
    match job.state:
        case State.SCHEDULED if job.attempts:
            return "retrying"
        case State.LEASED if job.cancel_requested_at is not None:
            return "leased, asked to cancel"
        case State.PARKED if job.parked_for:
            return f"parked: {job.parked_for}"
        case _:
            return str(job.state)


def dotted(name: str) -> str:
    """Return a dotted name that may break after its dots."""
    return mark_safe(escape(name).replace(".", ".<wbr>"))


def _local(value: datetime) -> str:
    if timezone.is_naive(value):
        return _seconds(value)
    try:
        return _seconds(timezone.localtime(value))
    except (OverflowError, ValueError):
        return f"{_seconds(value)} {value.tzname() or ''}".rstrip()


def _utc(value: datetime) -> str:
    try:
        return value.astimezone(UTC).isoformat(sep=" ")
    except (OverflowError, ValueError):
        return value.isoformat(sep=" ")


def _seconds(value: datetime) -> str:
    return value.replace(tzinfo=None).isoformat(sep=" ", timespec="seconds")
