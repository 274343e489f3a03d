"""One job with every column, wherever it stands: for people who look at it from outside the admin."""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from djqueue.store import db

PAYLOAD = ("args", "result", "errors", "options", "progress", "checkpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """A job as its row has it; moments as ISO texts in the session's zone."""

    table: str
    """`job`, `history` or `dead_letter`."""
    columns: dict[str, Any]


# A job moves from one table to the next in one statement, so one snapshot sees it in exactly one of them.
DETAIL = """
select 'job', to_jsonb(j)::text from djqueue_job j where id = %(id)s
union all
select 'history', to_jsonb(h)::text from djqueue_history h where id = %(id)s
union all
select 'history', to_jsonb(o)::text from djqueue_history_overflow o where id = %(id)s
union all
select 'dead_letter', to_jsonb(d)::text from djqueue_dead_letter d where id = %(id)s
"""


def detail(alias: str, id_: UUID) -> Detail | None:
    """Return the job of this id, if there is one."""
    found = db.rows(alias, DETAIL, {"id": id_})
    return Detail(table=found[0][0], columns=json.loads(found[0][1])) if found else None
