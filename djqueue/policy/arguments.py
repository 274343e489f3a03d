"""What may be stored with a job: JSON, checked and frozen at the enqueue call, before any SQL.

A job's arguments are stored as the JSON text made here, so nothing that the caller changes later reaches the handler.

What comes back: tuples as lists; subclasses of str, int, float, list, tuple and dict (StrEnum, IntEnum, Django's
TextChoices and SafeString, namedtuple, defaultdict) as their plain values; whole floats from 1e16 on as int, since
jsonb keeps numbers, not types. Everything else is refused, lazy translations included: they have no value of their own
until a language is chosen. The invariant: what passes is stored and read back without an error.
"""

import json
import math
from collections.abc import Mapping, Sequence

MAX_BYTES = 1_000_000
MAX_DEPTH = 64
MAX_DIGITS = 4000
"""Python reads back whole numbers of up to 4,300 digits."""

_LARGEST = 10**MAX_DIGITS
_TYPES = "a JSON value (None, bool, int, float, str, list, tuple or dict)"
_REMEDIES = {
    "bytes": "pass value.decode() or base64 text",
    "bytearray": "pass value.decode() or base64 text",
    "memoryview": "pass value.tobytes().decode() or base64 text",
    "set": "pass list(value)",
    "frozenset": "pass list(value)",
    "datetime": "pass value.isoformat() and convert in the handler",
    "date": "pass value.isoformat() and convert in the handler",
    "time": "pass value.isoformat() and convert in the handler",
    "timedelta": "pass value.total_seconds() and convert in the handler",
    "Decimal": "pass str(value) and convert in the handler",
    "UUID": "pass str(value) and convert in the handler",
    "Enum": "pass value.value",
    "PurePath": "pass str(value)",
    "__proxy__": "a lazy translation has no value yet; pass str(value)",
}
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode


class ArgumentsInvalid(ValueError):
    """Something is not storable as JSON; the message names its path, what was expected and the remedy."""


class ResultInvalid(ArgumentsInvalid):
    """What a handler returned is not storable as JSON. Its effects have happened; it is not run again."""


def freeze(
    args: Sequence[object],
    kwargs: Mapping[str, object],
    *,
    max_bytes: int = MAX_BYTES,
    max_depth: int = MAX_DEPTH,
) -> str:
    """Return `{"args": […], "kwargs": {…}}` as compact JSON text, or raise `ArgumentsInvalid`.

    `max_bytes` bounds the text in UTF-8, `max_depth` the containers inside one another below `args` and `kwargs`.
    """
    args, kwargs = tuple(args), dict(kwargs)
    walk = _Walk(max_bytes, max_depth)
    walk.check("args", args, max_depth)
    walk.check("kwargs", kwargs, max_depth)
    return _text({"args": args, "kwargs": kwargs}, "the arguments", max_bytes)


def freeze_value(
    value: object, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH, what: str = "the return value"
) -> str:
    """Return one value as compact JSON text, or raise `ResultInvalid`; `what` names it in the message."""
    try:
        _Walk(max_bytes, max_depth).check(what, value, max_depth - 1)
        return _text(value, what, max_bytes)
    except ArgumentsInvalid as fault:
        raise ResultInvalid(str(fault)) from None


def _text(value: object, what: str, max_bytes: int) -> str:
    try:
        text = _encode(value)
    except (TypeError, ValueError, RecursionError) as fault:
        raise ArgumentsInvalid(f"{what}: expected {_TYPES}, but it can't be written as JSON: {fault}") from fault
    if len(text) > max_bytes or (not text.isascii() and len(text.encode()) > max_bytes):
        raise ArgumentsInvalid(_too_large(what, max_bytes))
    return text


def _too_large(what: str, max_bytes: int) -> str:
    return (
        f"{what}: expected at most {max_bytes:,} bytes of JSON, got more; "
        "keep the data in a model or a file and pass its key, or let the option large_args put arguments into a storage"
    )


class _Fault(Exception):
    """What is wrong, and the keys on the way to it, innermost first."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.keys: list[object] = []


class _TooLarge(Exception):
    """More than `max_bytes`, wherever it stands."""


class _TooDeep(_Fault):
    """More than `max_depth`, or a circle."""


class _Walk:
    """Look at every value once; the path is put together only when something is wrong."""

    __slots__ = ("_left", "_max_bytes", "_max_depth")

    def __init__(self, max_bytes: int, max_depth: int) -> None:
        self._max_bytes = max_bytes
        self._max_depth = max_depth
        # Each value and each character is at least one byte of JSON. Counting them ends the walk through a small object
        # that unfolds into a huge one (a list of lists of the same list).
        self._left = max_bytes

    def check(self, root: str, value: object, depth: int) -> None:
        """Raise `ArgumentsInvalid` for the first fault in `value`, which stands at `root`."""
        try:
            self._value(value, depth)
        except _TooLarge:
            raise ArgumentsInvalid(_too_large(root, self._max_bytes)) from None
        except _TooDeep as fault:
            raise ArgumentsInvalid(_too_deep(root, value, fault)) from None
        except _Fault as fault:
            raise ArgumentsInvalid(f"{root}{_path(fault.keys[::-1])}: {fault}") from None

    def _value(self, value: object, depth: int) -> None:
        kind = type(value)
        if kind is str:
            self._string(value)  # type: ignore[arg-type]
        elif kind is bool or value is None:
            pass
        elif kind is int:
            if not -_LARGEST < value < _LARGEST:
                raise _Fault(f"expected a whole number of at most {MAX_DIGITS:,} digits, got a longer one")
        elif kind is dict:
            self._dict(value, depth)  # type: ignore[arg-type]
        elif kind is list or kind is tuple:
            self._list(value, depth)  # type: ignore[arg-type]
        elif kind is float:
            if not math.isfinite(value):  # type: ignore[arg-type]
                raise _Fault(f"expected a finite number, got {value!r}; JSON has no such value, pass None or text")
        else:
            self._subclass(value, depth)

    def _string(self, text: str) -> None:
        self._left -= len(text)
        if self._left < 0:
            raise _TooLarge
        if "\0" in text:
            raise _Fault(
                f"expected text without NUL, got one at character {text.index(chr(0))}; PostgreSQL can't store it"
            )
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as fault:
                raise _Fault(
                    f"expected valid Unicode, got a lone surrogate at character {fault.start}; "
                    'decode the bytes with errors="replace"'
                ) from None

    def _list(self, items: Sequence[object], depth: int) -> None:
        self._enter(len(items), depth)
        for index, item in enumerate(items):
            try:
                self._value(item, depth - 1)
            except _Fault as fault:
                fault.keys.append(index)
                raise

    def _dict(self, items: Mapping[object, object], depth: int) -> None:
        self._enter(len(items), depth)
        for key, item in items.items():
            if not isinstance(key, str):
                raise _Fault(f"expected text as every key, got {_shown(key)}; JSON has no other keys, pass str(key)")
            try:
                self._string(key)
                self._value(item, depth - 1)
            except _Fault as fault:
                fault.keys.append(key)
                raise

    def _enter(self, length: int, depth: int) -> None:
        if depth < 0:
            raise _TooDeep(f"expected at most {self._max_depth} levels of lists and dicts, got more; flatten the data")
        self._left -= length
        if self._left < 0:
            raise _TooLarge

    def _subclass(self, value: object, depth: int) -> None:
        """A subclass of a JSON type counts as that type; anything else is refused."""
        match value:
            case str():
                self._string(str.__str__(value))
            case int():
                self._value(int.__int__(value), depth)
            case float():
                self._value(float.__float__(value), depth)
            case dict():
                self._dict(value, depth)
            case list() | tuple():
                self._list(value, depth)
            case _:
                raise _Fault(f"expected {_TYPES}, got {_shown(value)}; {_remedy(value)}")


def _too_deep(root: str, value: object, fault: _Fault) -> str:
    """Follow the path to tell a circle from mere depth."""
    keys = fault.keys[::-1]
    seen = {id(value)}
    for position, key in enumerate(keys, start=1):
        value = value[key]  # type: ignore[index]
        if id(value) in seen:
            return f"{root}{_path(keys[:position])}: expected a value that ends, got one that contains itself"
        seen.add(id(value))
    return f"{root}{_path(keys[:4])}…: {fault}"


def _path(keys: Sequence[object]) -> str:
    return "".join(f'["{_short(key)}"]' if isinstance(key, str) else f"[{key}]" for key in keys)


def _short(text: str, limit: int = 60) -> str:
    text = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return text if len(text) <= limit else f"{text[:limit]}…"


def _shown(value: object) -> str:
    """The value where its text is short and harmless (the repr of a query set asks the database), else its type."""
    kind = type(value)
    if kind in (int, bool, type(None)) or kind.__module__ in ("datetime", "decimal", "fractions", "uuid"):
        try:
            return _short(repr(value))
        except ValueError:
            pass
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def _remedy(value: object) -> str:
    kind = type(value)
    if hasattr(kind, "_meta"):
        return "pass its primary key and load it in the handler"
    known = (_REMEDIES[each.__name__] for each in kind.__mro__ if each.__name__ in _REMEDIES)
    return next(known, "pass its id or plain data and build it in the handler")
