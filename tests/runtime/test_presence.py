"""What heartbeats tell of workers, and that orders in their rows are obeyed as gracefully as a signal."""

import pytest

from djqueue.policy.histogram import bucket
from djqueue.runtime.presence import resident_bytes
from djqueue.store import workers
from djqueue.store.workers import Order
from testproject.trials import tasks
from tests.helpers import eventually
from tests.runtime.trial import Trial, history, live, rows

pytestmark = pytest.mark.slow

QUICK = {"lease_seconds": 3, "heartbeat_seconds": 0.2}


def worker_ids() -> set[str]:
    return {id_ for (id_,) in rows("select id from djqueue_worker")}


def test_a_row_tells_the_memory_the_pace_and_how_long_jobs_waited(trial: Trial) -> None:
    trial.supervisor("--processes", "1", options={**QUICK, "code_version": "2026.1"})
    eventually(worker_ids, 20)
    for number in range(5):
        tasks.note.enqueue(f"n{number}")
    trial.wait_until_done()

    eventually(lambda: rows("select 1 from djqueue_worker where memory_bytes > 1000000 and jobs_per_minute > 0"), 10)
    eventually(lambda: rows("select 1 from djqueue_stat where outcome = 'succeeded' and 0 < any(wait_histogram)"), 15)
    assert rows("select version from djqueue_code_version") == [("2026.1",)]


def test_a_wait_is_counted_from_the_moment_when_the_job_could_run(trial: Trial) -> None:
    tasks.note.enqueue("late")
    rows("update djqueue_job set run_at = clock_timestamp() - interval '1000 s'")
    trial.supervisor("--processes", "1", options=QUICK)
    trial.wait_until_done()

    [(waits,)] = eventually(lambda: rows("select wait_histogram from djqueue_stat"), 15)
    assert [place for place, count in enumerate(waits) if count] == [bucket(1_000)]
    assert bucket(1_000) == bucket(1_040)  # however slowly the worker starts


def test_a_worker_asked_to_restart_ends_its_job_and_another_takes_its_place(trial: Trial) -> None:
    trial.supervisor("--processes", "1", options=QUICK)
    [old] = eventually(worker_ids, 20)
    tasks.hold.enqueue("long", trial.file("go"))
    trial.wait_for_starts("long")

    assert workers.order("default", [old], Order.RESTART, by="ada") == {old}
    eventually(lambda: rows("select 1 from djqueue_worker where id = %s and ordered = 'restart'", old), 5)
    trial.make("go")

    [new] = eventually(lambda: worker_ids() - {old}, 20)
    eventually(lambda: worker_ids() == {new}, 10)
    assert len(trial.pids("long")) == 1
    trial.wait_until_done()
    assert history() == {"succeeded": 1}


def test_a_worker_asked_to_stop_takes_its_whole_supervisor_along_gracefully(trial: Trial) -> None:
    supervisor = trial.supervisor("--processes", "2", options=QUICK)
    eventually(lambda: len(worker_ids()) == 2, 20)
    tasks.hold.enqueue("long", trial.file("go"))
    trial.wait_for_starts("long")

    workers.order("default", [min(worker_ids())], Order.STOP, by="ada")
    supervisor.wait_for_output("asked to stop")
    trial.make("go")

    assert supervisor.wait(20) == 0
    assert worker_ids() == set()
    assert not live()
    assert len(trial.pids("long")) == 1


def test_memory_of_nobody_is_not_known() -> None:
    assert resident_bytes(2**30) is None
