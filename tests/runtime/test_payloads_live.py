"""R22: payloads of several versions, and tasks with several names, under real workers of old and new code."""

from datetime import UTC, datetime

import pytest
from django.core.management import call_command
from django.db import transaction

from djqueue.store import pauses
from djqueue.store.pauses import Kind
from testproject.trials.versioned import versioned
from tests.helpers import eventually
from tests.processes import Supervisor
from tests.runtime.trial import PATIENCE, Trial, history, rows

pytestmark = pytest.mark.slow

NAME = versioned.module_path
FORMER = "trials.versioned.former"
FAR = datetime(2040, 1, 1, tzinfo=UTC)


def supervisor(trial: Trial, version: int) -> Supervisor:
    """Workers whose code has this version of the task."""
    options = {"task_modules": ["testproject.trials.versioned"]}
    return trial.supervisor("--processes", "1", options=options, env={"TRIALS_VERSION": str(version)})


def enqueue(version: int, *labels: str) -> None:
    """Enqueue as code of this version would."""
    with transaction.atomic():
        ids = [result.id for result in versioned.enqueue_many([(f"{label}",) for label in labels])]
        args = "jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('label', args -> 'args' -> 0))"
        options = "{}" if version == 1 else f'{{"version": {version}}}'
        rows(f"update djqueue_job set options = %s, args = {args} where id = any(%s::uuid[])", options, ids)


def aside() -> list[tuple[object, ...]]:
    return rows("select parked_for, count(*), max(attempts) from djqueue_job group by 1 order by 1")


def test_a_newer_job_waits_uncharged_for_newer_code_and_older_ones_run_meanwhile(trial: Trial) -> None:
    enqueue(2, *(f"new {number}" for number in range(30)))
    enqueue(1, "old")
    supervisor(trial, 1)
    eventually(lambda: aside() == [(f"task:{NAME}@2", 30, 0)], PATIENCE, message=lambda: str(aside()))
    assert trial.events("v1") == {"old": 1}

    supervisor(trial, 2)
    trial.wait_until_done()

    assert trial.events("v2") == {f"new {number}": 1 for number in range(30)}
    assert history() == {"succeeded": 31}
    assert rows("select max(attempts) from djqueue_history") == [(1,)]


def test_old_workers_beside_new_ones_leave_newer_jobs_to_them(trial: Trial) -> None:
    both = [supervisor(trial, 1), supervisor(trial, 2)]
    eventually(lambda: rows("select count(*) from djqueue_worker") == [(2,)], PATIENCE)

    for number in range(20):
        enqueue(2, f"new {number}")
        enqueue(1, f"old {number}")
    trial.wait_until_done()

    ran = trial.events("v1") + trial.events("v2")
    assert {label.removesuffix(" upgraded") for label in ran} == {
        f"{kind} {number}" for number in range(20) for kind in ("old", "new")
    }
    assert not any(label.startswith("new") for label in trial.events("v1"))
    assert sum(ran.values()) == 40
    assert rows("select max(attempts) from djqueue_history") == [(1,)]
    assert all(each.is_running() for each in both)


@pytest.mark.parametrize(("paused", "enqueued"), [(FORMER, NAME), (NAME, FORMER)])
def test_a_pause_under_one_name_of_a_task_stops_its_jobs_under_the_others(
    trial: Trial, paused: str, enqueued: str
) -> None:
    enqueue(1, "before")
    rows("update djqueue_job set task_name = %s", enqueued)
    pauses.pause("default", Kind.TASK, paused, FAR)
    supervisor(trial, 1)

    eventually(lambda: aside() == [(f"paused:{paused}", 1, 0)], PATIENCE, message=lambda: str(aside()))
    call_command("djqueue", "resume", "--task", enqueued)
    trial.wait_until_done()

    assert trial.events("v1") == {"before": 1}
