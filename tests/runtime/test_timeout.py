"""R5: a hard time limit frees the slot, whatever the handler does; innocent neighbours go on."""

from uuid import UUID

import pytest

from djqueue.store import operate
from testproject.trials import tasks
from tests.helpers import eventually
from tests.runtime.trial import Trial, dead, history, rows

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("task", [tasks.loop_for_ever, tasks.sleep_for_ever, tasks.read_for_ever, tasks.hold_the_gil])
def test_a_handler_past_its_limit_is_ended_and_later_jobs_run(trial: Trial, task: object) -> None:
    task.enqueue("endless")  # type: ignore[attr-defined]
    trial.supervisor("--threads", "1")
    trial.wait_for_starts("endless")
    tasks.note.enqueue("later")

    trial.wait_until_done(within=30)

    assert dead() == [("endless", "timeout", 1)]
    assert history() == {"succeeded": 1}


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
