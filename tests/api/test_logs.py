"""Log lines as JSON: what becomes a field, and what never does."""

import json
import logging
import sys
from typing import Any

import pytest

from djqueue import JobContext, task
from djqueue.logs import JsonFormatter
from djqueue.testing import run_jobs

ALWAYS = {"time", "level", "logger", "message"}


@task(takes_context=True)
def speak(context: JobContext, secret: str) -> None:
    """Say something that looks like a field."""
    context.log.warning("sent colour=%s", "red")


def line(message: Any, *values: Any, logger: str = "djqueue", **more: Any) -> dict[str, Any]:
    """Format a record; return the object."""
    record = logging.LogRecord(logger, logging.INFO, "", 1, message, values, more.get("exc_info"))
    text = JsonFormatter().format(record)
    assert "\n" not in text
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def test_a_line_has_its_time_level_logger_and_message() -> None:
    found = line("the keeper did not end in time")

    assert set(found) == ALWAYS
    assert found["time"].endswith("+00:00")
    assert (found["level"], found["logger"], found["message"]) == ("INFO", "djqueue", "the keeper did not end in time")


def test_values_of_djqueue_s_lines_are_fields_and_numbers_stay_numbers() -> None:
    found = line("database trouble worker=%s error=%s retry_in=%.1fs left=%d%% up=%s", "w 1", "a=b c", 0.5, 3, None)

    assert found["message"] == "database trouble worker=w 1 error=a=b c retry_in=0.5s left=3% up=None"
    assert {key: found[key] for key in set(found) - ALWAYS} == {
        "worker": "w 1", "error": "a=b c", "retry_in": 0.5, "left": 3, "up": None,
    }  # fmt: skip


def test_a_job_is_called_the_same_everywhere_and_parameters_without_a_name_are_only_words() -> None:
    found = line("%s, ending the handler job=%s", "timeout", "the-id")

    assert set(found) == ALWAYS | {"job_id"}


def test_a_field_replaces_nothing_that_every_line_has() -> None:
    assert line("odd level=%s message=%s", "x", "y")["level"] == "INFO"


@pytest.mark.parametrize(
    ("message", "values"),
    [("a=%(a)s", ({"a": 1},)), ("a=%*d", (5, 1)), (ValueError("a=1"), ()), ("rate=%s", (float("nan"),))],
)
def test_no_line_is_too_odd_to_be_written(message: Any, values: tuple[Any, ...]) -> None:
    found = line(message, *values)

    assert set(found) - ALWAYS <= {"rate"}
    assert found.get("rate", "nan") == "nan"


def test_lines_of_others_have_no_fields() -> None:
    assert set(line("card=%s", "4111", logger="shop.views")) == ALWAYS


def test_a_traceback_is_a_field() -> None:
    try:
        raise KeyError("gone")
    except KeyError:
        found = line("duty failed routine=%s", "beat", exc_info=sys.exc_info())

    assert found["routine"] == "beat"
    assert found["traceback"].endswith("KeyError: 'gone'")


@pytest.mark.django_db
def test_lines_of_a_job_say_who_speaks_from_which_queue_and_never_the_arguments(
    caplog: pytest.LogCaptureFixture,
) -> None:
    job = speak.using(queue_name="emails").enqueue("hunter2")

    assert run_jobs().states == {"succeeded": 1}

    text = JsonFormatter().format(next(each for each in caplog.records if each.name == __name__))
    found = json.loads(text)
    assert {key: found[key] for key in set(found) - ALWAYS} == {
        "job_id": str(job.id), "task": f"{__name__}.speak", "queue": "emails", "attempt": 1,
    }  # fmt: skip
    assert "hunter2" not in text
