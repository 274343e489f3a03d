"""What the pages of a job share, wherever it stands: search, hidden payload, buttons, the way to where it is now."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseRedirect

from djqueue.admin import source
from djqueue.admin.actions import FROM_OBJECT
from djqueue.admin.base import PlainAdmin, as_uuid
from djqueue.admin.payload import let_see
from djqueue.models import DeadLetter, History, Job

PLACES: tuple[tuple[type[Model], str], ...] = (
    (Job, "The job is live again."),
    (DeadLetter, "The job died; this is its dead letter."),
    (History, "The job has ended; this is its row of history."),
)


class JobPage(PlainAdmin):
    """A job that is live, over or dead."""

    buttons: tuple[str, ...] = ()
    """Actions that the object's page offers as well."""

    asks_reason: frozenset[str] = frozenset()
    """Actions that want to know why."""

    ordering = ("-id",)
    search_fields = ("id",)
    search_help_text = "An id, or exactly a task name or a dedupe key."
    change_form_template = "djqueue/admin/job.html"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find by id, or exactly by task name or dedupe key."""
        term = search_term.strip()
        if not term:
            return queryset, False
        id_ = as_uuid(term)
        if id_ is not None:
            return queryset.filter(pk=id_), False
        return self.searchable(queryset).filter(Q(task_name=term) | Q(dedupe_key=term)), False

    def searchable(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows in which a search without an index may look."""
        return queryset

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the row, with a note on whether its payload may be shown."""
        found = super().get_object(request, object_id, from_field)
        if found is not None:
            let_see(found, self.has_payload_permission(request))
        return found

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the object's page, with a button for each action that the user may do."""
        allowed = self.get_actions(request)
        buttons = [
            {"action": name, "label": getattr(self, name).short_description} for name in self.buttons if name in allowed
        ]
        context = {
            "djqueue_buttons": buttons,
            "djqueue_from": FROM_OBJECT,
            "djqueue_asks_reason": self.asks_reason & {button["action"] for button in buttons},
            **(extra_context or {}),
        }
        return super().change_view(request, object_id, form_url, context)

    def _get_obj_does_not_exist_redirect(self, request: HttpRequest, opts: Any, object_id: str) -> HttpResponse:
        """A job moves when it ends: lead an old link to where it stands now."""
        id_ = as_uuid(object_id)
        for model, words in PLACES if id_ is not None else ():
            page = self.admin_site._registry.get(model)
            if page is not None and page.has_view_permission(request) and _stands_in(model, id_):
                self.message_user(request, words, messages.INFO)
                return HttpResponseRedirect(self.address_of(model, id_))
        answer: HttpResponse = super()._get_obj_does_not_exist_redirect(request, opts, object_id)  # type: ignore[misc]
        return answer


def _stands_in(model: type[Model], id_: UUID | None) -> bool:
    return model._default_manager.using(source.alias()).filter(pk=id_).exists()
