"""Counting only so far: the number of rows a list admits to, and the rows that an unindexed search looks at."""

from functools import cached_property
from typing import Any, TypeVar

from django.conf import settings
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet

MOST_COUNTED = 10_000
NEWEST = 100_000

M = TypeVar("M", bound=Model)


class AtLeast(int):
    """A count that stopped there: it is shown as `10,000+` and pages like 10,000."""

    def __str__(self) -> str:
        # Django would put its own separators between these characters.
        return f"{int(self)}" if settings.USE_THOUSAND_SEPARATOR else f"{int(self):,}+"


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Pages over the first 10,000 rows; the database never counts further, however many there are."""

    @cached_property
    def count(self) -> int:  # type: ignore[override]
        """How many rows there are, exactly up to 10,000."""
        rows: Any = self.object_list
        found: int = rows.order_by()[: MOST_COUNTED + 1].count()
        return AtLeast(MOST_COUNTED) if found > MOST_COUNTED else found


def among_newest(rows: QuerySet[M]) -> QuerySet[M]:
    """Return those of the rows that are among the 100,000 newest of the table by id.

    A condition without an index is looked for there only, so that it costs the same after a year.
    """
    # A literal bound, not a subquery: with it the planner sees that a range of the id index is enough.
    ids = rows.model._default_manager.using(rows.db).order_by("-pk").values_list("pk", flat=True)
    oldest = list(ids[NEWEST - 1 : NEWEST])
    return rows.filter(pk__gte=oldest[0]) if oldest else rows
