"""How fast a replay goes on, and when it stops by itself."""

import pytest

from djqueue.policy.replay import Run, next_step


def run(**known: float) -> Run:
    """A run at 100 a second with a canary of 5, a tenth of a second after its last step."""
    base = {"per_second": 100, "canary": 5, "stop_ratio": 0.2, "requeued": 0, "unknown": 0, "failed": 0, "credit": 0}
    return Run(**{**base, "idle_seconds": 0.1, **known})  # type: ignore[arg-type]


def test_the_canary_goes_first_and_alone() -> None:
    assert next_step(run()).count == 5
    assert next_step(run(requeued=5, unknown=5)).count == 0
    assert next_step(run(requeued=5, unknown=5)).is_waiting
    assert next_step(run(requeued=5, unknown=1)).count == 0


def test_after_a_canary_that_lived_the_others_follow_at_the_rate() -> None:
    assert next_step(run(requeued=5)).count == 10


def test_a_canary_that_failed_stops_the_run_and_says_so() -> None:
    step = next_step(run(requeued=5, failed=5))

    assert step.count == 0
    assert step.stop == "5 of 5 of the canary failed (100%; at most 20% may)"


def test_one_failed_canary_of_five_is_within_a_ratio_of_a_fifth() -> None:
    assert not next_step(run(requeued=5, failed=1)).stop
    assert next_step(run(requeued=5, failed=2)).stop


def test_too_many_later_failures_stop_the_run() -> None:
    assert not next_step(run(requeued=1_000, unknown=100, failed=180)).stop
    assert "181 of 900 of those replayed failed" in next_step(run(requeued=1_000, unknown=100, failed=181)).stop


def test_without_a_canary_a_few_failures_say_nothing_until_nothing_else_is_to_come() -> None:
    assert not next_step(run(canary=0, requeued=20, unknown=11, failed=9)).stop
    assert next_step(run(canary=0, requeued=20, unknown=10, failed=10)).stop
    assert next_step(run(canary=0, requeued=3, unknown=0, failed=3)).stop


def test_a_ratio_of_one_never_stops() -> None:
    assert not next_step(run(stop_ratio=1, requeued=500, failed=500)).stop


@pytest.mark.parametrize("idle", [5, 3_600, 1e9])
def test_a_pause_or_a_restart_is_no_reason_to_hurry(idle: float) -> None:
    assert next_step(run(requeued=5, idle_seconds=idle)).count == 100


def test_a_rate_below_one_a_second_is_kept_by_what_is_carried_over() -> None:
    credit, done = 0.0, 0
    for _ in range(100):
        step = next_step(run(canary=0, per_second=0.5, requeued=0, credit=credit, idle_seconds=0.2))
        credit, done = step.credit, done + step.count

    assert done in (9, 10)


def test_a_run_is_never_far_ahead_of_what_is_known() -> None:
    assert next_step(run(requeued=1_000, unknown=495, idle_seconds=9)).count == 5
    assert next_step(run(requeued=1_000, unknown=500)).count == 0


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    assert next_step(run(requeued=5, credit=3, idle_seconds=-60)).count == 3
