"""R3, R5: a job in a process of its own takes nobody with it, and is ended at once when it must be."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from djqueue.runtime import jobprocess
from djqueue.store import operate
from testproject.shop.models import Counter as Total
from testproject.trials import isolated, tasks
from tests.helpers import eventually
from tests.processes import Supervisor, children_of, is_alive
from tests.runtime.trial import Trial, dead, history, live, rows

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {"task_modules": [isolated.MODULE], "lease_seconds": 3}
NEIGHBOURS = [f"good {number}" for number in range(50)]


def supervisor(trial: Trial, *args: str, **options: Any) -> Supervisor:
    """A supervisor with one worker that knows the isolated tasks."""
    return trial.supervisor(*args, options={**OPTIONS, **options})


def results() -> dict[str, Any]:
    """Results by first argument."""
    found = rows("select args->'args'->>0, result::text from djqueue_history")
    return {label: json.loads(result) for label, result in found}


def errors() -> list[tuple[Any, ...]]:
    """Kind and exception of the failed attempts of the dead letters."""
    each = "jsonb_array_elements(errors) with ordinality x(e, n)"
    return rows(f"select e->>'kind', e->>'exception' from djqueue_dead_letter, {each} order by id, n")


# ------------------------------------------------------------------------------------------------ crashes


def test_jobs_that_crash_are_charged_alone_and_their_fifty_neighbours_are_unharmed(trial: Trial) -> None:
    """R3: in the same worker, some beside them in threads, some in processes of their own."""
    for number, label in enumerate(NEIGHBOURS):
        (isolated.hold if number % 5 == 0 else tasks.hold).using(max_attempts=1).enqueue(label, trial.file("go"))
    isolated.segfault.enqueue("crash")
    isolated.leave.enqueue("left", 3)
    isolated.leave.enqueue("left well", 0)
    running = supervisor(trial, "--threads", "60")
    trial.wait_for_starts(*NEIGHBOURS)
    eventually(lambda: len(dead()) == 3, 20)
    trial.make("go")
    trial.wait_until_done()

    assert dead() == [
        ("crash", "worker lost: signal 11", 2),
        ("left", "worker lost: exit code 3", 2),
        ("left well", "worker lost: exit code 0", 2),
    ]
    assert set(errors()) == {("lost", "djqueue.WorkerLost")}
    assert history() == {"succeeded": len(NEIGHBOURS)}
    assert max(trial.events()[label] for label in NEIGHBOURS) == 1
    assert "worker ended" not in running.output()


def test_each_job_has_a_process_of_its_own_and_memory_goes_with_it(trial: Trial) -> None:
    for number in range(4):
        isolated.hog.enqueue(f"hog {number}", 100)
    running = supervisor(trial, "--threads", "2")
    trial.wait_until_done()

    pids = set(results().values())
    (worker,) = rows("select pid from djqueue_worker")[0]
    assert len(pids) == 4
    assert worker not in pids
    assert not any(is_alive(pid) for pid in pids)
    assert all(resident_megabytes(pid) < 100 for pid in running.tree())


def test_worker_and_zygote_keep_nothing_open_of_jobs_that_have_ended(trial: Trial) -> None:
    """Ends of pipes, zombies: what one job leaves, ten thousand would not survive."""
    running = supervisor(trial, "--threads", "2")
    counts = []
    for turn in range(2):
        for number in range(20):
            (isolated.hog if number % 2 else isolated.segfault).using(max_attempts=1).enqueue(
                f"job {turn} {number}", *([1] if number % 2 else [])
            )
        trial.wait_until_done()
        ((worker,),) = rows("select pid from djqueue_worker")
        (zygote,) = children_of(worker)
        counts.append((open_files(worker), open_files(zygote)))

    assert counts[0] == counts[1]
    assert len(dead()) == 20
    assert running.is_running()


def open_files(pid: int) -> int:
    """How many files and sockets a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def resident_megabytes(pid: int) -> int:
    """Memory of a process that is its own."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def test_a_killed_process_is_a_lost_attempt_and_the_next_one_succeeds(trial: Trial) -> None:
    isolated.hold.enqueue("victim", trial.file("go"))
    supervisor(trial)
    trial.wait_for_starts("victim")

    os.kill(trial.pids("victim")[0], signal.SIGKILL)
    trial.wait_for_starts("victim", times=2)
    trial.make("go")
    trial.wait_until_done()

    assert rows("select attempts, errors->0->>'kind', errors->0->>'message' from djqueue_history") == [
        (2, "lost", "the job's own process was lost: signal 9")
    ]


# ------------------------------------------------------------------------------------------------ limits


def test_an_endless_loop_in_c_is_beaten_by_the_time_limit_and_nothing_else_is(trial: Trial) -> None:
    """R5: the worker is not replaced."""
    tasks.hold.enqueue("beside", trial.file("go"))
    isolated.loop_in_c.enqueue("loop")
    isolated.wait_for_a_child.enqueue("program")
    running = supervisor(trial)
    eventually(lambda: len(dead()) == 2, 20)
    trial.make("go")
    trial.wait_until_done()

    assert [(reason, attempts) for _, reason, attempts in dead()] == [("timeout", 1), ("timeout", 1)]
    assert set(errors()) == {("timeout", "djqueue.exceptions.JobTimeout")}
    assert history() == {"succeeded": 1}
    assert "replacing worker" not in running.output()
    (program,) = [int(label) for label in trial.events() if label.isdigit()]
    assert not is_alive(program)


def test_a_proof_of_life_reaches_the_worker_and_its_absence_ends_the_job(trial: Trial) -> None:
    isolated.hold_without_limit.enqueue("beats", trial.file("go"), True)
    isolated.hold_without_limit.enqueue("silent", trial.file("never"), False)
    supervisor(trial, timeout_seconds=1)
    eventually(lambda: dead() == [("silent", "timeout", 1)], 20)
    trial.make("go")
    trial.wait_until_done()

    assert history() == {"succeeded": 1}


@pytest.mark.parametrize("polite", [True, False])
def test_a_cancelled_job_ends(trial: Trial, polite: bool) -> None:
    """R10: with a context it may clean up, without one its process is killed."""
    job = (isolated.hold_politely if polite else isolated.hold).enqueue("job", trial.file("never"))
    supervisor(trial)
    trial.wait_for_starts("job")

    operate.cancel("default", [job.id])
    trial.wait_until_done()

    assert history() == {"cancelled": 1}
    assert trial.events("cancelled")["job"] == int(polite)
    eventually(lambda: not is_alive(trial.pids("job")[0]))


# ------------------------------------------------------------------------------------------------ stopping


def test_a_stop_waits_for_isolated_jobs_which_see_it(trial: Trial) -> None:
    isolated.hold_politely.enqueue("polite", trial.file("never"))
    isolated.hold.enqueue("long", trial.file("go"))
    running = supervisor(trial, grace_seconds=60)
    trial.wait_for_starts("polite", "long")

    running.signal(signal.SIGTERM, group=True)
    eventually(lambda: trial.events("should stop")["polite"] == 1, 10)
    trial.make("go")

    assert running.wait(within=20) == 0
    assert history() == {"succeeded": 1}
    assert [(state, attempts) for _, state, attempts, *_ in live()] == [("ready", 0)]


def test_the_end_of_the_grace_gives_an_isolated_job_back_after_its_process_has_ended(trial: Trial) -> None:
    isolated.hold.using(max_attempts=1).enqueue("stubborn", trial.file("never"))
    running = supervisor(trial, grace_seconds=0.5)
    trial.wait_for_starts("stubborn")

    running.signal(signal.SIGTERM)

    assert running.wait(within=20) == 0
    assert not is_alive(trial.pids("stubborn")[0])
    assert rows("select state, attempts, interruptions, suspect from djqueue_job") == [("ready", 0, 1, False)]


@pytest.mark.parametrize("victim", ["worker", "parent", "zygote"])
def test_whatever_dies_above_the_job_dies_too_and_it_runs_again_once(trial: Trial, victim: str) -> None:
    isolated.hold.enqueue("job", trial.file("go"))
    running = supervisor(trial)
    trial.wait_for_starts("job")
    (job,) = trial.pids("job")
    zygote = parent(job)

    os.kill({"worker": parent(zygote), "parent": running.pid, "zygote": zygote}[victim], signal.SIGKILL)

    eventually(lambda: not is_alive(job))
    if victim == "parent":
        supervisor(trial)
    trial.wait_for_starts("job", times=2)
    trial.make("go")
    trial.wait_until_done()

    assert history() == {"succeeded": 1}
    assert trial.events() == {"job": 2}
    tasks.note.enqueue("later")
    trial.wait_for_starts("later")


def parent(pid: int) -> int:
    """The parent of a living process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


# ------------------------------------------------------------------------------------------------ the rest is as ever


def test_atomic_handlers_count_once_whatever_their_process_does(trial: Trial) -> None:
    """The ack is the last statement of the transaction in the job's own process."""
    Total.objects.create(name="sum", value=0)
    isolated.count.enqueue("sum")
    isolated.count.enqueue("sum", trial.file("crashed"))
    supervisor(trial)
    trial.wait_until_done()

    assert Total.objects.get(name="sum").value == 2
    assert history() == {"succeeded": 2}
    assert trial.events()["sum"] == 3


def test_async_handlers_failures_large_results_and_forgotten_transactions(trial: Trial) -> None:
    Total.objects.create(name="sum", value=0)
    trial.make("go")
    isolated.hold_async.enqueue("async", trial.file("go"))
    isolated.large.enqueue("large", 300_000)
    isolated.fail.enqueue("fails")
    isolated.forget_a_transaction.enqueue("forgets")
    supervisor(trial)
    trial.wait_until_done()

    assert results()["async"] == trial.pids("async")[0]
    assert results()["large"] == "é" * 300_000
    assert dead() == [("fails", "attempts used up", 1), ("forgets", "attempts used up", 1)]
    (traceback,) = rows("select errors->0->>'traceback' from djqueue_dead_letter where args->'args'->>0 = 'fails'")[0]
    assert "in fail\n    raise RuntimeError" in traceback
    (message,) = rows("select errors->0->>'message' from djqueue_dead_letter where args->'args'->>0 = 'forgets'")[0]
    assert "left a transaction open" in message
    assert Total.objects.get(name="sum").value == 0


def test_a_queue_may_isolate_all_its_jobs(trial: Trial) -> None:
    tasks.poison.using(queue_name="images", max_attempts=1).enqueue("kills its own process only")
    tasks.hold.enqueue("beside", trial.file("go"))
    running = trial.supervisor(options={"queues": {"images": {"isolation": "process"}}})
    trial.wait_for_starts("beside")
    eventually(dead, 20)
    trial.make("go")
    trial.wait_until_done()

    assert dead() == [("kills its own process only", "worker lost: signal 9", 1)]
    assert trial.events()["beside"] == 1
    assert "worker ended" not in running.output()


def test_spawned_workers_isolate_too(trial: Trial) -> None:
    isolated.segfault.using(max_attempts=1).enqueue("crash")
    isolated.hog.enqueue("fine", 1)
    trial.supervisor(command="spawnworker", options=OPTIONS)
    trial.wait_until_done(within=40)

    assert dead() == [("crash", "worker lost: signal 11", 1)]
    assert history() == {"succeeded": 1}


def test_a_pool_is_not_opened_for_one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would open several connections, and threads."""
    monkeypatch.setitem(connections.settings["default"], "OPTIONS", {"pool": True, "connect_timeout": 5})

    jobprocess.leave_pools()

    assert connections.settings["default"]["OPTIONS"] == {"connect_timeout": 5}
