"""Reserved slots: long jobs hold every other slot, and a critical job starts at once."""

import pytest

from testproject.trials.tasks import hold, note, poison
from tests.helpers import eventually
from tests.runtime.trial import PATIENCE, Trial, history, rows

pytestmark = pytest.mark.slow


def test_a_critical_job_starts_while_long_jobs_hold_every_other_slot(trial: Trial) -> None:
    for number in range(12):
        hold.enqueue(f"long {number}", trial.file("go"))
    supervisor = trial.supervisor("--processes", "2", "--threads", "2", "--slots", "emails:1")
    eventually(lambda: trial.events().total() == 4, PATIENCE)

    note.using(queue_name="emails").enqueue("critical")
    trial.wait_for_starts("critical")

    assert trial.events().total() == 5
    assert not set(trial.pids("critical")) & set(trial.pids("long 0"))
    trial.make("go")
    eventually(lambda: history() == {"succeeded": 13}, PATIENCE)
    assert supervisor.is_running()


def test_critical_jobs_use_the_other_slots_as_well_and_others_never_the_reserved_ones(trial: Trial) -> None:
    for number in range(3):
        hold.using(queue_name="emails").enqueue(f"critical {number}", trial.file("go"))
        hold.enqueue(f"other {number}", trial.file("go"))
    trial.supervisor("--threads", "1", "--slots", "emails:1", "--queues", "emails:1000,default")

    eventually(lambda: trial.events().total() == 2, PATIENCE)
    slots = rows("select queues, slots from djqueue_worker order by slots, queues")

    assert slots == [(["emails"], 1), (["emails", "default"], 1)]
    assert sum(trial.events()[f"critical {number}"] for number in range(3)) >= 1
    trial.make("go")
    trial.wait_until_done()


def test_the_worker_with_reserved_slots_is_replaced_when_it_dies_and_drains_with_the_others(trial: Trial) -> None:
    poison.using(queue_name="emails").enqueue("poison", trial.file("die"))
    supervisor = trial.supervisor("--threads", "1", "--slots", "emails:1", "--drain")
    trial.wait_for_starts("poison")
    trial.make("die")

    assert supervisor.wait(within=60) == 0
    assert trial.events()["poison"] == 3
    assert rows("select count(*) from djqueue_dead_letter") == [(1,)]
