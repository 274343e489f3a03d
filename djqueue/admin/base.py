"""What all pages of djqueue's admin share: read-only, bounded lists that leave the payload where it is."""

from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME, ActionForm
from django.contrib.admin.utils import flatten_fieldsets, quote
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.http.request import QueryDict
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from djqueue.admin import fragments, source
from djqueue.admin.counting import BoundedPaginator
from djqueue.admin.reasonform import ReasonForm
from djqueue.admin.show import EMPTY


class PlainChangeList(ChangeList):
    """A list in its own order only: `?o=` would sort a whole table."""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        """Return the order that the page declares; it ends with the primary key."""
        return list(self.model_admin.get_ordering(request))

    def get_results(self, request: HttpRequest) -> None:
        """Read the page's rows, and let the page add what stands elsewhere, for all of them at once."""
        super().get_results(request)
        page: Any = self.model_admin
        rows = list(self.result_list)
        page.dress(request, rows)
        self.result_list = rows  # type: ignore[assignment]

    def get_ordering_field_columns(self) -> dict[int, Any]:
        """No column can be sorted by."""
        return {}


class PlainAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A page that shows rows and changes none; subclasses open what may be changed."""

    payload: tuple[str, ...] = ()
    """Columns that are never read with the row; the object's page reads them for those who may see them."""

    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = BoundedPaginator
    action_form: ClassVar[type[ActionForm]] = ReasonForm
    sortable_by = ()
    empty_value_display = EMPTY
    change_list_template = "djqueue/admin/list.html"
    change_form_template = "djqueue/admin/object.html"

    class Media:
        css = {"all": ["djqueue/look.css", "djqueue/admin.css", "djqueue/jobs.css"]}
        js = ["djqueue/live.js"]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Show the list, or its live part alone."""
        context = {
            "title": capfirst(self.opts.verbose_name_plural),
            "djqueue_summary": self.summary(request),
            **(extra_context or {}),
        }
        return fragments.cut(request, super().changelist_view(request, context))

    def summary(self, request: HttpRequest) -> SafeString | str:
        """Return what stands above the rows and is refreshed with them: tiles, a chart, or nothing."""
        return ""

    def dress(self, request: HttpRequest, rows: list[Any]) -> None:
        """Add to the rows of one page what stands in other tables, in a statement or two for all of them."""

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list that keeps its order."""
        return PlainChangeList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows, without their payload."""
        return super().get_queryset(request).using(source.alias()).defer(*self.payload)

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[Any] | tuple[Any, ...]:
        """Every field that is shown, where nothing may be changed."""
        if self.has_change_permission(request, obj):
            return super().get_readonly_fields(request, obj)
        return flatten_fieldsets(self.get_fieldsets(request, obj))

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Allow the page's own filters only: `?args__…=` would tell what nobody may see."""
        return lookup in {getattr(each, "parameter_name", None) for each in self.list_filter}

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # type: ignore[override]
        """Nobody adds rows here."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody changes rows here."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody deletes rows here."""
        return False

    def address_of(self, model: type[Model], pk: object) -> str:
        """Return the address of an object's page."""
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}_change"
        return reverse(name, args=[quote(str(pk))], current_app=self.admin_site.name)

    def has_payload_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may see arguments, results and tracebacks."""
        return request.user.has_perm("djqueue.view_payload")


def as_uuid(text: str) -> UUID | None:
    """Return the id that a text means, if it means one."""
    try:
        return UUID(text)
    except ValueError:
        return None


def selected(form: QueryDict) -> set[str]:
    """Return the keys that were ticked on the list, or that the object's page sent."""
    return set(form.getlist(ACTION_CHECKBOX_NAME))
