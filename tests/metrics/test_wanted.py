"""Workers wanted: Little's law, from below and from above."""

from typing import Any

from djqueue.policy.wanted import Demand, workers_wanted


def demand(**fields: Any) -> Demand:
    base = {"attempts": 0, "attempt_seconds": 0, "window_seconds": 300, "waiting": (), "slots_per_worker": 10}
    return Demand(**{**base, **fields})


def test_the_flow_of_the_window_with_headroom() -> None:
    # 10 per second of 4 s each are 40 slots; 52 with headroom; 6 workers of 10.
    assert workers_wanted(demand(attempts=3_000, attempt_seconds=12_000)) == 6


def test_what_waits_is_to_start_within_its_target() -> None:
    # 600 in 60 s and 300 in 300 s are 11 per second of 1 s each; 14.3 with headroom; 3 workers of 5.
    waiting = [(600, 60), (300, 300)]

    found = workers_wanted(demand(attempts=1e-9, attempt_seconds=1e-9, waiting=waiting, slots_per_worker=5))

    assert found == 3


def test_one_worker_is_wanted_where_nothing_happens() -> None:
    assert workers_wanted(demand()) == workers_wanted(demand(slots_per_worker=None)) == 1


def test_jobs_that_nobody_has_run_yet_are_taken_for_two_seconds_and_workers_for_ten_slots() -> None:
    # 10 per second of 2 s each are 20 slots; 26 with headroom; 3 workers of 10.
    assert workers_wanted(demand(waiting=[(3_000, 300)], slots_per_worker=None)) == 3


def test_what_comes_out_even_is_not_rounded_up_by_a_float() -> None:
    # 10 slots, 13 with headroom, of 13 each.
    assert workers_wanted(demand(attempts=3_000, attempt_seconds=3_000, slots_per_worker=13)) == 1
