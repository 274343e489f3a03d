"""The jobs that wait before the slots of a worker."""

from typing import Any, cast

from djqueue.runtime.held import Held
from djqueue.runtime.slots import Slots


class Waiting(Held):
    """A job that waits and knows its name."""

    def __init__(self, name: str) -> None:
        self.outcome = cast(Any, name)


def test_what_is_wanted_is_taken_back_and_the_others_keep_their_order() -> None:
    slots = Slots(0, cast(Any, None), lambda: None)
    done: list[str] = []
    for name in "abcd":
        slots.waiting.put(Waiting(name))
    slots.waiting.put(lambda: done.append("told"))

    taken = slots.take_back(lambda held: cast(str, held.outcome) in "bd")

    assert [held.outcome for held in taken] == ["b", "d"]
    assert [held.outcome for held in slots.take_back()] == ["a", "c"]
    assert slots.waiting.empty() and done == ["told"]
