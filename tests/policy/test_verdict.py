"""What a failure means: the task's own classes first, then what is known of timeouts, connections and HTTP answers."""

import urllib.error
from datetime import UTC, datetime
from email.message import Message

import pytest
from hypothesis import given
from hypothesis import strategies as st

from djqueue.policy.verdict import LONGEST_SECONDS, Kind, judge, retry_after

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


class Broken(Exception):
    """A parent."""


class VeryBroken(Broken):
    """Its child."""


def http_error(status: int, **headers: str) -> urllib.error.HTTPError:
    message = Message()
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    return urllib.error.HTTPError("http://partner.example", status, "said so", message, None)


def library_error(module: str, name: str, status: int | None = None, **headers: str) -> Exception:
    """An error of the same shape as that of a package which is not installed."""
    error = type(name, (Exception,), {"__module__": module})()
    if status is not None:
        error.response = type("Response", (), {"status_code": status, "headers": headers})()  # type: ignore[attr-defined]
    return error


def test_the_most_specific_class_that_is_named_decides() -> None:
    assert judge(VeryBroken(), dead_on=(Broken,), retry_on=(VeryBroken,)).kind is Kind.TRANSIENT
    assert judge(VeryBroken(), retry_on=(Broken,), dead_on=(VeryBroken,)).kind is Kind.PERMANENT
    assert judge(VeryBroken(), ignore_on=(Broken,)).kind is Kind.IGNORED
    assert judge(Broken(), dead_on=(VeryBroken,)).kind is Kind.UNKNOWN


def test_where_a_task_names_what_is_retried_everything_else_is_permanent() -> None:
    assert judge(ValueError(), retry_on=(Broken,)).kind is Kind.PERMANENT
    assert judge(TimeoutError(), retry_on=(Broken,)).kind is Kind.PERMANENT


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionResetError(), BrokenPipeError()])
def test_timeouts_and_lost_connections_pass(error: Exception) -> None:
    assert judge(error).kind is Kind.TRANSIENT


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_too_many_requests_and_server_errors_pass(status: int) -> None:
    assert judge(http_error(status)).kind is Kind.TRANSIENT
    assert judge(library_error("httpx", "HTTPStatusError", status)).kind is Kind.TRANSIENT
    assert judge(library_error("requests.exceptions", "HTTPError", status)).kind is Kind.TRANSIENT


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_other_answers_are_unknown_and_tried_again(status: int) -> None:
    assert judge(http_error(status)).kind is Kind.UNKNOWN


@pytest.mark.parametrize(
    ("module", "name"), [("httpx", "TransportError"), ("requests", "Timeout"), ("urllib.error", "URLError")]
)
def test_errors_of_http_libraries_without_an_answer_are_lost_connections(module: str, name: str) -> None:
    assert judge(library_error(module, name)).kind is Kind.TRANSIENT


def test_an_answer_that_says_when_to_come_back_is_obeyed() -> None:
    assert judge(http_error(429, Retry_After="120")).after_seconds == 120
    assert judge(library_error("httpx", "HTTPStatusError", 503, **{"retry-after": "7"})).after_seconds == 7


def test_a_date_is_counted_from_the_answers_own_clock() -> None:
    error = http_error(503, Retry_After="Sun, 01 Mar 2026 12:01:30 GMT", Date="Sun, 01 Mar 2026 12:00:00 GMT")
    assert judge(error).after_seconds == 90


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        (" 30 ", 30),
        ("1.5", 1.5),
        ("999999999999", LONGEST_SECONDS),
        ("Sun, 01 Mar 2026 12:00:10 GMT", 10),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0),
        ("Sunday, 01-Mar-26 12:00:10 GMT", 10),
        ("soon", None),
        ("", None),
        ("-5", None),
        ("١٢", None),
    ],
)
def test_retry_after_is_read_in_both_its_forms(value: str, seconds: float | None) -> None:
    assert retry_after(value, now=NOW) == seconds


@given(st.text())
def test_no_header_makes_it_raise(value: str) -> None:
    seconds = retry_after(value, date=value, now=NOW)
    assert seconds is None or 0 <= seconds <= LONGEST_SECONDS


def test_an_exception_that_raises_when_it_is_looked_at_is_unknown() -> None:
    class Nasty(urllib.error.URLError):
        @property
        def response(self) -> object:
            raise RuntimeError("don't look")

    assert judge(Nasty("x")).kind is Kind.UNKNOWN
