import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from djqueue.policy.backoff import Backoff


@given(st.integers())
def test_waits_grow_to_the_cap_and_are_never_short_of_half(seed: int) -> None:
    backoff = Backoff(0.5, 10)
    rng = random.Random(seed)
    waits = [backoff.next(rng) for _ in range(2000)]
    ceilings = [0.5, 1, 2, 4, 8] + [10] * 1995
    assert all(ceiling / 2 <= wait <= ceiling for wait, ceiling in zip(waits, ceilings, strict=True))
    assert backoff.failures == 2000


def test_a_success_starts_again_from_the_base() -> None:
    backoff = Backoff(1, 60)
    rng = random.Random(1)
    for _ in range(20):
        backoff.next(rng)
    backoff.reset()
    assert backoff.failures == 0
    assert 0.5 <= backoff.next(rng) <= 1


@pytest.mark.parametrize(("base", "cap"), [(0, 1), (-1, 1), (2, 1), (1, float("inf")), (float("nan"), 1)])
def test_a_base_and_cap_that_would_spin_or_never_end_are_refused(base: float, cap: float) -> None:
    with pytest.raises(ValueError, match="expected 0 < base <= cap"):
        Backoff(base, cap)
