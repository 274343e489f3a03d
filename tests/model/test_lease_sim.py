"""The trade-off of the length of a lease, as the documents state it."""

from benchmarks.lease_sim import JOBS, SETTINGS, simulate


def test_a_lease_shorter_than_a_job_runs_it_again_and_again_until_it_is_dead() -> None:
    found = simulate(SETTINGS["short lease"])
    assert (found.dead, found.ran_twice) == (1, 2)
    assert found.stale_acks_rejected == 3, "every late answer of an old holder is rejected"


def test_a_long_lease_runs_nothing_twice_but_lets_a_crashed_job_wait_for_its_end() -> None:
    found = simulate(SETTINGS["long lease"])
    assert (found.completed, found.dead, found.stale_acks_rejected) == (JOBS, 0, 0)
    assert found.crashed_job_again_after_seconds is not None
    assert found.crashed_job_again_after_seconds > 50


def test_a_heartbeat_makes_a_short_lease_safe_for_long_jobs() -> None:
    found = simulate(SETTINGS["short lease, heartbeat"])
    assert (found.completed, found.dead, found.stale_acks_rejected) == (JOBS, 0, 0)
    assert found.expiries == 1, "only the crashed worker's"
    assert found.crashed_job_again_after_seconds is not None
    assert found.crashed_job_again_after_seconds < 10
