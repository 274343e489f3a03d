"""R22: what a worker leaves to others it leaves for a while only, since they may go."""

import pytest

from djqueue.runtime import strangers
from djqueue.runtime.strangers import LEAVE_SECONDS, Strangers


def test_tasks_are_left_out_for_a_while_and_each_for_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(strangers.time, "monotonic", lambda: now)
    left = Strangers()
    assert left.names() == []

    left.leave(["b", "a"])
    now += LEAVE_SECONDS / 2
    left.leave(["c", "a"])
    assert left.names() == ["a", "b", "c"]

    now += LEAVE_SECONDS / 2
    assert left.names() == ["a", "c"]
    now += LEAVE_SECONDS / 2
    assert left.names() == []
