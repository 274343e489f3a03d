"""A job of hours (a step is as long as the test says) whose worker is killed again and again."""

import os
import signal

import pytest

from testproject.trials import ledger
from testproject.trials.long import six_hours
from tests.helpers import eventually
from tests.runtime.trial import Trial, history, rows

pytestmark = pytest.mark.slow

STEPS, KILLS = 12, 5
OPTIONS = {"lease_seconds": 3, "task_modules": ["testproject.trials.long"]}


def test_a_job_killed_five_times_goes_on_from_its_last_checkpoint_and_repeats_one_step_at_most(trial: Trial) -> None:
    six_hours.enqueue(STEPS, str(trial.folder))
    trial.supervisor("--processes", "1", "--threads", "1", options=OPTIONS)
    for kill in range(KILLS):
        at = 2 * kill + 1
        trial.make(f"step {at - 1}")
        eventually(lambda at=at: trial.events("step")[str(at)] == 1, 20)
        eventually(lambda at=at: rows("select progress->>'done', checkpoint from djqueue_job")[0][1] == str(at), 20)
        os.kill(trial.pids(str(at), "step")[-1], signal.SIGKILL)
        eventually(lambda at=at: trial.events("step")[str(at)] == 2, 30)
        trial.make(f"step {at}")
    for step in range(STEPS):
        trial.make(f"step {step}")
    trial.wait_until_done(within=30)

    lines = ledger.read(trial.ledger_path)
    killed = [str(2 * kill + 1) for kill in range(KILLS)]
    assert history() == {"succeeded": 1}
    assert [line.label for line in lines if line.event == "resumed"] == ["0", *killed]
    assert trial.events("step") == {str(step): 2 if str(step) in killed else 1 for step in range(STEPS)}
    assert rows("select attempts from djqueue_history") == [(KILLS + 1,)]
