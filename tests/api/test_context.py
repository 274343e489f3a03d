"""The context of a running job: live facts, asked when they are needed."""

import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from djqueue import JobContext, task
from djqueue.api.results import JobResult
from djqueue.compat import TaskResultStatus


@task(takes_context=True)
def work(context: JobContext) -> None:
    """Do nothing."""


class Control:
    """A worker that says what the test wants."""

    lease_token = 42
    queue = "mail"

    def __init__(self) -> None:
        self.is_cancelled = self.is_stopping = False
        self.seconds: float | None = 30
        self.beats = 0

    def cancelled(self) -> bool:
        """Tell whether the job was asked to cancel."""
        return self.is_cancelled

    def stopping(self) -> bool:
        """Tell whether the worker is about to stop."""
        return self.is_stopping

    def heartbeat(self) -> None:
        """Count a proof of life."""
        self.beats += 1

    def remaining_seconds(self) -> float | None:
        """Return the seconds left."""
        return self.seconds


@pytest.fixture
def control() -> Control:
    """The worker's side."""
    return Control()


@pytest.fixture
def context(control: Control) -> JobContext:
    """The handler's side, in the second attempt."""
    moments: dict[str, Any] = dict.fromkeys(["enqueued_at", "started_at", "finished_at", "last_attempted_at"])
    result = JobResult(
        task=work,
        id="the-id",
        status=TaskResultStatus.RUNNING,
        args=[],
        kwargs={},
        backend="default",
        errors=[],
        worker_ids=["", ""],
        **moments,
    )
    return JobContext(task_result=result, control=control)


def test_it_knows_the_job_and_the_attempt(context: JobContext) -> None:
    assert (context.job_id, context.idempotency_key, context.attempt, context.lease_token) == ("the-id",) * 2 + (2, 42)


def test_a_stopping_worker_asks_the_handler_to_stop_and_cancels_nothing(context: JobContext, control: Control) -> None:
    assert (context.should_stop, context.cancelled) == (False, False)

    control.is_stopping = True

    assert (context.should_stop, context.cancelled) == (True, False)


def test_a_cancelled_job_should_stop_as_well(context: JobContext, control: Control) -> None:
    control.is_cancelled = True

    assert (context.should_stop, context.cancelled) == (True, True)


def test_the_deadline_follows_the_seconds_that_are_left(context: JobContext, control: Control) -> None:
    assert context.remaining_seconds == 30
    assert context.deadline is not None
    assert 29 < (context.deadline - datetime.now(UTC)).total_seconds() <= 30

    control.seconds = -1
    assert context.remaining_seconds == 0

    control.seconds = None
    assert (context.remaining_seconds, context.deadline) == (None, None)


def test_a_heartbeat_reaches_the_worker(context: JobContext, control: Control) -> None:
    context.heartbeat()

    assert control.beats == 1


def test_log_lines_say_which_job_speaks(context: JobContext, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        context.log.info("sent %d of 100 %%", 7)

    assert caplog.messages == ["sent 7 of 100 % job=the-id task=tests.api.test_context.work"]
    assert caplog.records[0].name == "tests.api.test_context"
    assert vars(caplog.records[0])["djqueue"] == {
        "job_id": "the-id", "task": "tests.api.test_context.work", "queue": "mail", "attempt": 2,
    }  # fmt: skip


def test_log_records_keep_what_their_writer_adds(context: JobContext, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        context.log.info("sent", extra={"customer": 7})

    assert vars(caplog.records[0])["customer"] == 7


@pytest.mark.parametrize(
    ("done", "total", "message", "word"),
    [(-1, 2, "", "done"), (1, float("nan"), "", "total"), (True, 2, "", "done"), (1, 2, "x" * 1_001, "message")],
)
def test_progress_that_is_no_figure_is_refused(
    context: JobContext, done: float, total: float, message: str, word: str
) -> None:
    with pytest.raises(ValueError, match=f"progress: {word}: expected"):
        context.progress(done, total, message)


def test_what_there_is_not_is_an_ordinary_attribute_error(context: JobContext) -> None:
    with pytest.raises(AttributeError, match="'JobContext' object has no attribute 'tolken'"):
        _ = context.tolken
