"""What kill -9 leaves behind: nothing lost, nothing charged that had not started; a poison job harms only itself."""

import os
import random
import signal

import pytest

from testproject.shop.models import Counter as Total
from testproject.trials import ledger, tasks
from tests.helpers import eventually
from tests.processes import is_alive
from tests.runtime.trial import Trial, dead, history, live, rows

pytestmark = pytest.mark.slow


def test_jobs_of_a_killed_worker_run_again_at_once_and_unstarted_ones_are_uncharged(trial: Trial) -> None:
    """R3"""
    tasks.hold.enqueue("started", trial.file("go"))
    supervisor = trial.supervisor("--processes", "1", "--threads", "1")
    trial.wait_for_starts("started")
    tasks.hold.enqueue("waiting", trial.file("go"))

    (pid,) = trial.pids("started")
    os.kill(pid, signal.SIGKILL)
    trial.wait_for_starts("started", times=2)
    trial.make("go")
    trial.wait_until_done()

    again_at = [line.at for line in ledger.read(trial.ledger_path) if line.label == "started"][1]
    assert again_at > 0
    assert rows("select args->'args'->>0, attempts, interruptions from djqueue_history order by 1") == [
        ("started", 2, 0),
        ("waiting", 1, 0),
    ]
    assert "signal 9" in supervisor.output()


def test_poison_starts_max_attempts_times_and_its_nine_neighbours_succeed(trial: Trial) -> None:
    """R3: a job that kills its process, beside nine good ones, all started together."""
    labels = [f"good {number}" for number in range(9)]
    for label in labels:
        tasks.hold.enqueue(label, trial.file("go"))
    tasks.poison.enqueue("poison", trial.file("go"))
    trial.supervisor("--processes", "1", "--threads", "10")
    trial.wait_for_starts("poison", *labels)

    trial.make("go")
    trial.wait_until_done(within=40)

    assert trial.events()["poison"] == 3
    assert dead() == [("poison", "worker lost: signal 9", 3)]
    assert history() == {"succeeded": 9}


def test_a_killed_tree_is_recovered_after_the_lease_and_charged(trial: Trial) -> None:
    """R2, R3: nobody is left who knows what had started, so leased jobs are charged; none dies unstarted."""
    for number in range(4):
        tasks.hold.enqueue(f"job {number}", trial.file("go"))
    tasks.note.using(max_attempts=1).enqueue("last attempt")
    options = {"lease_seconds": 3}
    first = trial.supervisor("--threads", "2", options=options)
    eventually(lambda: trial.events().total() == 2)

    first.kill_tree()
    trial.make("go")
    trial.supervisor("--threads", "2", options=options)
    trial.wait_until_done(within=20)

    assert history() == {"succeeded": 5}
    assert dead() == []
    attempts = dict(rows("select args->'args'->>0, attempts from djqueue_history"))
    assert attempts["last attempt"] == 1
    assert [attempts[f"job {number}"] for number in range(2)] == [2, 2]


def test_poison_is_bounded_when_the_whole_tree_is_killed_each_time(trial: Trial) -> None:
    """R3: charged by the reaper alone."""
    job = tasks.hold.using(max_attempts=2).enqueue("victim", trial.file("never"))
    options = {"lease_seconds": 3}
    for start in (1, 2):
        supervisor = trial.supervisor(options=options)
        trial.wait_for_starts("victim", times=start)
        supervisor.kill_tree()
    trial.supervisor(options=options)
    trial.wait_until_done(within=20)

    assert trial.events()["victim"] == 2
    assert dead() == [("victim", "worker lost: its lease ran out", 2)]
    assert job.id == str(rows("select id from djqueue_dead_letter")[0][0])


def test_a_frozen_worker_that_wakes_up_late_changes_nothing(trial: Trial) -> None:
    """R1: frozen in the handler, its lease given away, thawed, it returns normally; the ack is stale."""
    tasks.hold.enqueue("frozen", trial.file("go"))
    options = {"lease_seconds": 3, "timeout_seconds": 300}
    frozen = trial.supervisor("--threads", "1", options=options)
    trial.wait_for_starts("frozen")
    tree = frozen.tree()
    for pid in tree:
        os.kill(pid, signal.SIGSTOP)

    trial.supervisor("--threads", "1", options=options)
    trial.wait_for_starts("frozen", times=2)
    trial.make("go")
    trial.wait_until_done()
    before = rows("select * from djqueue_history")
    for pid in tree:
        os.kill(pid, signal.SIGCONT)

    eventually(lambda: trial.events("end")["frozen"] == 2)
    frozen.wait_for_output("lease lost")
    assert rows("select * from djqueue_history") == before
    assert live() == []


def test_a_worker_that_makes_no_progress_is_replaced_and_its_waiting_jobs_run_elsewhere(trial: Trial) -> None:
    """R4: all slots wait on a lock and the main loop is stuck; heartbeats alone prove nothing."""
    for number in range(2):
        tasks.deadlock.enqueue(f"stuck {number}")
    supervisor = trial.supervisor("--threads", "2", options={"lease_seconds": 3})
    trial.wait_for_starts("stuck 0", "stuck 1")
    for number in range(3):
        tasks.note.enqueue(f"other {number}")

    trial.wait_for_starts("other 0", "other 1", "other 2")

    supervisor.wait_for_output("replacing worker")
    assert trial.events()["stuck 0"] == 1


def test_atomic_jobs_count_exactly_once_while_workers_are_killed(trial: Trial) -> None:
    """R3, promise 2: 2,000 jobs, workers killed at 30 random moments of the run."""
    jobs, kills = 2_000, 30
    rng = random.Random()
    Total.objects.create(name="sum", value=0)
    tasks.count.enqueue_many([("sum",)] * jobs)
    supervisor = trial.supervisor("--processes", "2", "--threads", "4")
    for moment in sorted(rng.sample(range(jobs * 9 // 10), kills)):
        eventually(lambda at=moment: trial.events()["sum"] >= at, 60)
        eventually(lambda: kill_one_of(rows("select pid from djqueue_worker"), rng), 20, supervisor.output)
    trial.wait_until_done(within=90)

    assert Total.objects.get(name="sum").value == jobs
    assert history() == {"succeeded": jobs}
    assert supervisor.output().count("exit_code=-9") >= kills


def kill_one_of(pids: list[tuple[int]], rng: random.Random) -> bool:
    """Kill a worker that lives; tell whether there was one."""
    living = [pid for (pid,) in pids if is_alive(pid)]
    if living:
        os.kill(rng.choice(living), signal.SIGKILL)
    return bool(living)
