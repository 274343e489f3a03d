"""What people type to find jobs: `queue:emails state:dead args.order_id:7 older:10m`.

Stands between the search field of the jobs page and `store.search`. Invariant: a text either means one search, or is
refused with words that say what was expected; nothing of it is ever SQL.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Any
from uuid import UUID

LONGEST = 2_000
MOST_WORDS = 8
MOST_STEPS = 16
TEN_YEARS = 3_650 * 86_400
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([smhdw])")
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,30})(\.\d{1,30})?")
_FIELD = re.compile(r"([a-z]+(?:\.[^\s:\"]+)?):(.*)", re.DOTALL)


class Tab(StrEnum):
    """Where a job stands, as people see it. `retrying` is a scheduled job that was tried before."""

    READY = "ready"
    RUNNING = "running"
    SCHEDULED = "scheduled"
    RETRYING = "retrying"
    PARKED = "parked"
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    DEAD = "dead"


LIVE_TABS = frozenset({Tab.READY, Tab.RUNNING, Tab.SCHEDULED, Tab.RETRYING, Tab.PARKED})
HISTORY_TABS = frozenset({Tab.SUCCEEDED, Tab.CANCELLED})


class SearchInvalid(ValueError):
    """The text means no search; the message says what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Which jobs: all that fit everything given. Patterns are SQL's (`%` any text), everything else is exact."""

    id: UUID | None = None
    tab: Tab | None = None
    tasks: tuple[str, ...] = ()
    """Patterns of which a task's name must fit one; none: any."""
    queue: str | None = None
    tenant: str | None = None
    tag: str | None = None
    key: str | None = None
    """Pattern of the dedupe key."""
    subject: str | None = None
    parent: UUID | None = None
    cause: str | None = None
    """Fingerprint of a dead letter's error group."""
    error: str | None = None
    """Part of what is kept of failures, without regard to case."""
    args: str | None = None
    """A JSON path expression over the arguments."""
    older_seconds: float | None = None
    words: tuple[str, ...] = ()
    """Each is part of the task's name; one alone may be the whole dedupe key as well."""

    @property
    def reads_payload(self) -> bool:
        """Whether its answer tells something of arguments or errors."""
        return self.args is not None or self.error is not None

    @property
    def reads_json(self) -> bool:
        """Whether it must look into a column that may be large."""
        return self.reads_payload or self.tag is not None

    @property
    def is_exact(self) -> bool:
        """Whether an index leads straight to the rows."""
        return self.id is not None or self.subject is not None or self.parent is not None

    @property
    def is_all(self) -> bool:
        """Whether every row of a table fits."""
        return replace(self, tab=None) == Search()


def parse(text: str) -> Search:
    """Return what a text asks for, or raise `SearchInvalid`."""
    if len(text) > LONGEST:
        raise SearchInvalid(f"Expected at most {LONGEST:,} characters, got {len(text):,}.")
    _refuse_unstorable(text)
    found: dict[str, Any] = {}
    words: list[str] = []
    paths: list[str] = []
    for token, is_quoted in _tokens(text):
        match = None if is_quoted else _FIELD.fullmatch(token)
        if match is None:
            _add_word(found, words, token)
        elif match[1].startswith("args."):
            paths.append(_condition(match[1], match[2]))
        else:
            _add_field(found, match[1], match[2])
    if len(words) > MOST_WORDS:
        raise SearchInvalid(f"Expected at most {MOST_WORDS} words, got {len(words)}.")
    return Search(**found, words=tuple(words), args=f"$ ? ({' && '.join(paths)})" if paths else None)


def token(field: str, value: str) -> str:
    """Return the text that asks for this value of a field."""
    if value and not re.search(r"[\s\"\\]", value):
        return f"{field}:{value}"
    return field + ':"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _refuse_unstorable(text: str) -> None:
    if "\0" in text:
        raise SearchInvalid("Expected text without NUL characters, got one.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise SearchInvalid("Expected valid Unicode, got a lone surrogate.")


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Split at white space outside of double quotes; in quotes a backslash takes the next character as it is."""
    at, end = 0, len(text)
    while at < end:
        if text[at].isspace():
            at += 1
            continue
        parts: list[str] = []
        begins_quoted = text[at] == '"'
        while at < end and not text[at].isspace():
            if text[at] == '"':
                part, at = _quoted(text, at + 1)
                parts.append(part)
            else:
                parts.append(text[at])
                at += 1
        yield "".join(parts), begins_quoted


def _quoted(text: str, at: int) -> tuple[str, int]:
    """Return what stands in quotes, and the place behind them."""
    parts: list[str] = []
    while at < len(text):
        if text[at] == '"':
            return "".join(parts), at + 1
        if text[at] == "\\" and at + 1 < len(text):
            at += 1
        parts.append(text[at])
        at += 1
    raise SearchInvalid('Expected a closing quotation mark (") at the end, got none.')


def _add_word(found: dict[str, Any], words: list[str], word: str) -> None:
    """A bare id means the job with it."""
    try:
        id_ = UUID(word)
    except ValueError:
        if word:
            words.append(word)
        return
    _put(found, "id", id_, "id")


def _add_field(found: dict[str, Any], name: str, value: str) -> None:
    reader = _FIELDS.get(name)
    if reader is None:
        near = get_close_matches(name, [*_FIELDS, "args"], n=1)
        hint = f" Did you mean {near[0]}:?" if near else ""
        known = " ".join(f"{each}:" for each in _FIELDS)
        raise SearchInvalid(
            f"{name}: is no field.{hint} Expected one of {known} args.path:, or quotation marks around the word."
        )
    if not value:
        raise SearchInvalid(f"{name}: expected a value right behind the colon, got none.")
    where, read = reader
    _put(found, where, read(name, value), name)


def _put(found: dict[str, Any], where: str, value: object, name: str) -> None:
    if where in found:
        raise SearchInvalid(f"{name}: expected once, got it twice.")
    found[where] = value


def _condition(field: str, value: str) -> str:
    """Return one condition of a JSON path expression. `args.0` is the first positional argument, `args.name` a named
    one; `args.args.…` and `args.kwargs.…` say it outright."""
    steps = field.split(".")[1:]
    if not all(steps) or len(steps) > MOST_STEPS:
        raise SearchInvalid(f"{field}: expected a path of 1 to {MOST_STEPS} names or numbers between dots.")
    if not value:
        raise SearchInvalid(f"{field}: expected a value right behind the colon, got none.")
    if steps[0] not in ("args", "kwargs"):
        steps.insert(0, "args" if steps[0].isdecimal() else "kwargs")
    path = "@" + "".join(map(_step, steps))
    return "(" + " || ".join(f"{path} {each}" for each in _comparisons(value)) + ")"


def _step(step: str) -> str:
    return f"[{int(step)}]" if step.isascii() and step.isdecimal() and len(step) < 10 else f".{_quoted_json(step)}"


def _comparisons(value: str) -> Iterator[str]:
    """Ways to read a value: as text, with a star at its end as a beginning, and as what JSON writes without quotes."""
    if value.endswith("*") and len(value) > 1:
        yield f"starts with {_quoted_json(value[:-1])}"
        return
    yield f"== {_quoted_json(value)}"
    if value in ("true", "false", "null") or _NUMBER.fullmatch(value):
        yield f"== {value}"


def _quoted_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _text(name: str, value: str) -> str:
    return value


def _pattern(name: str, value: str) -> str:
    """A star stands for any text."""
    return re.sub(r"([\\%_])", r"\\\1", value).replace("*", "%")


def _task(name: str, value: str) -> tuple[str, ...]:
    """The whole dotted path, or its end."""
    pattern = _pattern(name, value)
    return (pattern, f"%.{pattern}")


def _id(name: str, value: str) -> UUID:
    try:
        return UUID(value)
    except ValueError:
        raise SearchInvalid(f"{name}: expected a job's id (a UUID), got {value[:60]!r}.") from None


def _tab(name: str, value: str) -> Tab:
    try:
        return Tab.RUNNING if value == "leased" else Tab(value)
    except ValueError:
        raise SearchInvalid(f"{name}: expected one of {', '.join(Tab)}, got {value[:60]!r}.") from None


def _duration(name: str, value: str) -> float:
    parts = _DURATION.findall(value)
    seconds = math.fsum(float(number) * _SECONDS[unit] for number, unit in parts)
    if not parts or "".join(number + unit for number, unit in parts) != value or seconds > TEN_YEARS:
        raise SearchInvalid(f"{name}: expected a duration like 30s, 10m, 2h, 1d or 1h30m, got {value[:60]!r}.")
    return seconds


_FIELDS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "id": ("id", _id),
    "task": ("tasks", _task),
    "queue": ("queue", _text),
    "state": ("tab", _tab),
    "tenant": ("tenant", _text),
    "tag": ("tag", _text),
    "key": ("key", _pattern),
    "error": ("error", _text),
    "subject": ("subject", _text),
    "parent": ("parent", _id),
    "cause": ("cause", _text),
    "older": ("older_seconds", _duration),
}
