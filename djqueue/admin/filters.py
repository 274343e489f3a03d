"""Filters whose choices cost nothing: names from the settings and the queue rows, states from the code."""

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from djqueue.admin import source
from djqueue.admin.counting import among_newest
from djqueue.states import LIVE, State


class QueueFilter(admin.SimpleListFilter):
    """By queue."""

    title = "queue"
    parameter_name = "queue"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        """The known queues."""
        return [(name, name) for name in source.queue_names()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The rows of the chosen queue."""
        return _where(queryset, "queue_name", self.value())


class StateFilter(admin.SimpleListFilter):
    """By state, of unfinished jobs."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        """The states of the live table."""
        return [(str(state), str(state)) for state in LIVE]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The rows in the chosen state."""
        return _where(queryset, "state", self.value())


class OutcomeFilter(admin.SimpleListFilter):
    """By outcome; there is no index for it, so it looks at the newest rows only."""

    title = "outcome (newest 100,000)"
    parameter_name = "outcome"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        """The ends that history knows."""
        return [(str(state), str(state)) for state in (State.SUCCEEDED, State.CANCELLED)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The rows with the chosen outcome."""
        return queryset if self.value() is None else _where(among_newest(queryset), "outcome", self.value())


def _where(queryset: QuerySet[Any], field: str, value: str | None) -> QuerySet[Any]:
    if value is None:
        return queryset
    # No column holds a NUL, and PostgreSQL refuses to look for one.
    return queryset.none() if "\0" in value else queryset.filter(**{field: value})
