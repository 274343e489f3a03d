"""R5: a hard time limit frees the slot, whatever the handler does; innocent neighbours go on."""

from uuid import UUID

import pytest

from djqueue.store import operate
from testproject.trials import tasks
from tests.helpers import eventually
from tests.runtime.trial import Trial, dead, history, rows

pytestmark = pytest.mark.slow

ENDLESS = [tasks.loop_for_ever, tasks.sleep_for_ever, tasks.read_for_ever, tasks.ignore_the_limit]


@pytest.mark.parametrize("task", [*ENDLESS, tasks.hold_the_gil])
def test_a_handler_past_its_limit_is_ended_and_later_jobs_run(trial: Trial, task: object) -> None:
    task.enqueue("endless")  # type: ignore[attr-defined]
    trial.supervisor("--threads", "1")
    trial.wait_for_starts("endless")
    tasks.note.enqueue("later")

    trial.wait_until_done(within=30)

    assert dead() == [("endless", "timeout", 1)]
    assert history() == {"succeeded": 1}


def test_limits_that_pass_on_every_slot_one_after_another_leave_no_slot_out(trial: Trial) -> None:
    """R5: with the same few slots, and each handler ends the process that it is in."""
    for number in range(2):
        for task in ENDLESS:
            task.enqueue(f"{task.name} {number}")
    tasks.note.enqueue("later")
    trial.supervisor("--threads", "2")

    trial.wait_until_done(within=60)

    assert {reason for _, reason, _ in dead()} == {"timeout"}
    assert (len(dead()), history()) == (8, {"succeeded": 1})
    assert set(trial.events().values()) == {1}


def test_neighbours_of_a_handler_that_holds_the_gil_run_again(trial: Trial) -> None:
    """R5: nothing else in that process can run, end or be ended; they lose an attempt with it and no more."""
    tasks.hold.using(timeout_seconds=5).enqueue("neighbour", trial.file("go"))
    supervisor = trial.supervisor("--threads", "2")
    trial.wait_for_starts("neighbour")
    tasks.hold_the_gil.enqueue("culprit")
    supervisor.wait_for_output("replacing worker")
    trial.make("go")
    trial.wait_until_done(within=60)

    assert dead() == [("culprit", "timeout", 1)]
    assert history() == {"succeeded": 1}


def test_a_job_without_a_limit_runs_as_long_as_it_shows_that_it_lives(trial: Trial) -> None:
    """The default limit passes several times."""
    tasks.hold_without_limit.enqueue("alive", trial.file("go"), True)
    tasks.hold_without_limit.using(max_attempts=1).enqueue("silent", trial.file("never"), False)
    supervisor = trial.supervisor("--threads", "2", options={"timeout_seconds": 1})
    trial.wait_for_starts("alive", "silent")

    eventually(lambda: dead() == [("silent", "timeout", 1)], 20, message=supervisor.output)
    trial.make("go")
    trial.wait_until_done()

    assert (trial.events()["alive"], history()) == (1, {"succeeded": 1})


def test_neighbours_of_a_stuck_handler_end_before_their_process_does(trial: Trial) -> None:
    tasks.hold.enqueue("neighbour", trial.file("go"))
    tasks.sleep_for_ever.enqueue("endless")
    supervisor = trial.supervisor("--threads", "2")
    trial.wait_for_starts("neighbour", "endless")

    supervisor.wait_for_output("replacing worker")
    trial.make("go")
    trial.wait_until_done(within=30)

    assert trial.events()["neighbour"] == 1
    assert rows("select attempts from djqueue_history") == [(1,)]
    assert dead() == [("endless", "timeout", 1)]


def test_an_async_handler_past_its_limit_is_cancelled(trial: Trial) -> None:
    tasks.hold_async.using(timeout_seconds=1, max_attempts=1).enqueue("endless", trial.file("never"))
    supervisor = trial.supervisor("--threads", "1")

    trial.wait_until_done(within=30)

    assert dead() == [("endless", "timeout", 1)]
    assert "replacing worker" not in supervisor.output()


@pytest.mark.parametrize("task", [tasks.hold, tasks.hold_async, tasks.hold_politely])
def test_a_running_job_that_is_cancelled_ends_as_cancelled(trial: Trial, task: object) -> None:
    result = task.enqueue("endless", trial.file("never"))  # type: ignore[attr-defined]
    trial.supervisor("--threads", "1")
    trial.wait_for_starts("endless")

    (answer,) = operate.cancel("default", [UUID(result.id)]).values()

    assert answer == "asked"
    trial.wait_until_done(within=30)
    assert history() == {"cancelled": 1}
    eventually(lambda: rows("select count(*) from djqueue_job")[0][0] == 0)
