"""Reasons for which jobs are set aside."""

import pytest

from djqueue.policy import aside, payloads


@pytest.mark.parametrize(
    ("reason", "is_pause", "words"),
    [
        (aside.orphan("shop.tasks.old"), False, "no worker knows task shop.tasks.old"),
        (aside.orphan("shop.tasks.send@3"), False, "no worker knows version 3 of task shop.tasks.send"),
        (aside.paused_task("shop.tasks.slow"), True, "paused task shop.tasks.slow"),
        (aside.paused_tenant("task:5"), True, "paused tenant task:5"),
        ("something:else", False, "something:else"),
    ],
)
def test_a_reason_says_what_it_waits_for(reason: str, is_pause: bool, words: str) -> None:
    assert aside.is_pause(reason) is is_pause
    assert aside.in_words(reason) == words


def test_the_longest_names_fit_into_the_column() -> None:
    assert len(aside.paused_task("t" * 300)) <= 310
    assert len(aside.orphan(payloads.known_as("t" * 300, payloads.LATEST))) <= 310
    assert len(aside.paused_tenant("t" * 200)) <= 310
