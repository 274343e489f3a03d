"""R3: a job that takes the whole tree down with it, each time, ends by itself and takes nobody with it."""

import pytest

from testproject.trials import tasks
from tests.helpers import eventually
from tests.runtime.trial import Trial, dead, history, live

pytestmark = pytest.mark.slow

NEIGHBOURS = [f"good {number}" for number in range(50)]


def test_poison_that_kills_the_whole_tree_ends_and_none_of_its_fifty_neighbours_dies(trial: Trial) -> None:
    """R3: nobody is left to say what had started, so all 51 are charged once; then each runs alone. The neighbours may
    start twice only, so that a second charge by the poison would kill them."""
    for label in NEIGHBOURS:
        tasks.hold.using(max_attempts=2).enqueue(label, trial.file("go"))
    tasks.topple.enqueue("poison", trial.file("all started"))
    options = {"lease_seconds": 3}
    supervisor = trial.supervisor("--threads", "60", options=options)
    trial.wait_for_starts("poison", *NEIGHBOURS)
    trial.make("all started")
    eventually(lambda: not supervisor.is_running())
    trial.make("go")

    restarts = 0
    while live():
        assert restarts < 5, f"the tree was killed more often than the poison may start; left: {live()}"
        supervisor = trial.supervisor("--threads", "60", options=options)
        restarts += 1
        eventually(lambda now=supervisor: not now.is_running() or not live(), 40, message=supervisor.output)

    assert trial.events()["poison"] == 3
    assert dead() == [("poison", "worker lost: its lease ran out", 3)]
    assert history() == {"succeeded": len(NEIGHBOURS)}
    assert max(trial.events()[label] for label in NEIGHBOURS) == 2
