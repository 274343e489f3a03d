"""An atomic handler holds a transaction open while it runs, and is told when that was long."""

import logging

import pytest

from djqueue.runtime import atomic
from djqueue.testing import run_jobs
from testproject.shop.tasks import add_one_to_counter, noop

pytestmark = pytest.mark.django_db


def test_a_long_atomic_handler_is_warned_about_and_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(atomic, "LONG_SECONDS", 0)
    add_one_to_counter.enqueue("sum")
    noop.enqueue(1)

    with caplog.at_level(logging.WARNING, "djqueue"):
        run_jobs()

    (record,) = [record for record in caplog.records if "transaction" in record.getMessage()]
    assert "add_one_to_counter" in record.getMessage()


def test_a_short_atomic_handler_is_not(caplog: pytest.LogCaptureFixture) -> None:
    add_one_to_counter.enqueue("sum")

    with caplog.at_level(logging.WARNING, "djqueue"):
        run_jobs()

    assert caplog.records == []
