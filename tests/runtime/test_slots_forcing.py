"""Slots by themselves: what is sent into a handler hits that handler, or nobody; no job is forgotten."""

import os
import random
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from djqueue.exceptions import JobInterrupt
from djqueue.runtime.held import Held
from djqueue.runtime.outcome import Failed, Outcome, Succeeded
from djqueue.runtime.slots import Slots
from tests.helpers import eventually

JOBS = 3_000
PATIENCE = 30


class Page:
    """Takes what slots write."""

    def end(self, index: int) -> None:
        """Nobody looks."""


class Job(Held):
    """A job that knows only its number, and what hit it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.index = 0
        self.page: Any = Page()
        self.job: Any = SimpleNamespace(id=number)
        self.forced = ""
        self.is_isolated = False
        self.hit = 0
        self.ended = 0.0
        self.outcome = None


class Spinning:
    """Runs jobs that take a few bytecodes, and notes what hits them."""

    def __init__(self) -> None:
        self.rng = random.Random(4)

    def run(self, held: Any) -> Outcome:
        """Spin a little; let what comes from outside pass."""
        try:
            for _ in range(self.rng.randrange(40)):
                os.sched_yield()
            return Succeeded("null")
        except JobInterrupt:
            held.hit += 1
            raise


@pytest.fixture
def slots(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slots]:
    """Slots whose threads and the main thread interrupt each other as often as can be.

    What hits a finalizer of the interpreter in a slot's thread is dropped there: the report of it would be hit in turn.
    """
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    running = Slots(4, Spinning(), lambda: None)  # type: ignore[arg-type]
    running.start()
    yield running
    running.stop()
    sys.setswitchinterval(before)


def test_an_exception_hits_the_job_that_it_was_sent_for_or_none(slots: Slots) -> None:
    jobs = [Job(number) for number in range(JOBS)]
    for job in jobs:
        slots.waiting.put(job)

    sent = 0
    until = time.monotonic() + PATIENCE
    while len(slots.finished) < JOBS and time.monotonic() < until:
        for held in slots.running():
            slots.force(held, "timeout")
            sent += 1

    assert sent
    assert sorted(held.number for held in slots.finished) == list(range(JOBS))  # type: ignore[attr-defined]
    assert [job.number for job in jobs if job.hit and not job.forced] == []
    assert [job.number for job in jobs if job.outcome is None] == []
    failed = [job for job in jobs if isinstance(job.outcome, Failed)]
    assert failed
    assert {(job.forced, job.outcome.kind) for job in failed if isinstance(job.outcome, Failed)} == {("timeout",) * 2}


def test_what_was_sent_too_late_does_not_hit_the_next_job(slots: Slots) -> None:
    first = Job(1)
    slots.waiting.put(first)
    eventually(lambda: len(slots.finished) == 1)

    slots.force(first, "cancel")
    second = Job(2)
    slots.waiting.put(second)
    eventually(lambda: len(slots.finished) == 2)

    assert (first.forced, second.hit) == ("", 0)
    assert isinstance(second.outcome, Succeeded)
