"""Circuits with real workers: what an open one holds back is neither started nor charged, whoever has learnt of it."""

import os
import signal
from typing import Any

import pytest

from djqueue.store import circuits
from testproject.trials import ledger, tasks
from testproject.trials.partner import call, call_slowly, stumble
from tests.helpers import eventually
from tests.runtime.trial import Trial, dead, history, rows

pytestmark = pytest.mark.slow

NAME = "partner"
QUICK: dict[str, Any] = {
    "consecutive_failures": 5,
    "open_seconds": 3_600,
    "max_open_seconds": 3_600,
    "probes": 1,
    "ramp_seconds": 0,
}


def options(**changed: Any) -> dict[str, Any]:
    return {
        "circuits": {NAME: {**QUICK, **changed}},
        "task_modules": ["testproject.trials.partner"],
        "poll_seconds": 0.1,
    }


def state() -> str:
    found = rows("select state from djqueue_circuit where name = %s", NAME)
    return str(found[0][0]) if found else ""


def wait_for_state(wanted: str, within: float = 20) -> None:
    eventually(lambda: state() == wanted, within, message=lambda: f"{state()}, {rows('select * from djqueue_circuit')}")


def waiting() -> dict[str, tuple[str, int]]:
    """State and attempts of unfinished jobs by label."""
    found = rows("select args->'args'->>0, state, attempts from djqueue_job")
    return {label: (state, attempts) for label, state, attempts in found}


def let_open_time_pass() -> None:
    rows("update djqueue_circuit set open_until = clock_timestamp() where name = %s", NAME)


def let_something_else_run(trial: Trial, label: str) -> None:
    """Workers have looked for work, and done some, after this."""
    tasks.note.enqueue(label)
    trial.wait_for_starts(label)
    eventually(lambda: label not in waiting())


def test_an_open_circuit_starts_and_charges_nothing_and_lets_all_go_on_when_it_is_back(trial: Trial) -> None:
    trial.make("down")
    trial.supervisor("--processes", "2", "--threads", "2", options=options())
    for number in range(20):
        call.enqueue(f"call {number}", trial.file("down"))
    wait_for_state("open")
    eventually(lambda: not rows("select 1 from djqueue_job where state = 'leased'"))
    starts, attempts = trial.events().total(), waiting()

    call.enqueue("later", trial.file("down"))
    let_something_else_run(trial, "note")
    assert trial.events().total() == starts + 1
    assert _has_only_promoted(attempts | {"later": ("ready", 0)})

    os.unlink(trial.file("down"))
    let_open_time_pass()
    trial.wait_until_done()
    assert history() == {"succeeded": 22}
    assert state() == "closed"
    assert not rows("select 1 from djqueue_lane")


def _has_only_promoted(before: dict[str, tuple[str, int]]) -> bool:
    """Retries have become ready since, and nothing else has happened."""
    return {label: attempts for label, (_, attempts) in waiting().items()} == {
        label: attempts for label, (_, attempts) in before.items()
    }


def test_failures_of_two_workers_add_up_and_both_go_by_the_answer(trial: Trial) -> None:
    """Each of them alone sees three; six open it."""
    trial.make("down")
    queues = ("default", "emails")
    for queue in queues:
        trial.supervisor("--queues", queue, "--threads", "1", options=options(consecutive_failures=6))
        for number in range(3):
            call.using(queue_name=queue, max_attempts=1).enqueue(f"{queue} {number}", trial.file("down"))

    wait_for_state("open")
    assert len(dead()) == 6
    assert len({line.pid for line in ledger.read(trial.ledger_path)}) == 2

    for queue in queues:
        call.using(queue_name=queue).enqueue(f"{queue} later", trial.file("down"))
        tasks.note.using(queue_name=queue).enqueue(f"{queue} note")
    trial.wait_for_starts("default note", "emails note")
    eventually(lambda: not [label for label in waiting() if label.endswith("note")])
    assert waiting() == {"default later": ("ready", 0), "emails later": ("ready", 0)}


def test_a_mistake_in_the_code_opens_no_circuit(trial: Trial) -> None:
    trial.supervisor("--threads", "2", options=options())
    for number in range(10):
        stumble.using(max_attempts=1).enqueue(f"stumble {number}")
    trial.wait_until_done()

    assert len(dead()) == 10
    assert state() == "closed"


def test_a_circuit_forced_open_lets_nothing_start_until_somebody_closes_it(trial: Trial) -> None:
    circuits.make("default", [NAME])
    circuits.force_open("default", NAME, {}, seconds=None, reason="they are moving")
    call.enqueue("held back", trial.file("never"))
    trial.supervisor("--threads", "2", options=options())
    let_something_else_run(trial, "note")
    assert waiting() == {"held back": ("ready", 0)}

    circuits.close("default", NAME, {})

    trial.wait_until_done()
    assert history() == {"succeeded": 2}


def test_jobs_in_a_worker_s_hands_are_given_back_uncharged_when_it_opens(trial: Trial) -> None:
    """They are claimed and wait for the only slot."""
    trial.supervisor("--threads", "1", options=options())
    for number in range(3):
        call.enqueue(f"quick {number}", trial.file("never"))
    trial.wait_until_done()
    call_slowly.enqueue("slow", trial.file("go"))
    trial.wait_for_starts("slow")
    call.enqueue("behind", trial.file("never"))
    eventually(lambda: waiting()["behind"] == ("leased", 1))

    circuits.force_open("default", NAME, {}, seconds=None, reason="by hand")
    eventually(lambda: waiting().get("behind") == ("ready", 0))
    trial.make("go")
    eventually(lambda: "slow" not in waiting())
    let_something_else_run(trial, "note")

    assert trial.events()["behind"] == 0
    assert waiting() == {"behind": ("ready", 0)}


def test_no_more_probes_run_than_there_may_and_a_killed_one_s_place_is_free_again(trial: Trial) -> None:
    circuits.make("default", [NAME])
    circuits.force_open("default", NAME, {}, seconds=3_600, reason="by hand")
    call_slowly.enqueue_many([(f"probe {number}", trial.file("go")) for number in range(5)])
    trial.supervisor("--processes", "3", "--threads", "2", options=options())
    let_something_else_run(trial, "first")

    let_open_time_pass()
    probes = eventually(lambda: [label for label in trial.events() if label.startswith("probe")], within=20)
    let_something_else_run(trial, "second")
    assert len(probes) == len([label for label in trial.events() if label.startswith("probe")]) == 1

    os.kill(trial.pids(probes[0])[0], signal.SIGKILL)
    eventually(lambda: _probes(trial) == 2, within=20)
    let_something_else_run(trial, "third")
    assert _probes(trial) == 2
    trial.make("go")
    trial.wait_until_done(within=30)
    assert history() == {"succeeded": 8}


def _probes(trial: Trial) -> int:
    return sum(count for label, count in trial.events().items() if label.startswith("probe"))


def test_what_waited_is_released_at_the_ramp(trial: Trial) -> None:
    circuits.make("default", [NAME])
    circuits.force_open("default", NAME, {}, seconds=None, reason="by hand")
    call.enqueue_many([(f"call {number}", trial.file("never")) for number in range(12)])
    ramp = options(ramp_seconds=60, ramp_per_second=4, ramp_double_seconds=60)
    trial.supervisor("--processes", "2", "--threads", "4", options=ramp)
    let_something_else_run(trial, "note")

    circuits.close("default", NAME, {})
    trial.wait_until_done(within=40)

    starts = sorted(line.at for line in ledger.read(trial.ledger_path) if line.label.startswith("call"))
    assert len(starts) == 12
    assert starts[-1] - starts[0] > 10 / 4 * 0.8, "twelve starts at four per second take eleven quarters of a second"
