"""Ordering keys under real workers: a ledger that nobody can change says in which order the jobs of a key ran."""

import random
from collections import defaultdict
from collections.abc import Iterable

import pytest

from djqueue.store import operate
from testproject.trials import ledger, tasks
from testproject.trials.ledger import Line
from tests.helpers import eventually
from tests.runtime.test_kill import kill_one_of
from tests.runtime.trial import Trial, dead, history, live, rows

pytestmark = pytest.mark.slow

KEYS, JOBS = 12, 25


def by_key(lines: Iterable[Line]) -> dict[str, list[tuple[int, str]]]:
    """What happened to each key, in the ledger's order."""
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for line in lines:
        key, number = line.label.rsplit(":", 1)
        found[key].append((int(number), line.event))
    return found


def broken(events: list[tuple[int, str]]) -> list[tuple[int, int]]:
    """Where another job than the last one, or than its successor after its end, has started."""
    found, last, has_ended = [], -1, True
    for number, event in events:
        if event == "start":
            if number != last and not (number == last + 1 and has_ended):
                found.append((last, number))
            last, has_ended = number, False
        elif number == last:
            has_ended = True
    return found


def enqueue_all() -> None:
    for number in range(JOBS):
        tasks.in_order.enqueue_many([(f"key {key}", number) for key in range(KEYS)])


def test_jobs_of_a_key_run_one_at_a_time_in_order_while_workers_are_killed(trial: Trial) -> None:
    """R3: killed at random moments of the run; each job ends, after the one before it, and nothing is stuck."""
    rng = random.Random()
    enqueue_all()
    supervisor = trial.supervisor("--processes", "3", "--threads", "4")
    for moment in sorted(rng.sample(range(KEYS * JOBS * 9 // 10), 15)):
        eventually(lambda at=moment: trial.events("end").total() >= at, 60)
        eventually(lambda: kill_one_of(rows("select pid from djqueue_worker"), rng), 20, supervisor.output)
    trial.wait_until_done(within=90)

    events = by_key(ledger.read(trial.ledger_path))
    assert {key: broken(found) for key, found in events.items()} == {f"key {key}": [] for key in range(KEYS)}
    assert history() == {"succeeded": KEYS * JOBS}
    assert rows("select count(*) from djqueue_wake") == [(0,)]


def test_jobs_of_a_key_go_on_in_order_after_whole_trees_are_killed(trial: Trial) -> None:
    """Nobody is left to say who had started: leases run out, heads are reaped, and hold their keys meanwhile."""
    enqueue_all()
    options = {"lease_seconds": 3}
    for moment in (20, 120):
        supervisor = trial.supervisor("--processes", "2", "--threads", "4", options=options)
        eventually(lambda at=moment: trial.events("end").total() >= at, 60, supervisor.output)
        supervisor.kill_tree()
    trial.supervisor("--processes", "2", "--threads", "4", options=options)
    trial.wait_until_done(within=90)

    events = by_key(ledger.read(trial.ledger_path))
    assert {key: broken(found) for key, found in events.items()} == {f"key {key}": [] for key in range(KEYS)}
    assert history() == {"succeeded": KEYS * JOBS}


def test_the_jobs_behind_a_dead_head_go_on_or_wait_as_their_tasks_say(trial: Trial) -> None:
    trial.supervisor("--threads", "2")
    doomed = tasks.ask.using(ordering_key="blocked", on_dead="block").enqueue("doomed", "dead")
    tasks.note.using(ordering_key="blocked").enqueue("waits")
    tasks.ask.using(ordering_key="free").enqueue("dies", "dead")
    tasks.note.using(ordering_key="free").enqueue("goes on")

    trial.wait_for_starts("doomed", "dies", "goes on")
    eventually(lambda: len(dead()) == 2)
    assert [args for _, state, _, _, args in live() if state == "parked"] == ['{"args": ["waits"], "kwargs": {}}']

    operate.requeue("default", [doomed.id])  # type: ignore[list-item]
    trial.wait_for_starts("doomed", times=2)
    eventually(lambda: len(dead()) == 2)
    assert trial.events()["waits"] == 0


def test_a_drain_ends_though_jobs_wait_behind_a_blocked_key(trial: Trial) -> None:
    tasks.ask.using(ordering_key="blocked", on_dead="block").enqueue("doomed", "dead")
    tasks.note.using(ordering_key="blocked").enqueue("waits")
    tasks.in_order.enqueue_many([("key", number) for number in range(3)])

    assert trial.supervisor("--drain").wait(within=20) == 0

    assert [state for _, state, *_ in live()] == ["parked"]
    assert trial.events("end").total() == 3
