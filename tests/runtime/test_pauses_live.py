"""Pauses under real workers: nothing new starts, what was claimed is given back uncharged, all goes on when resumed."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from djqueue.store import operate, pauses
from djqueue.store.pauses import Kind
from testproject.trials.tasks import hold, note, poison
from tests.helpers import eventually
from tests.runtime.trial import PATIENCE, Trial, history, live, rows

pytestmark = pytest.mark.slow

FAR = datetime(2040, 1, 1, tzinfo=UTC)
SLOWLY = {"poll_seconds": 60}
"""An idle worker that is not told looks once a minute only."""

STATES = "select state, coalesce(parked_for, ''), count(*), max(attempts) from djqueue_job group by 1, 2 order by 1, 2"


def states() -> list[tuple[object, ...]]:
    return rows(STATES)


def test_a_paused_queue_starts_nothing_others_go_on_and_a_resume_is_heard_at_once(trial: Trial) -> None:
    supervisor = trial.supervisor("--processes", "2", "--threads", "2", options=SLOWLY)
    hold.using(queue_name="emails").enqueue("running", trial.file("go"))
    trial.wait_for_starts("running")

    operate.pause("default", "emails", FAR)
    for number in range(10):
        note.using(queue_name="emails", run_after=timedelta(seconds=1)).enqueue(f"paused {number}")
        note.using(run_after=timedelta(seconds=1)).enqueue(f"free {number}")
    trial.wait_for_starts(*(f"free {number}" for number in range(10)))
    trial.make("go")
    eventually(lambda: history() == {"succeeded": 11}, PATIENCE, message=lambda: f"{history()} {states()}")

    assert states() == [("ready", "", 10, 0)]
    operate.pause("default", "emails", None)
    trial.wait_until_done(within=10)
    assert supervisor.is_running()


@pytest.mark.parametrize("kind", [Kind.QUEUE, Kind.TASK, Kind.TENANT])
def test_what_was_claimed_and_has_not_started_is_given_back_uncharged(trial: Trial, kind: Kind) -> None:
    for number in range(400):
        note.enqueue(f"first {number}")  # quick ones: the worker learns to claim ahead
    hold.enqueue("running", trial.file("go"))
    for number in range(200):
        note.enqueue(f"later {number}")
    rows("update djqueue_job set tenant_id = 'acme'")
    trial.supervisor("--threads", "1", options={"timeout_seconds": 60})
    trial.wait_for_starts("running")

    if kind is Kind.QUEUE:
        operate.pause("default", "default", FAR)
    else:
        pauses.pause("default", kind, note.module_path if kind is Kind.TASK else "acme", FAR)
    aside = {Kind.QUEUE: "", Kind.TASK: f"paused:{note.module_path}", Kind.TENANT: "tenant:acme"}[kind]
    state = "ready" if kind is Kind.QUEUE else "parked"
    eventually(
        lambda: states() == [("leased", "", 1, 1), (state, aside, 200, 0)], PATIENCE, message=lambda: str(states())
    )
    trial.make("go")
    eventually(lambda: history() == {"succeeded": 401}, PATIENCE)

    assert states() == [(state, aside, 200, 0)]
    if kind is Kind.QUEUE:
        operate.pause("default", "default", None)
    else:
        pauses.resume("default", kind, note.module_path if kind is Kind.TASK else "acme")
    trial.wait_until_done()
    assert rows("select max(attempts) from djqueue_history") == [(1,)]
    assert not live()


def test_suspects_of_a_paused_queue_do_not_run(trial: Trial) -> None:
    poison.using(queue_name="emails").enqueue("suspect", trial.file("go"))
    trial.supervisor("--processes", "1")
    trial.wait_for_starts("suspect")
    operate.pause("default", "emails", FAR)
    trial.make("go")

    eventually(lambda: rows("select state, suspect from djqueue_job") == [("ready", True)], PATIENCE)
    note.enqueue("after")
    trial.wait_for_starts("after")
    note.enqueue("another")
    trial.wait_for_starts("another")

    assert trial.events()["suspect"] == 1
    operate.pause("default", "emails", None)
    eventually(lambda: rows("select count(*) from djqueue_dead_letter") == [(1,)], PATIENCE)


def test_a_worker_for_suspects_leaves_those_of_a_paused_queue(trial: Trial) -> None:
    operate.pause("default", "emails", FAR)
    note.using(queue_name="emails").enqueue("paused")
    hold.enqueue("first", trial.file("go"))
    rows("update djqueue_job set suspect = true")
    trial.supervisor("--processes", "1", "--queues", "*")
    trial.wait_for_starts("first")
    trial.make("go")
    with transaction.atomic():
        note.enqueue("second")
        rows("update djqueue_job set suspect = true where state = 'ready'")
    trial.wait_for_starts("second")

    eventually(lambda: states() == [("ready", "", 1, 0)], PATIENCE, message=lambda: str(states()))

    assert trial.events()["paused"] == 0
