"""The payload of one job on its own page: arguments, results, errors with tracebacks, for those who may see them.

The server prints and cuts the JSON, so that a value of any size or depth costs a page neither memory nor an error.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from django.contrib import admin
from django.db.models import F, Func, Model, QuerySet, TextField
from django.db.models.functions import Left, Length
from django.utils.html import format_html, format_html_join

from djqueue.admin import largefile, source, tree
from djqueue.admin.show import EMPTY
from djqueue.api import largeargs
from djqueue.api.redaction import Redaction

MOST_SHOWN = 20_000
MOST_ERRORS = 400_000
MOST_REDACTED = 2_000_000
TOO_LARGE = "[too large to be redacted]"
HIDDEN = "(hidden: needs the permission “Can see arguments, results and tracebacks”)"

_READ = "djqueue_payload"
_MAY = "_djqueue_may_see"


@dataclass(frozen=True, slots=True)
class Piece:
    """One column as JSON text, as much of it as was read; `length` is that of the whole."""

    text: str
    length: int

    @property
    def is_cut(self) -> bool:
        """Whether it goes on."""
        return self.length > len(self.text)


def let_see(obj: Model, may: bool) -> None:
    """Note on a row whether its payload may be shown to the user of this request."""
    setattr(obj, _MAY, may)


def may_see(obj: Model) -> bool:
    """Tell whether the payload of this row may be shown to the user of this request."""
    return bool(getattr(obj, _MAY, False))


def payload_field(field: str, label: str) -> Callable[[Any, Any], Any]:
    """Return a read-only field that shows a JSON column of the row, or that it is hidden."""

    @admin.display(description=label)
    def shown(self: Any, obj: Model) -> str:
        piece = _piece(self.payload, obj, field)
        return piece if isinstance(piece, str) else _tree(piece, field, obj)

    return shown


@admin.display(description="errors")
def errors_field(self: Any, obj: Model) -> str:
    """The failed attempts of a job, the latest first."""
    piece = _piece(self.payload, obj, "errors")
    if isinstance(piece, str):
        return piece
    try:
        entries = json.loads(piece.text)
    except (ValueError, RecursionError):
        entries = None
    if piece.is_cut or not isinstance(entries, list):
        return _pre(piece.text[:MOST_SHOWN], piece)
    shown = (_redacted(entry, str(getattr(obj, "task_name", ""))) for entry in reversed(entries))
    return format_html_join("", "{}", ((_error(entry),) for entry in shown)) or EMPTY


def _piece(fields: tuple[str, ...], obj: Model, field: str) -> Piece | str:
    """Return what there is to show, or the words in its place: that it is hidden, or that it is NULL."""
    if not may_see(obj):
        return HIDDEN
    if not hasattr(obj, _READ):
        setattr(obj, _READ, _pieces(fields, obj))
    return cast("dict[str, Piece]", getattr(obj, _READ)).get(field, EMPTY)


def with_pieces(rows: QuerySet[Any], fields: tuple[str, ...]) -> QuerySet[Any]:
    """Read the payload columns of a row together with it, each only so far."""
    wanted: dict[str, Any] = {}
    longest = MOST_REDACTED if source.redaction() else MOST_SHOWN
    for field in fields:
        pretty = Func(F(field), function="jsonb_pretty", output_field=TextField())
        wanted[f"{_READ}_{field}"] = Left(pretty, MOST_ERRORS if field == "errors" else longest)
        wanted[f"{_READ}_{field}_length"] = Length(pretty)
    dressed: QuerySet[Any] = rows.annotate(**wanted)
    return dressed


def _pieces(fields: tuple[str, ...], obj: Model) -> dict[str, Piece]:
    """Return what was read with the row; columns that are NULL are left out."""
    hook = source.redaction()
    texts = {field: getattr(obj, f"{_READ}_{field}", None) for field in fields}
    pieces = {
        field: Piece(text, getattr(obj, f"{_READ}_{field}_length")) for field, text in texts.items() if text is not None
    }
    if not hook:
        return pieces
    task_name = str(getattr(obj, "task_name", ""))
    return {
        field: piece if field == "errors" else _redact(hook, KINDS.get(field, field), task_name, piece)
        for field, piece in pieces.items()
    }


KINDS = {"args": "arguments"}
"""What the hook is told that a column is, where that is not its name."""


def _redact(hook: Redaction, kind: str, task_name: str, piece: Piece) -> Piece:
    """What is too large to be read as a whole is not shown: half a secret is one too."""
    text = TOO_LARGE if piece.is_cut else hook.text(kind, task_name, piece.text, MOST_REDACTED)
    return Piece(text[:MOST_SHOWN], len(text))


def _redacted(entry: Any, task_name: str) -> Any:
    """An error as it may be shown. It was redacted when it was recorded, but perhaps by another hook or none."""
    hook = source.redaction()
    if not hook or not isinstance(entry, dict):
        return entry
    return entry | {
        kind: hook.text(kind, task_name, str(entry[kind])) for kind in ("message", "traceback") if kind in entry
    }


def _tree(piece: Piece, field: str, obj: Model) -> str:
    """A value that folds, with its JSON behind it; what can't be read as JSON, or was cut, as it is."""
    text = _pre(piece.text, piece)
    try:
        value = None if piece.is_cut else json.loads(piece.text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict | list) or not value:
        return text
    task_name = str(getattr(obj, "task_name", ""))
    found = tree.of_arguments(value, task_name) if field == "args" else tree.of(value)
    if field == "args" and largeargs.reference(value):
        text = format_html('<p><a href="{}">{}</a></p>{}', largefile.address(obj), largefile.LABEL, text)
    return format_html('{}<details class="djq-raw"><summary>JSON</summary>{}</details>', found, text)


def _pre(text: str, piece: Piece) -> str:
    note = ""
    if piece.length > len(text):
        note = format_html(
            '<p class="djqueue-note">The first {} of {} characters.</p>', f"{len(text):,}", f"{piece.length:,}"
        )
    return format_html('<pre class="djqueue-payload">{}</pre>{}', text, note)


def _error(entry: Any) -> str:
    """One failed attempt; whatever a row holds in its place is shown as it is."""
    if not isinstance(entry, dict):
        return format_html('<pre class="djqueue-payload">{}</pre>', json.dumps(entry, indent=2, ensure_ascii=False))
    if "dropped" in entry:
        return format_html('<p class="djqueue-note">{} earlier errors were dropped.</p>', entry["dropped"])
    head = " · ".join(_facts(entry))
    body = format_html("<p><b>{}</b>: {}</p>", entry.get("exception", "?"), str(entry.get("message", ""))[:MOST_SHOWN])
    trace = entry.get("traceback")
    if trace:
        body += format_html(
            '<details><summary>Traceback</summary><pre class="djqueue-payload">{}</pre></details>', trace
        )
    return format_html('<div class="djqueue-error"><p class="djqueue-note">{}</p>{}</div>', head, body)


def _facts(entry: dict[str, Any]) -> list[str]:
    labels = {"attempt": "attempt {}", "run": "run {}", "kind": "{}", "at": "{}", "worker": "worker {}"}
    facts = [text.format(entry[key]) for key, text in labels.items() if entry.get(key) is not None]
    seconds = entry.get("seconds")
    if isinstance(seconds, int | float):
        facts.append(f"{seconds:.3f} s")
    return facts
