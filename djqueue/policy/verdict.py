"""What a failure means for the job: try again, never again, or let it be.

    ignore_on ──► ignored      the job ends quietly
    dead_on   ──► permanent    the job is dead at once
    retry_on  ──► transient    the job is tried again; where a task names some, everything else is permanent
    else      ──► transient    timeouts, connection errors, 429 and 5xx are known, and may say when to come back; an
                               unknown error is tried again too

The most specific class decides, subclasses included. HTTP errors of httpx, requests and urllib are recognised by their
shape, without importing those packages. Invariant: looking at an exception never raises.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

ExceptionClasses = tuple[type[BaseException], ...]

LONGEST_SECONDS = 7 * 24 * 3600.0
"""A partner may ask for a week at the most."""

_HTTP_LIBRARIES = {"httpx", "requests", "urllib", "urllib3", "aiohttp"}
_TRANSIENT_STATUS = {408, 425, 429}
_TRANSIENT_CLASSES = {"TransportError", "TimeoutException", "Timeout", "HTTPError", "ClientConnectionError", "URLError"}


class Kind(StrEnum):
    """What a failure means."""

    TRANSIENT = "transient"
    """Known to pass: a timeout, a lost connection, 429, 5xx."""
    UNKNOWN = "unknown"
    """Nothing is known about it; it is tried again."""
    PERMANENT = "permanent"
    """It would fail each time."""
    IGNORED = "ignored"
    """The task says that it does not matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a failure means, and when to come back if the other side said so (seconds from now)."""

    kind: Kind
    after_seconds: float | None = None


def judge(
    error: BaseException,
    *,
    retry_on: ExceptionClasses = (),
    dead_on: ExceptionClasses = (),
    ignore_on: ExceptionClasses = (),
) -> Verdict:
    """Return the verdict by the task's classes, and by what is known of the exception."""
    known = _known(error)
    kind = _declared(type(error), retry_on, dead_on, ignore_on)
    if kind is not None:
        return Verdict(kind=kind, after_seconds=known.after_seconds if kind is Kind.TRANSIENT else None)
    return Verdict(kind=Kind.PERMANENT) if retry_on else known


def retry_after(value: str, *, date: str | None = None, now: datetime | None = None) -> float | None:
    """Return the seconds that a Retry-After header asks for, from 0 to a week; None where it can't be read.

    Both of its forms: a number of seconds, or an HTTP date, counted from the answer's own Date header where there is
    one, so that the two clocks need not agree. (RFC 9110, section 10.2.3.)
    """
    text = str(value).strip()
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", text, re.ASCII):
        return min(float(text), LONGEST_SECONDS)
    moment, base = _http_date(text), _http_date(date or "") or now or datetime.now(UTC)
    return None if moment is None else min(max((moment - base).total_seconds(), 0.0), LONGEST_SECONDS)


def _declared(
    raised: type[BaseException], retry_on: ExceptionClasses, dead_on: ExceptionClasses, ignore_on: ExceptionClasses
) -> Kind | None:
    """Walk up from the class that was raised; the first class that is named decides."""
    for each in raised.__mro__:
        if each in ignore_on:
            return Kind.IGNORED
        if each in dead_on:
            return Kind.PERMANENT
        if each in retry_on:
            return Kind.TRANSIENT
    return None


def _known(error: BaseException) -> Verdict:
    if isinstance(error, TimeoutError | ConnectionError):
        return Verdict(kind=Kind.TRANSIENT)
    try:
        return _http(error) or Verdict(kind=Kind.UNKNOWN)
    except Exception:
        return Verdict(kind=Kind.UNKNOWN)


def _http(error: BaseException) -> Verdict | None:
    """Judge an error of an HTTP library by its status, or as a lost connection where it has none."""
    names = {each.__module__.partition(".")[0] for each in type(error).__mro__}
    if not names & _HTTP_LIBRARIES:
        return None
    status, headers = _answer(error)
    if status is None:
        is_lost = any(each.__name__ in _TRANSIENT_CLASSES for each in type(error).__mro__)
        return Verdict(kind=Kind.TRANSIENT) if is_lost else None
    if status in _TRANSIENT_STATUS or 500 <= status <= 599:
        asked = headers.get("Retry-After") or headers.get("retry-after")
        date = headers.get("Date") or headers.get("date")
        return Verdict(kind=Kind.TRANSIENT, after_seconds=retry_after(asked, date=date) if asked else None)
    return None


def _answer(error: Any) -> tuple[int | None, Mapping[str, Any]]:
    """Return status and headers: of `error.response` (httpx, requests), or of the error itself (urllib, aiohttp)."""
    for source in (getattr(error, "response", None), error):
        for name in ("status_code", "code", "status"):
            status = getattr(source, name, None)
            if isinstance(status, int) and not isinstance(status, bool):
                return status, getattr(source, "headers", None) or {}
    return None, {}


def _http_date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found
