"""JSON as a tree that folds: arguments with the names of the handler's parameters.

Invariant: bounded, whatever the value is, and every part of it escaped and kept from changing the direction of its
neighbours.
"""

import inspect
import json
from collections.abc import Iterable, Iterator
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from djqueue.api import registry

MOST_NODES = 2_000
MOST_DEPTH = 40
MOST_TEXT = 2_000


def of(value: Any) -> SafeString:
    """Return a value as a tree."""
    return _Tree().shown(value, 0)


def of_arguments(value: Any, task_name: str) -> SafeString:
    """Return a job's arguments as a tree, each with the name of its parameter where that is known."""
    if not isinstance(value, dict) or set(value) != {"args", "kwargs"}:
        return of(value)
    args, kwargs = value["args"], value["kwargs"]
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        return of(value)
    if not args and not kwargs:
        return mark_safe('<p class="djq-empty">None.</p>')
    names = _parameters(task_name)
    named = [(f"{n} {names[n]}" if n < len(names) else str(n), each) for n, each in enumerate(args)]
    return _Tree().pairs([*named, *kwargs.items()], 0)


class _Tree:
    """Counts what it has shown, and stops."""

    def __init__(self) -> None:
        self._left = MOST_NODES

    def shown(self, value: Any, depth: int) -> SafeString:
        self._left -= 1
        if isinstance(value, dict | list) and value:
            if depth >= MOST_DEPTH:
                return format_html('<span class="djq-note">{}</span>', "… deeper than is shown")
            pairs = value.items() if isinstance(value, dict) else ((str(n), each) for n, each in enumerate(value))
            words = f"{len(value):,} {'keys' if isinstance(value, dict) else 'items'}"
            return format_html(
                "<details{}><summary>{}</summary>{}</details>",
                mark_safe(" open") if depth < 2 and len(value) <= 20 else "",
                words,
                self.pairs(pairs, depth + 1),
            )
        return _leaf(value)

    def pairs(self, pairs: Iterable[tuple[str, Any]], depth: int) -> SafeString:
        return format_html('<dl class="djq-tree">{}</dl>', mark_safe("".join(self._each(pairs, depth))))

    def _each(self, pairs: Iterable[tuple[str, Any]], depth: int) -> Iterator[str]:
        for name, value in pairs:
            if self._left <= 0:
                yield '<div><dt>…</dt><dd class="djq-note">more than is shown</dd></div>'
                return
            yield format_html("<div><dt><bdi>{}</bdi></dt><dd>{}</dd></div>", _cut(name), self.shown(value, depth))


def _leaf(value: Any) -> SafeString:
    kind = "text" if isinstance(value, str) else "other"
    text = value if isinstance(value, str) else json.dumps(value)
    if text == "":
        return format_html('<span class="djq-note">{}</span>', "(empty text)")
    return format_html('<bdi class="djq-leaf djq-leaf-{}">{}</bdi>', kind, _cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}… ({len(text):,} characters)"


def _parameters(task_name: str) -> list[str]:
    """Return the names of the positional parameters that a job's arguments go to."""
    task = registry.get(task_name)
    if task is None:
        return []
    try:
        found = list(inspect.signature(task.func).parameters.values())
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [each.name for each in found if each.kind in kinds]
    return names[1:] if task.takes_context else names
