"""Running an action: the chosen rows in batches, one log entry each, and a message that leaves nothing out.

Invariant: what a page showed counts for nothing. The store decides by the row as it is at that moment, and says so.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from djqueue.admin import source
from djqueue.admin.base import PlainAdmin, as_uuid, selected

MOST_AT_ONCE = 10_000
BATCH = 1_000
IDS_NAMED = 3
FROM_OBJECT = "_djqueue_object"


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one row: whether it changed, and how that is said."""

    words: str
    changed: bool = False


GONE = Answer("ended or moved meanwhile")

Act = Callable[[str, Sequence[UUID]], Mapping[UUID, Answer]]


def run(page: PlainAdmin, request: HttpRequest, queryset: QuerySet[Any], name: str, act: Act) -> HttpResponse | None:
    """Let `act` answer the chosen rows; log each, and tell the user. From an object's page, go back to the object."""
    rows, missing, more = _chosen(page, request, queryset)
    answered: defaultdict[Answer, list[str]] = defaultdict(list)
    for batch in _batches(rows):
        with transaction.atomic(using=source.alias()):
            answers = act(source.alias(), [row.pk for row in batch])
            _log_answers(request, name, batch, answers)
        for id_, answer in answers.items():
            answered[answer].append(str(id_))
    answered[GONE] += missing
    _tell(page, request, name, answered, more)
    return back(page, request)


def reason(request: HttpRequest) -> str:
    """Return why, if the form says it."""
    return request.POST.get("reason", "").strip().replace("\0", "")[:1_000]


def log(request: HttpRequest, rows: Sequence[Any], text: str) -> None:
    """Write one log entry for each of the rows, with the reason that the form gives."""
    user: Any = request.user
    why = reason(request)
    text += f" Reason: {why}" if why and why not in text else ""
    LogEntry.objects.log_actions(user.pk, rows, CHANGE, text)


def _chosen(page: PlainAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> tuple[list[Any], list[str], bool]:
    """Return the rows in the order of ids, the chosen ids without a row, and whether there are more than are taken."""
    if request.POST.get("select_across") == "1":
        rows = list(queryset.order_by("-pk").only("id", "task_name")[: MOST_AT_ONCE + 1])
        return sorted(rows[:MOST_AT_ONCE], key=_pk), [], len(rows) > MOST_AT_ONCE
    # Without the list's filters: a row that has left its filter since the page was made gets an answer of its own.
    ids = {id_ for id_ in map(as_uuid, selected(request.POST)) if id_ is not None}
    rows = sorted(page.get_queryset(request).filter(pk__in=ids).only("id", "task_name"), key=_pk)
    return rows, sorted(map(str, ids.difference(map(_pk, rows)))), False


def _pk(row: Any) -> UUID:
    id_: UUID = row.pk
    return id_


def _batches(rows: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(rows), BATCH):
        yield rows[start : start + BATCH]


def _log_answers(request: HttpRequest, name: str, rows: list[Any], answers: Mapping[UUID, Answer]) -> None:
    """Write one entry per row, grouped by what became of it."""
    grouped: defaultdict[Answer, list[Any]] = defaultdict(list)
    for row in rows:
        grouped[answers[row.pk]].append(row)
    for answer, group in grouped.items():
        text = f"{name}: {answer.words}." if answer.changed else f"{name}: refused, {answer.words}."
        log(request, group, text)


def _tell(
    page: admin.ModelAdmin,  # type: ignore[type-arg]
    request: HttpRequest,
    name: str,
    answered: Mapping[Answer, list[str]],
    more: bool,
) -> None:
    done = [f"{len(ids):,} {answer.words}" for answer, ids in answered.items() if answer.changed and ids]
    refused = [
        f"{len(ids):,} {answer.words} ({_named(ids)})" for answer, ids in answered.items() if not answer.changed and ids
    ]
    text = f"{name}: {'; '.join(done) or 'nothing changed'}."
    if refused:
        text += f" Refused: {'; '.join(refused)}."
    if more:
        text += f" Only the newest {MOST_AT_ONCE:,} were taken: repeat it for the others."
    level = messages.SUCCESS if not refused else messages.WARNING if done else messages.ERROR
    page.message_user(request, text, level)


def _named(ids: list[str]) -> str:
    others = len(ids) - IDS_NAMED
    return ", ".join(ids[:IDS_NAMED]) + (f" and {others:,} more" if others > 0 else "")


def back(page: PlainAdmin, request: HttpRequest) -> HttpResponse | None:
    """Return the way back to the object whose page sent the form; None where a list did."""
    id_ = as_uuid(request.POST.get(FROM_OBJECT, ""))
    if id_ is None:
        return None
    return HttpResponseRedirect(page.address_of(page.model, id_))
