"""The jobs of an object on the object's own page: `inlines = [JobsInline]` in any ModelAdmin.

Jobs are found by the subject that they were enqueued with. Invariant: shown only, never part of the form that is saved;
three statements, however many jobs there are.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.checks import InlineModelAdminChecks
from django.core.checks import CheckMessage
from django.forms import Media
from django.http import HttpRequest

from djqueue.admin import joblist, source
from djqueue.api.kept import subject_text
from djqueue.models import Job
from djqueue.policy.search import Search, token
from djqueue.store import search

SHOWN = 20


class _NoChecks(InlineModelAdminChecks):
    """There is no foreign key to look for."""

    def check(self, inline_obj: Any, **kwargs: Any) -> list[CheckMessage]:  # type: ignore[override]
        """Find nothing."""
        return []


class JobsInline(admin.TabularInline):  # type: ignore[type-arg]
    """The newest jobs whose subject is the object of the page, and the way to all of them."""

    model = Job
    template = "djqueue/admin/inline.html"
    checks_class = _NoChecks
    verbose_name = "job"
    verbose_name_plural = "jobs"
    extra = 0
    max_num = 0
    can_delete = False
    fields = ()
    shown = SHOWN
    """How many jobs are listed."""

    class Media:
        css = {"all": ["djqueue/look.css", "djqueue/admin.css", "djqueue/jobs.css"]}

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        """Return what stands in the place of a formset: rows to be shown."""
        places = joblist.places(self, request)
        inline = self

        class Shown(_Nothing):
            rows = list(inline._rows(obj, places))
            all_url = inline._address(obj)

        return Shown

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """There is nothing to fill in."""
        return []

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the user may see jobs anywhere."""
        return bool(joblist.places(self, request))

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody adds jobs here."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody changes jobs here."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody deletes jobs here."""
        return False

    def address_of(self, model: Any, pk: object) -> str:
        """Return the address of a job's page."""
        page: Any = self.admin_site._registry[model]
        address: str = page.address_of(model, pk)
        return address

    def _rows(self, obj: Any, places: frozenset[search.Place]) -> Any:
        if obj is None or obj.pk is None or not places:
            return []
        found = search.page(source.alias(), Search(subject=subject_text(obj)), places, limit=self.shown)
        return joblist.rows(self, found.hits)

    def _address(self, obj: Any) -> str:
        if obj is None or obj.pk is None:
            return ""
        wanted = joblist.Asked(search=Search(), text=token("subject", subject_text(obj)))
        return joblist.address(self) + wanted.address()


class _Nothing:
    """A formset without forms: always valid, never changed."""

    rows: ClassVar[Sequence[Any]] = ()
    all_url: ClassVar[str] = ""
    forms: Sequence[Any] = ()
    initial_forms: Sequence[Any] = ()
    extra_forms: Sequence[Any] = ()
    deleted_forms: Sequence[Any] = ()
    new_objects: Sequence[Any] = ()
    changed_objects: Sequence[Any] = ()
    deleted_objects: Sequence[Any] = ()
    errors: Sequence[Any] = ()
    is_bound = False
    can_delete = False
    can_order = False
    max_num = 0
    min_num = 0
    extra = 0
    model = Job
    management_form = ""
    media = Media()

    def __init__(self, *, prefix: str = "", **kwargs: Any) -> None:
        self.prefix = prefix

    @classmethod
    def get_default_prefix(cls) -> str:
        """Return what no field's name begins with."""
        return "djqueue_jobs"

    def is_valid(self) -> bool:
        """There is nothing to be wrong."""
        return True

    def is_multipart(self) -> bool:
        """There is no file."""
        return False

    def has_changed(self) -> bool:
        """There is nothing to change."""
        return False

    def save(self, commit: bool = True) -> list[Any]:
        """Save nothing."""
        return []

    def save_m2m(self) -> None:
        """Save nothing."""

    def non_form_errors(self) -> list[Any]:
        """Return none."""
        return []

    def total_form_count(self) -> int:
        """Return none."""
        return 0

    def initial_form_count(self) -> int:
        """Return none."""
        return 0

    def get_queryset(self) -> Any:
        """Return no rows: they are not the form's."""
        return Job.objects.none()
