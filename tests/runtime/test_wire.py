"""What crosses the border to a job's own process comes out as it went in, or is refused."""

import socket
from uuid import UUID

import pytest

from djqueue.policy.errors import FailureText
from djqueue.runtime import wire
from djqueue.runtime.held import Held
from djqueue.runtime.outcome import (
    Cancelled,
    Committed,
    Expired,
    Failed,
    NotStarted,
    Outcome,
    Snoozed,
    Stale,
    Succeeded,
)
from djqueue.runtime.slot_table import SlotTable
from djqueue.store.claim import Claimed
from testproject.trials import tasks

TEXT = FailureText(exception="ValueError", message="a\ud800é", traceback="…", frame="shop/x.py:f")
JOB = Claimed(
    id=UUID(int=7),
    lease_token=1 << 62,
    attempts=2,
    max_attempts=3,
    queue_name="emails",
    lane="",
    priority=-1,
    run_at=1.5,
    task_name="testproject.trials.tasks.note",
    timeout_seconds=None,
    interruptions=0,
    runs=1,
    suspect=False,
    created_at=2.5,
    args='{"args": ["é"], "kwargs": {}}',
    errors="[]",
    options="{}",
)


@pytest.mark.parametrize(
    "outcome",
    [
        Succeeded('"é"'),
        Committed("null"),
        Failed(TEXT, kind="lost", after_seconds=1.5, at_least_seconds=2, final_reason="x", reason="y"),
        Failed(TEXT),
        Snoozed(3.5),
        Cancelled("as asked"),
        NotStarted(),
        Expired(),
        Stale(),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
def test_every_outcome_comes_back_as_it_was(outcome: Outcome) -> None:
    assert wire.outcome_of(wire.outcome_text(outcome)) == outcome


@pytest.mark.parametrize(
    "text", ["", "[]", "5", '["Succeeded"]', '["Held", {}]', '["Failed", {"failure": 3}]', "[1, 2]"]
)
def test_rubbish_is_no_outcome(text: str) -> None:
    with pytest.raises(ValueError, match="no outcome"):
        wire.outcome_of(text)


def test_a_job_comes_out_as_it_went_in() -> None:
    held = Held(JOB, tasks.note, SlotTable.inherited(1).pages[0], 5)
    held.began, held.deadline_ns = 1.25, 1 << 61

    job, start = wire.job_of(wire.job_text(held))

    assert job == JOB
    assert start == {"index": 5, "began": 1.25, "deadline_ns": 1 << 61}


def test_texts_are_parted_by_their_lengths_and_an_end_is_noticed() -> None:
    one, other = socket.socketpair()
    wire.send(one, "first é")
    wire.send(one, "")
    one.close()

    assert wire.receive(other) == "first é"
    assert wire.receive(other) == ""
    with pytest.raises(EOFError):
        wire.receive(other)
    other.close()


def test_a_text_that_arrives_in_pieces_is_there_when_all_of_it_is() -> None:
    incoming = wire.Incoming()
    data = wire.LENGTH.pack(3) + "é!".encode()
    for index in range(len(data)):
        assert incoming.text is None
        incoming.feed(data[index : index + 1])

    assert incoming.text == "é!"
