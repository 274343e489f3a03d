"""Priorities that grow with waiting."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from djqueue.policy.ageing import Level, in_turn

LEVELS = st.lists(
    st.builds(Level, st.integers(-100, 100), st.floats(-6e10, 3e11)), unique_by=lambda each: each.priority
)


def test_a_job_that_has_waited_long_enough_comes_before_a_younger_one_of_higher_priority() -> None:
    high, low = Level(5, 1_000.0), Level(0, 949.0)

    assert in_turn([high, low], ageing_seconds=10) == [low, high]
    assert in_turn([high, low], ageing_seconds=11) == [high, low]


def test_of_equals_the_higher_priority_comes_first() -> None:
    assert in_turn([Level(0, 950.0), Level(5, 1_000.0)], ageing_seconds=10)[0].priority == 5


@given(LEVELS, st.floats(0.001, 31_536_000), st.floats(0, 1e9))
def test_the_order_is_that_of_effective_priorities_whenever_it_is_asked(
    levels: list[Level], ageing: float, later: float
) -> None:
    def effective(level: Level) -> float:
        return level.priority + (later - level.since) / ageing

    order = in_turn(levels, ageing)

    assert sorted(order) == sorted(levels)
    for one, two in pairwise(order):
        assert effective(one) >= effective(two) - 1e-9 * max(1.0, abs(effective(one)), abs(later / ageing))
