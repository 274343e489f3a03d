"""Limits under fire: workers killed at random never exceed one, and nothing is left stuck.

LIMITS_TRIAL_SECONDS (8) and LIMITS_TRIAL_WORKERS (4) make it longer and wider; the figures are shown with `-s`.
"""

import os
import random
import signal
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from testproject.trials import ledger, limited
from testproject.trials.ledger import Line
from tests.helpers import eventually
from tests.runtime.trial import Trial, dead, live, rows

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("LIMITS_TRIAL_SECONDS", "8"))
WORKERS = int(os.environ.get("LIMITS_TRIAL_WORKERS", "4"))
OPTIONS = {
    "queues": {"images": {"max_running": limited.QUEUE_LIMIT}},
    "retry_base_seconds": 0,
    "lease_seconds": 5,
    "task_modules": ["testproject.trials.limited"],
}
LATE_SECONDS = 0.5
"""How much later than its claim a start may be written down on a busy machine."""


def test_no_limit_is_exceeded_no_order_broken_and_nothing_stuck_while_workers_are_killed_at_random(
    trial: Trial, tmp_path: Path
) -> None:
    count = int(SECONDS * 12)
    limited.hold_key.enqueue_many([(number, str(tmp_path)) for number in range(count)])
    limited.hold_task.enqueue_many([(number, str(tmp_path)) for number in range(count // 2)])
    limited.hold_queue.enqueue_many([(number, str(tmp_path)) for number in range(count)])
    limited.call_partner.enqueue_many([(number,) for number in range(int(SECONDS * 15))])
    limited.in_order.enqueue_many([(number % 6, number // 6) for number in range(count)])
    supervisors = [
        trial.supervisor("--processes", str(WORKERS // 2), "--threads", "4", options=OPTIONS) for _ in range(2)
    ]
    eventually(lambda: len(trial.events("within")) > 0, 30)

    killed = kill_at_random([each.pid for each in supervisors], SECONDS)
    trial.wait_until_done(within=60 + SECONDS * 2)

    lines = ledger.read(trial.ledger_path)
    sys.stderr.write(f"killed={killed} {report(lines)}\n")
    assert killed > 0
    assert trial.events("exceeded") == Counter()
    assert {"key-0", "key-1", "task", "queue"} <= set(trial.events("within"))
    assert most_above_rate([line.at for line in lines if line.label == "partner"]) <= limited.BURST
    assert orders_broken(lines) == []
    assert dead() == []
    assert rows("select count(*) from djqueue_job") == [(0,)]


def test_a_handler_pauses_its_limit_though_its_transaction_is_rolled_back(trial: Trial) -> None:
    limited.told_to_wait.enqueue("told", 2.0)
    trial.supervisor("--processes", "1", "--threads", "2", options=OPTIONS)
    eventually(lambda: trial.events("paused")["told"] == 1, 20)
    limited.told_to_wait.enqueue("later", 0.0)

    trial.wait_until_done()

    at = {(line.label, line.event): line.at for line in ledger.read(trial.ledger_path)}
    first = at["told", "attempt 1"]
    assert min(at["told", "attempt 2"], at["later", "attempt 1"]) - first >= 1.9
    assert rows("select paused_reason from djqueue_limiter where paused_until is not null") == [("429",)]


def kill_at_random(supervisors: list[int], seconds: float) -> int:
    """Kill a child of some supervisor, keepers too, about three times a second."""
    rng, until, killed = random.Random(11), time.monotonic() + seconds, 0
    while time.monotonic() < until and live():
        children = [int(pid) for each in supervisors for pid in _children(each)]
        if children:
            os.kill(rng.choice(children), signal.SIGKILL)
            killed += 1
        eventually_pass(rng.uniform(0.1, 0.5))
    return killed


def eventually_pass(seconds: float) -> None:
    """Let time pass: here it is the trial's length and nothing that decides."""
    began = time.monotonic()
    eventually(lambda: time.monotonic() - began >= seconds, seconds + 5)


def most_above_rate(times: list[float]) -> float:
    """The most calls in any stretch of time beyond what the rate alone allows in it."""
    times.sort()
    most = 0.0
    for first, begin in enumerate(times):
        for last in range(first, min(first + 400, len(times))):
            allowed = limited.RATE_PER_SECOND * (times[last] - begin + LATE_SECONDS)
            most = max(most, last - first + 1 - allowed)
    return most


def orders_broken(lines: list[Line]) -> list[str]:
    """Steps that began before the one before them had ended, or again after a later one had."""
    ended: dict[str, int] = {}
    broken = []
    for line in lines:
        if line.label.startswith("order "):
            what, number = line.event.split()
            if int(number) not in (ended.get(line.label, -1) + 1, ended.get(line.label, -1)):
                broken.append(f"{line.label}: {line.event} after {ended.get(line.label)}")
            if what == "end":
                ended[line.label] = int(number)
    return broken


def report(lines: list[Line]) -> dict[str, object]:
    """Figures for people."""
    at = sorted(line.at for line in lines if line.event in ("within", "call") or line.event.startswith("begin"))
    gaps = [second - first for first, second in pairwise(at)]
    partner = [line.at for line in lines if line.label == "partner"]
    return {
        "starts": len(at),
        "seconds": round(at[-1] - at[0], 1),
        "longest_gap": round(max(gaps), 2),
        "above_rate": round(most_above_rate(partner), 1),
        "exceeded": sum(line.event == "exceeded" for line in lines),
    }


def _children(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
