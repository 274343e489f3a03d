"""Filters whose choices cost nothing: names from the settings and the queue rows, states from the code."""

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from djqueue.admin import source
from djqueue.admin.counting import among_newest
from djqueue.models import KeyBlock
from djqueue.policy.causes import GroupState
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


class GroupStateFilter(admin.SimpleListFilter):
    """By state, of error groups."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        """The states of a group."""
        return [(str(state), str(state)) for state in GroupState]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The groups in the chosen state."""
        return _where(queryset, "state", self.value())


class TaskFilter(admin.SimpleListFilter):
    """By task, of those that the project knows. There is no index for it: of the ended, among the newest rows only."""

    title = "task"
    parameter_name = "task"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        """The known tasks."""
        return [(name, name) for name in source.task_names()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The rows of the chosen task."""
        return queryset if self.value() is None else _where(among_newest(queryset), "task_name", self.value())


class CauseFilter(admin.SimpleListFilter):
    """By fingerprint; offered only to those who come from an error group."""

    title = "cause"
    parameter_name = "cause"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        """The cause that was asked for."""
        value = request.GET.get(self.parameter_name)
        return [(value, value[:8])] if value else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The letters of that cause."""
        return _where(queryset, "fingerprint", self.value())


class BlockingFilter(admin.SimpleListFilter):
    """The letters for which the jobs behind their ordering key wait."""

    title = "blocks an ordering key"
    parameter_name = "blocks"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        """One choice: the others are all the rest."""
        return [("yes", "yes")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The letters that block a key."""
        if self.value() != "yes":
            return queryset
        return queryset.filter(pk__in=KeyBlock._default_manager.using(queryset.db).values("job_id"))


def _where(queryset: QuerySet[Any], field: str, value: str | None) -> QuerySet[Any]:
    if value is None:
        return queryset
    # No column holds a NUL, and PostgreSQL refuses to look for one.
    return queryset.none() if "\0" in value else queryset.filter(**{field: value})
