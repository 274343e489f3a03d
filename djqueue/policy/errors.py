"""What is kept of a failed attempt: bounded, clean text, whatever the exception is like.

Stands between a handler that raised and the row that records it. The invariant: recording a failure never fails because
of what is recorded. Frame locals are never looked at, since they hold people's data and secrets.
"""

import json
import re
import textwrap
import traceback
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

from djqueue.policy.fingerprint import innermost_own_frame

TEXT_LIMIT = 64_000
LIST_LIMIT = 256_000
NAME_LIMIT = 500
INNER_MESSAGE_LIMIT = 4_000
"""A message inside a traceback; the whole of the outermost one stands in `FailureText.message`."""

KEPT_FIRST = KEPT_LAST = 3
FIRST_FRAMES, LAST_FRAMES = 20, 40
NEAREST_LINKS, FARTHEST_LINKS = 8, 2
MAX_GROUP_DEPTH, MAX_GROUP_WIDTH, MAX_GROUPED = 8, 10, 60

_Frame = tuple[FrameType, int]
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureText:
    """An exception as text that PostgreSQL can store."""

    exception: str
    """Dotted path of its class, at most 500 bytes."""

    message: str
    """What `str()` gave, or a placeholder in brackets; at most 64 kB."""

    traceback: str
    """The traceback with causes, contexts, notes and grouped exceptions, without locals; at most 64 kB."""

    frame: str = ""
    """Where in the project's own code it happened (`shop/partner.py:fetch`), for the fingerprint; at most 500 bytes."""


def describe(exc: BaseException) -> FailureText:
    """Return an exception as text. Never raises, whatever the exception does when it is looked at."""
    try:
        text = _Formatter().chain(exc)
    except BaseException as fault:
        text = f"[the traceback can't be shown: {_class_path(fault)}]\n"
    return FailureText(
        exception=_class_path(exc),
        message=_message(exc, TEXT_LIMIT),
        traceback=clean_text(text, TEXT_LIMIT),
        frame=_frame(exc),
    )


def clean_text(text: str, limit: int = TEXT_LIMIT) -> str:
    """Return text without NUL and lone surrogates (U+FFFD instead), at most `limit` bytes of UTF-8.

    What is too long keeps its head and its tail, around a mark that counts the characters cut; below 100 bytes there is
    no room for a mark, and only the head stays.
    """
    length = str.__len__(text)
    # A character is at least one byte: cut huge texts before anything else looks at them.
    head, tail = (text, "") if length <= 2 * limit else (_slice(text, 0, limit), _slice(text, -limit, None))
    whole = _UNSTORABLE.sub("\ufffd", _slice(head, 0, None) + _slice(tail, 0, None))
    data = whole.encode()
    if length <= 2 * limit and len(data) <= limit:
        return whole
    if limit < 100:
        return data[:limit].decode(errors="ignore")
    half = (limit - 60) // 2
    head = data[:half].decode(errors="ignore")
    tail = data[len(data) - half :].decode(errors="ignore")
    mark = f"\n[… {length - len(head) - len(tail):,} characters cut …]\n"
    return f"{head}{mark}{tail}"


def append_error(errors: list[dict[str, Any]], entry: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the list with one more entry, at most 256 kB as JSON. The arguments are not changed.

    The first and last three entries stay in full, those between lose their traceback. If that is still too large, the
    oldest between them make room for `{"dropped": count}`; then the texts that are left are cut shorter.
    """
    entries = [*errors, entry]
    dropped = sum(each["dropped"] for each in entries if is_dropped_mark(each) and isinstance(each["dropped"], int))
    entries = [each for each in entries if not is_dropped_mark(each)]
    first, middle, last = _parts(entries)
    middle = [{**each, "traceback": ""} if each.get("traceback") else each for each in middle]

    whole = [*first, *_mark(dropped), *middle, *last]
    if _size(whole) <= LIST_LIMIT:
        return whole
    sizes = [_size(each) for each in middle]
    excess = sum(sizes) + sum(_size(each) for each in (*first, *last)) + 50 - LIST_LIMIT
    count = 0
    while count < len(middle) and excess > 0:
        excess -= sizes[count]
        count += 1
    return _shortened([*first, *_mark(dropped + count), *middle[count:], *last])


def stored_errors(text: str) -> list[dict[str, Any]]:
    """Return the entries that a row holds as JSON text. What djqueue has not written is left out, whatever it is."""
    found = json.loads(text)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def is_dropped_mark(entry: dict[str, Any]) -> bool:
    """Tell whether this is not an error but the mark that says how many were dropped."""
    return "dropped" in entry


def _mark(dropped: int) -> list[dict[str, Any]]:
    return [{"dropped": dropped}] if dropped else []


def _parts(entries: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    first, rest = entries[:KEPT_FIRST], entries[KEPT_FIRST:]
    split = max(0, len(rest) - KEPT_LAST)
    return first, rest[:split], rest[split:]


def _shortened(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cut every text to the same length, the longest at which the whole list fits."""
    limit = TEXT_LIMIT
    while _size(entries) > LIST_LIMIT and limit > 100:
        limit //= 2
        entries = [
            {key: clean_text(value, limit) if isinstance(value, str) else value for key, value in each.items()}
            for each in entries
        ]
    return entries


def _size(value: object) -> int:
    """Bytes as PostgreSQL prints it, and a comma."""
    return len(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace")) + 2


def _slice(text: str, start: int, end: int | None) -> str:
    """A plain str, also of a subclass that overrides slicing."""
    return str.__getitem__(text, slice(start, end))


def _class_path(exc: BaseException) -> str:
    try:
        kind = type(exc)
        return clean_text(f"{kind.__module__}.{kind.__qualname__}", NAME_LIMIT)
    except BaseException:
        return "builtins.BaseException"


def _message(exc: BaseException, limit: int) -> str:
    try:
        return clean_text(str(exc), limit)
    except BaseException as fault:
        return f"[no message: str() of the exception raised {_class_path(fault)}]"


def _frame(exc: BaseException) -> str:
    try:
        return clean_text(innermost_own_frame(exc.__traceback__), NAME_LIMIT)
    except BaseException:
        return ""


class _Formatter:
    """Write an exception as Python does, with a bound on everything that can be long or deep."""

    def __init__(self) -> None:
        self._left = MAX_GROUPED

    def chain(self, exc: BaseException, depth: int = 0) -> str:
        """An exception after those it came from, oldest first; a long chain without its middle."""
        links = _links(exc)
        omitted = len(links) - NEAREST_LINKS - FARTHEST_LINKS
        text = ""
        for position in range(len(links) - 1, -1, -1):
            link, joint = links[position]
            if omitted > 0 and NEAREST_LINKS <= position < NEAREST_LINKS + omitted:
                if position == NEAREST_LINKS:
                    text += f"\n[… {omitted:,} exceptions of the chain left out …]\n{joint}"
                continue
            text += self._one(link, depth) + joint
        return text

    def _one(self, exc: BaseException, depth: int) -> str:
        if depth:
            self._left -= 1
        if self._left < 0 and depth:
            return "[… further exceptions left out …]\n"
        text = _frames(exc.__traceback__) if exc.__traceback__ else ""
        text += f"{_class_path(exc)}: {_message(exc, INNER_MESSAGE_LIMIT)}\n{_notes(exc)}"
        if issubclass(type(exc), BaseExceptionGroup):
            text += self._members(exc, depth)  # type: ignore[arg-type]
        return text

    def _members(self, group: BaseExceptionGroup[BaseException], depth: int) -> str:
        members = group.exceptions
        if depth >= MAX_GROUP_DEPTH:
            return f"  [… {len(members):,} exceptions in a deeper group left out …]\n"
        text = ""
        for number, member in enumerate(members[:MAX_GROUP_WIDTH], start=1):
            inner = textwrap.indent(self.chain(member, depth + 1), "  | ", lambda _: True)
            text += f"  +- {number} of {len(members):,}\n{inner}"
        if len(members) > MAX_GROUP_WIDTH:
            text += f"  [… {len(members) - MAX_GROUP_WIDTH:,} further exceptions of the group left out …]\n"
        return text


def _links(exc: BaseException) -> list[tuple[BaseException, str]]:
    """The exception and those it came from, newest first, each with the words that join it to the one before."""
    links: list[tuple[BaseException, str]] = []
    seen: set[int] = set()
    link: BaseException | None = exc
    joint = ""
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        links.append((link, joint))
        if link.__cause__ is not None:
            link, joint = link.__cause__, _CAUSE
        else:
            link, joint = None if link.__suppress_context__ else link.__context__, _CONTEXT
    return links


def _frames(tb: TracebackType) -> str:
    first: list[_Frame] = []
    last: deque[_Frame] = deque(maxlen=LAST_FRAMES)
    count = 0
    for frame in traceback.walk_tb(tb):
        count += 1
        (first if count <= FIRST_FRAMES else last).append(frame)
    omitted = count - len(first) - len(last)
    mark = f"  [… {omitted:,} frames left out …]\n" if omitted else ""
    return f"Traceback (most recent call last):\n{_stack(first)}{mark}{_stack(last)}"


def _stack(frames: Iterable[_Frame]) -> str:
    return "".join(traceback.StackSummary.extract(iter(frames), capture_locals=False).format())


def _notes(exc: BaseException) -> str:
    try:
        notes = getattr(exc, "__notes__", ())
        return "".join(f"{clean_text(str(note), INNER_MESSAGE_LIMIT)}\n" for note in list(notes)[:10])
    except BaseException as fault:
        return f"[no notes: looking at them raised {_class_path(fault)}]\n"
