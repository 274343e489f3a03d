"""R6: stopping. Nothing is released while its code can run; what a graceful stop cuts short is not charged."""

import signal
from datetime import timedelta

import pytest

from testproject.trials import tasks
from tests.helpers import eventually
from tests.runtime.trial import Trial, history, live, rows

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("group", [False, True], ids=["to the parent", "to the whole group"])
def test_a_draining_worker_runs_a_job_once_that_outlives_its_lease(trial: Trial, group: bool) -> None:
    tasks.hold.enqueue("long", trial.file("go"))
    supervisor = trial.supervisor(options={"lease_seconds": 3, "grace_seconds": 60})
    trial.wait_for_starts("long")
    (first_lease,) = rows("select lease_until from djqueue_job")

    supervisor.signal(signal.SIGTERM, group=group)
    eventually(lambda: rows("select count(*) from djqueue_job where lease_until > %s", first_lease[0])[0][0] == 1)
    eventually(lambda: rows("select clock_timestamp() > %s", first_lease[0])[0][0])
    tasks.note.enqueue("later")
    trial.make("go")

    assert supervisor.wait(within=20) == 0
    assert trial.events() == {"long": 1}
    assert history() == {"succeeded": 1}
    assert [(state, attempts) for _, state, attempts, *_ in live()] == [("ready", 0)]


def test_the_end_of_the_grace_gives_running_jobs_back_uncharged(trial: Trial) -> None:
    tasks.hold.using(max_attempts=1).enqueue("stubborn", trial.file("go"))
    supervisor = trial.supervisor(options={"grace_seconds": 0.5})
    trial.wait_for_starts("stubborn")

    supervisor.signal(signal.SIGTERM)

    assert supervisor.wait(within=20) == 0
    assert rows("select state, attempts, interruptions, suspect from djqueue_job") == [("ready", 0, 1, False)]


def test_a_second_signal_gives_jobs_back_at_once(trial: Trial) -> None:
    tasks.hold.enqueue("stubborn", trial.file("go"))
    supervisor = trial.supervisor(options={"grace_seconds": 3600})
    trial.wait_for_starts("stubborn")

    supervisor.signal(signal.SIGTERM)
    supervisor.wait_for_output("stopping")
    supervisor.signal(signal.SIGINT)

    assert supervisor.wait(within=20) == 0
    assert rows("select state, attempts, interruptions from djqueue_job") == [("ready", 0, 1)]


def test_handlers_see_that_the_worker_is_about_to_stop(trial: Trial) -> None:
    tasks.hold_politely.enqueue("polite", trial.file("never"))
    supervisor = trial.supervisor(options={"grace_seconds": 3600})
    trial.wait_for_starts("polite")

    supervisor.signal(signal.SIGTERM)

    assert supervisor.wait(within=20) == 0
    assert trial.events("should stop") == {"polite": 1}
    assert rows("select state, attempts from djqueue_job") == [("ready", 0)]


def test_drain_ends_when_nothing_is_left_to_run_now(trial: Trial) -> None:
    for number in range(20):
        tasks.note.enqueue(f"job {number}")
    tasks.note.using(run_after=timedelta(hours=1)).enqueue("much later")

    assert trial.supervisor("--drain", "--processes", "2").wait(within=20) == 0

    assert history() == {"succeeded": 20}
    assert [state for _, state, *_ in live()] == ["scheduled"]


def test_a_worker_is_replaced_after_max_jobs_and_nothing_is_lost(trial: Trial) -> None:
    """R23"""
    tasks.note.enqueue_many([(f"job {number}",) for number in range(1_500)])
    trial.supervisor("--max-jobs", "200", "--threads", "2")
    trial.wait_until_done()

    assert history() == {"succeeded": 1_500}
    assert len({line for label in trial.events() for line in trial.pids(label)}) > 1


def test_a_worker_that_has_grown_is_replaced_and_its_running_jobs_end_first(trial: Trial) -> None:
    """R23"""
    supervisor = trial.supervisor("--max-rss", "1", "--threads", "2")
    tasks.hold.enqueue("long", trial.file("go"))
    trial.wait_for_starts("long")
    tasks.note.enqueue("short")
    supervisor.wait_for_output("recycling at", within=20)
    [first] = trial.pids("short")

    tasks.note.enqueue("for the next worker")
    trial.make("go")
    trial.wait_until_done()

    assert history() == {"succeeded": 3}
    assert trial.pids("long") == trial.pids("long", "end") == [first]
    assert trial.pids("for the next worker") != [first]


def test_a_limit_that_is_not_reached_replaces_nobody(trial: Trial) -> None:
    tasks.note.enqueue_many([(f"job {number}",) for number in range(300)])
    trial.supervisor("--max-rss", "100000", "--threads", "2")
    trial.wait_until_done()

    assert len({pid for label in trial.events() for pid in trial.pids(label)}) == 1
