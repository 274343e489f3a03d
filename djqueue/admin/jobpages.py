"""What the pages of a job share, wherever it stands: search, hidden payload, buttons, the way to where it is now."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseRedirect
from django.urls import path, reverse

from djqueue.admin import fragments, jobacts, jobwords, largefile, source, timeline
from djqueue.admin.actions import FROM_OBJECT
from djqueue.admin.base import PlainAdmin, as_uuid
from djqueue.admin.payload import let_see, with_pieces
from djqueue.models import DeadLetter, History, Job
from djqueue.store import story

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
        """Return the row, with its payload for those who may see it: in one statement."""
        id_, may = as_uuid(object_id), self.has_payload_permission(request)
        rows = self.get_queryset(request).filter(pk=id_)
        found = (with_pieces(rows, self.payload) if may else rows)[:1]
        for row in found if id_ is not None else ():
            let_see(row, may)
            return row
        return None

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
            **self._about(request, object_id),
            "djqueue_from": FROM_OBJECT,
            "djqueue_asks_reason": self.asks_reason & {button["action"] for button in buttons},
            **(extra_context or {}),
        }
        answer: Any = fragments.cut(request, super().change_view(request, object_id, form_url, context))
        return answer  # type: ignore[no-any-return]

    def get_urls(self) -> list[Any]:
        """Add the page on which a copy is made, and the address of single changes."""
        name = self.opts.model_name
        copy = path("<uuid:id_>/copy/", self.admin_site.admin_view(self.copy_view), name=f"djqueue_{name}_copy")
        alter = path("<uuid:id_>/alter/", self.admin_site.admin_view(self.alter_view), name=f"djqueue_{name}_alter")
        large = path(
            "<uuid:id_>/arguments/", self.admin_site.admin_view(self.file_view), name=f"djqueue_{name}_arguments"
        )
        return [copy, alter, large, *super().get_urls()]

    def copy_view(self, request: HttpRequest, id_: UUID) -> HttpResponse:
        """Show the arguments of a job, and enqueue a copy with others."""
        return jobacts.duplicate_view(self, request, id_)

    def file_view(self, request: HttpRequest, id_: UUID) -> HttpResponse:
        """Send arguments that are kept in a file."""
        return largefile.view(self, request, id_)

    def alter_view(self, request: HttpRequest, id_: UUID) -> HttpResponse:
        """Reschedule a job, or change its queue or priority."""
        return jobacts.change_view(self, request, id_)

    def _about(self, request: HttpRequest, object_id: str) -> dict[str, Any]:
        """What stands above the fields: the job's life, why it does not run, its family, and what may be done."""
        id_ = as_uuid(object_id)
        found = None if id_ is None else story.story(source.alias(), id_)
        if id_ is None or found is None or not self.has_view_permission(request):
            return {}
        name = self.opts.model_name
        return {
            "djqueue_timeline": timeline.of(found),
            "djqueue_why": jobwords.why(found.state, id_),
            "djqueue_family": jobwords.family(self, request, id_, found),
            "djqueue_progress": jobwords.progress(found),
            "djqueue_copy_url": self._own_address("copy", id_) if jobacts.may_duplicate(self, request) else "",
            "djqueue_alter_url": self._own_address("alter", id_),
            "djqueue_forms": self._forms(request, found) if name == "job" else [],
        }

    def _forms(self, request: HttpRequest, found: story.Story) -> list[dict[str, Any]]:
        may = found.state in jobwords.WAITING and jobacts.may_change(request)
        return jobacts.forms_for(found) if may else []

    def _own_address(self, what: str, id_: UUID) -> str:
        return reverse(f"admin:djqueue_{self.opts.model_name}_{what}", args=[id_], current_app=self.admin_site.name)

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
