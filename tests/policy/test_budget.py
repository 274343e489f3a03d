"""The retry budget: a share of the throughput and a floor, pushed later and never dropped."""

from hypothesis import given
from hypothesis import strategies as st

from djqueue.policy import budget
from djqueue.policy.budget import MOST_SECONDS, WINDOW_SECONDS, BudgetOptions

OPTIONS = BudgetOptions(ratio=0.1, floor_per_second=2)


def test_what_succeeds_in_a_window_earns_retries_above_the_floor() -> None:
    assert budget.per_second(0, OPTIONS) == 2
    assert budget.per_second(600, OPTIONS) == 3
    assert budget.per_second(6_000, BudgetOptions(ratio=0, floor_per_second=2)) == 2


def test_a_window_s_worth_may_come_at_once_and_the_others_one_after_another() -> None:
    found = budget.pushes(0, 124, 2)

    assert found[:120] == [0] * 120
    assert found[120:] == [0.5, 1, 1.5, 2]


def test_the_level_falls_with_time() -> None:
    level = budget.raised(0, 130, 2)

    assert budget.pushes(budget.drained(level, 2, 5), 1, 2) == [0.5]
    assert budget.pushes(budget.drained(level, 2, 6), 1, 2) == [0]


def test_no_push_is_longer_than_the_longest_and_the_level_does_not_run_away() -> None:
    level = 0.0
    for _ in range(50):
        assert max(budget.pushes(level, 1_000, 2)) <= MOST_SECONDS
        level = budget.raised(level, 1_000, 2)

    assert budget.pushes(budget.drained(level, 2, MOST_SECONDS), 1, 2) == [0.5]


@given(st.lists(st.tuples(st.floats(0, 30), st.integers(1, 60)), max_size=40), st.floats(0.5, 50))
def test_in_no_stretch_do_more_retries_become_due_than_the_budget_allows(
    failures: list[tuple[float, int]], rate: float
) -> None:
    """Each wants to be tried again at once."""
    level = now = 0.0
    due: list[float] = []
    for pause, number in failures:
        now += pause
        level = budget.drained(level, rate, pause)
        due += [now + push for push in budget.pushes(level, number, rate)]
        level = budget.raised(level, number, rate)

    due.sort()
    for first in range(len(due)):
        last = len(due) - 1
        stretch = due[last] - due[first]
        if stretch < MOST_SECONDS:
            assert last - first + 1 <= rate * (stretch + WINDOW_SECONDS) + 1 + 1e-6
