"""A job as it may be shown outside the admin: every column, with the project's redact hook between.

Invariant: what the hook did not return is not shown; without the payload nothing of it is.
"""

import json
from typing import Any
from uuid import UUID

from djqueue.api.redaction import Redaction
from djqueue.store import detail as store
from djqueue.store.detail import PAYLOAD

KINDS = {"args": "arguments"}
"""What the hook is told that a column is, where that is not its name."""

MOST_SHOWN = 2_000_000


def shown(alias: str, id_: UUID, redaction: Redaction, *, payload: bool = True) -> dict[str, Any] | None:
    """Return a job's columns and the table it is in; None where there is no such job.

    Redacted arguments and results are texts, since the hook may return anything.
    """
    found = store.detail(alias, id_)
    if found is None:
        return None
    columns = {name: value for name, value in found.columns.items() if payload or name not in PAYLOAD}
    task_name = str(columns["task_name"])
    for name in PAYLOAD if redaction else ():
        if columns.get(name) is not None:
            columns[name] = _redacted(name, columns[name], task_name, redaction)
    return {"table": found.table, **columns}


def _redacted(name: str, value: Any, task_name: str, redaction: Redaction) -> Any:
    if name == "errors" and isinstance(value, list):
        return [_entry(each, task_name, redaction) for each in value]
    text = json.dumps(value, ensure_ascii=False)
    return redaction.text(KINDS.get(name, name), task_name, text, MOST_SHOWN)


def _entry(entry: Any, task_name: str, redaction: Redaction) -> Any:
    """One failed attempt: it was redacted when it was recorded, but perhaps by another hook or none."""
    if not isinstance(entry, dict):
        return redaction.text("message", task_name, json.dumps(entry))
    kinds = [kind for kind in ("message", "traceback") if kind in entry]
    return entry | {kind: redaction.text(kind, task_name, str(entry[kind])) for kind in kinds}
