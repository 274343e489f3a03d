"""Processes: whoever is killed, frozen or told to stop, at any moment, the rest goes on and nobody is left over."""

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from django.db import connection

from djqueue.runtime import children, start
from djqueue.runtime.slot_table import STATUS, Kind, PageStatus
from testproject.shop.models import Counter as Total
from testproject.trials import tasks
from tests.helpers import database_url, eventually
from tests.processes import ROOT, Supervisor, descendants_of, ignoring_the_dead, is_alive
from tests.runtime.trial import Trial, dead, history, live, rows

pytestmark = pytest.mark.slow


def worker_pids() -> list[int]:
    """Return the worker processes that have registered."""
    return [pid for (pid,) in rows("select pid from djqueue_worker order by 1")]


def keeper_of(supervisor: Supervisor) -> int:
    """Return the keeper's process: the child that is no worker."""
    eventually(lambda: worker_pids() and len(supervisor.children()) > len(worker_pids()))
    [pid] = set(supervisor.children()) - set(worker_pids())
    return pid


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    with ignoring_the_dead():
        os.kill(pid, number)


# ------------------------------------------------------------------------------------------------ kill


@pytest.mark.parametrize(("command", "kills"), [("runworker", 100), ("spawnworker", 12)])
def test_children_killed_at_random_moments_are_replaced_and_nothing_is_lost(
    trial: Trial, command: str, kills: int
) -> None:
    """R24, R3: keeper and workers alike; no lock is left held, and every start in the ledger is in a row as well."""
    dice = random.Random(command)
    Total.objects.create(name="sum", value=0)
    supervisor = trial.supervisor("--processes", "2", "--threads", "2", command=command)
    for number in range(kills):
        tasks.count.enqueue("sum")
        tasks.note.using(max_attempts=1_000).enqueue(f"note {number}")
        victim = dice.choice(eventually(supervisor.children, 20))
        kill(victim)
        eventually(lambda pid=victim: not is_alive(pid))
    trial.wait_until_done(within=40)

    assert Total.objects.get(name="sum").value == kills
    assert history() == {"succeeded": 2 * kills}
    counted = rows(
        "select args->'args'->>0, attempts + interruptions from djqueue_history where task_name like '%%note'"
    )
    assert all(trial.events()[label] <= starts for label, starts in counted)
    supervisor.signal(signal.SIGTERM)
    assert supervisor.wait(within=20) == 0


@pytest.mark.parametrize("command", ["runworker", "spawnworker"])
def test_no_process_outlives_the_parent(trial: Trial, command: str) -> None:
    """They end at once, also those that have just been started, and leave no file behind."""
    files = set(Path("/dev/shm").glob("djqueue-*"))
    for settled in (True, False):
        supervisor = trial.supervisor("--processes", "3", command=command)
        eventually(lambda s=supervisor: len(s.children()) >= 4, 20)
        if settled:
            eventually(lambda: len(worker_pids()) == 3, 20)
        tree = supervisor.tree()

        kill(supervisor.pid)

        eventually(lambda t=tree: not any(is_alive(pid) for pid in t), 5)
        rows("delete from djqueue_worker")
    assert set(Path("/dev/shm").glob("djqueue-*")) <= files


def test_a_frozen_keeper_is_replaced(trial: Trial) -> None:
    """R4: it can't extend leases, and nobody else would notice."""
    tasks.hold.enqueue("long", trial.file("go"))
    supervisor = trial.supervisor(options={"lease_seconds": 15})
    trial.wait_for_starts("long")
    supervisor.wait_for_output("leader lease taken")  # before its first beat a keeper has a minute to start
    keeper = keeper_of(supervisor)

    os.kill(keeper, signal.SIGSTOP)

    supervisor.wait_for_output("keeper stands still", within=40)
    eventually(lambda: not is_alive(keeper))
    trial.make("go")
    trial.wait_until_done()
    assert (trial.events(), history()) == ({"long": 1}, {"succeeded": 1})


def test_a_tree_that_was_frozen_as_a_whole_goes_on_as_it_was(trial: Trial) -> None:
    """A suspended machine: nobody is replaced for having stood still with all the others."""
    tasks.hold.enqueue("long", trial.file("go"))
    supervisor = trial.supervisor(options={"lease_seconds": 3})
    trial.wait_for_starts("long")
    tree = supervisor.tree()
    for pid in tree:
        os.kill(pid, signal.SIGSTOP)
    eventually(lambda: rows("select lease_until < clock_timestamp() - interval '1 s' from djqueue_job")[0][0], 20)

    for pid in tree:
        os.kill(pid, signal.SIGCONT)
    trial.make("go")
    trial.wait_until_done()
    tasks.note.enqueue("later")
    trial.wait_for_starts("later")

    assert "replaced" not in supervisor.output()
    assert supervisor.tree() == tree


def test_one_of_two_supervisors_is_killed_and_the_other_takes_over(trial: Trial) -> None:
    """R2"""
    options = {"lease_seconds": 3}
    tasks.hold.enqueue("job", trial.file("go"))
    first = trial.supervisor("--threads", "1", options=options)
    trial.wait_for_starts("job")
    trial.supervisor("--threads", "1", options=options)
    eventually(lambda: len(worker_pids()) == 2, 20)

    first.kill_tree()
    trial.wait_for_starts("job", times=2)
    trial.make("go")
    trial.wait_until_done()

    assert rows("select attempts from djqueue_history") == [(2,)]


# ------------------------------------------------------------------------------------------------ start


def test_a_task_module_that_can_not_be_imported_ends_the_command_at_once(trial: Trial) -> None:
    """Never alive and idle: one traceback that names the module, and an exit code."""
    supervisor = trial.supervisor(options={"task_modules": ["testproject.missing"]})

    assert supervisor.wait(within=20) == 1
    assert supervisor.output().count("No module named 'testproject.missing'") == 1


def test_workers_that_end_before_they_can_work_are_given_up(trial: Trial) -> None:
    """Never alive and idle: here each spawned process fails where its parent has not."""
    options = {"task_modules": ["testproject.trials.only_once"]}
    env = {"TRIALS_IMPORT_ONCE": trial.file("imported")}
    supervisor = trial.supervisor(command="spawnworker", options=options, env=env)

    assert supervisor.wait(within=60) == 1
    assert "giving up" in supervisor.output()


def test_a_signal_at_any_moment_of_the_start_ends_the_command(trial: Trial) -> None:
    """R6: between fork and the child's own handlers as well."""
    for step in range(6):
        supervisor = trial.supervisor("--processes", "2")
        eventually(lambda s=supervisor, n=step: len(s.children()) >= min(n, 3) and (n < 1 or s.children()), 20)
        if step:
            supervisor.signal(signal.SIGTERM, group=step % 2 == 0)
            assert supervisor.wait(within=15) == 0
        else:
            supervisor.signal(signal.SIGTERM)
            assert supervisor.wait(within=15) in (0, -signal.SIGTERM)


# ------------------------------------------------------------------------------------------------ stop


def test_a_hang_up_stops_gracefully(trial: Trial) -> None:
    """A terminal that is closed sends it to the whole group."""
    tasks.hold.enqueue("long", trial.file("go"))
    supervisor = trial.supervisor()
    trial.wait_for_starts("long")

    supervisor.signal(signal.SIGHUP, group=True)
    supervisor.wait_for_output("stopping")
    trial.make("go")

    assert supervisor.wait(within=20) == 0
    assert history() == {"succeeded": 1}


def test_interrupting_twice_at_a_terminal_gives_jobs_back(trial: Trial) -> None:
    tasks.hold.enqueue("long", trial.file("never"))
    supervisor = trial.supervisor(options={"grace_seconds": 3600})
    trial.wait_for_starts("long")

    supervisor.signal(signal.SIGINT, group=True)
    supervisor.wait_for_output("stopping")
    supervisor.signal(signal.SIGINT, group=True)

    assert supervisor.wait(within=20) == 0
    assert rows("select state, attempts, interruptions from djqueue_job") == [("ready", 0, 1)]


def test_without_a_grace_period_jobs_are_given_back_at_once(trial: Trial) -> None:
    tasks.hold.enqueue("long", trial.file("never"))
    supervisor = trial.supervisor(options={"grace_seconds": 0})
    trial.wait_for_starts("long")

    supervisor.signal(signal.SIGTERM)

    assert supervisor.wait(within=20) == 0
    assert rows("select state, attempts, interruptions from djqueue_job") == [("ready", 0, 1)]


def test_a_stop_settles_what_is_left_also_when_the_keeper_has_just_been_killed(trial: Trial) -> None:
    """R6: the next keeper does it."""
    tasks.hold.enqueue("long", trial.file("never"))
    supervisor = trial.supervisor(options={"grace_seconds": 0.5})
    trial.wait_for_starts("long")
    keeper = keeper_of(supervisor)

    supervisor.signal(signal.SIGTERM)
    kill(keeper)

    assert supervisor.wait(within=20) == 0
    assert rows("select state, attempts, interruptions from djqueue_job") == [("ready", 0, 1)]


def test_a_worker_that_is_stopped_by_somebody_else_is_replaced_also_while_draining(trial: Trial) -> None:
    """`--drain` counts the workers that found nothing more to do, not those that were sent away."""
    tasks.hold.enqueue("last", trial.file("go"))
    supervisor = trial.supervisor("--drain", "--threads", "1")
    trial.wait_for_starts("last")
    tasks.note.enqueue("one more")
    [worker] = worker_pids()

    os.kill(worker, signal.SIGTERM)
    trial.make("go")

    assert supervisor.wait(within=20) == 0
    assert history() == {"succeeded": 2}


def test_a_drain_ends_with_nothing_left_whatever_happens_to_its_workers(trial: Trial) -> None:
    """Poison, failures, suspects and kills, several processes, another supervisor beside it."""
    for number in range(100):
        tasks.note.using(max_attempts=1_000).enqueue(f"note {number}")
    tasks.poison.enqueue("poison")
    tasks.fail.using(max_attempts=3).enqueue("fail")
    tasks.sleep_for_ever.enqueue("endless")
    first = trial.supervisor("--drain", "--processes", "2", "--threads", "2")
    second = trial.supervisor("--drain", "--threads", "2")
    for _ in range(5):
        for pid in eventually(lambda: worker_pids() or not first.is_running() or [0], 20) or []:
            if pid:
                kill(pid)

    assert (first.wait(within=60), second.wait(within=60)) == (0, 0)
    assert live() == []
    assert history() == {"succeeded": 100}
    assert sorted(label for label, *_ in dead()) == ["endless", "fail", "poison"]


# ------------------------------------------------------------------------------------------------ process 1


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0 or not shutil.which("unshare"), reason="needs unshare")
def test_as_process_1_it_buries_orphans_and_stops_on_a_signal(trial: Trial) -> None:
    """R6: as in a container, where nobody else is there to do it."""
    env = {**os.environ, "DATABASE_URL": database_url(), "TRIALS_LEDGER": str(trial.ledger_path)}
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "manage.py", "runworker"]
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as outside:
        try:
            tasks.leave_an_orphan.enqueue("orphan")
            trial.wait_for_starts("orphan")
            [one, *_] = descendants_of(outside.pid)
            eventually(lambda: not zombies_of(one), 10)
            os.kill(one, signal.SIGTERM)
            assert outside.wait(20) == 0
        finally:
            outside.kill()
    assert history() == {"succeeded": 1}


def zombies_of(pid: int) -> list[str]:
    """Return the dead children that nobody has buried."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with ignoring_the_dead():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except (FileNotFoundError, ProcessLookupError):
                    continue
                if fields[:2] == ["Z", str(pid)]:
                    found.append(entry.name)
    return found


# ------------------------------------------------------------------------------------------------ bounds, in process


def test_no_connection_or_pool_that_was_open_is_shared_with_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """R24: also Django's connection pools are closed before the first fork."""
    closed: list[str] = []
    monkeypatch.setattr(connection, "close_pool", lambda: closed.append("pool"), raising=False)
    monkeypatch.setattr(connection, "close", lambda: closed.append("connection"))
    monkeypatch.setattr(start.Supervisor, "run", lambda self: closed.append("run") or 7)

    assert start.supervise(start.make_plan(start.Wishes())) == 7
    assert closed == ["connection", "pool", "run"]


def test_when_no_page_is_left_the_worker_that_was_condemned_first_has_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """R5: neighbours with long limits must not keep all new workers from starting."""
    monkeypatch.setattr(children, "SPARE_PAGES", -1)
    supervisor = start.Supervisor(start.make_plan(start.Wishes()))
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(children.WorkerChild, "signal", lambda self, number: told.append((self.page.index, number)))
    for page in supervisor._table.pages:
        page.assign(uuid4(), Kind.WORKER)
        page.set(STATUS, PageStatus.RUNNING)
        child = children.WorkerChild(ProcessThatRuns(), page)  # type: ignore[arg-type]
        child.is_condemned = True
        supervisor._workers.append(child)

    supervisor._fill()

    assert told == [(0, signal.SIGKILL)]


class ProcessThatRuns:
    """A process as far as the parent looks."""

    pid = 1
    exitcode = None
