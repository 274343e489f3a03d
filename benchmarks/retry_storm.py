"""What retries do to a dependency that was down for a while, and what a retry budget and a circuit breaker add.

    python -m benchmarks.retry_storm [--seeds 25] [--outage 19] [--base 1] [--cap 8] [--json]

The policies are the shipped ones (`djqueue.policy.retry`, `.budget`, `.circuit`); the dependency is simulated in steps
of half a second: while it is down every call fails, after that the first 20 calls of a step succeed and the others
fail. 260 jobs call it when the outage begins, 156 in the first step and 104 in the second. No database, no clock: a run
takes a second or two.
"""

import argparse
import json
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from djqueue.circuitconf import CircuitOptions
from djqueue.policy import budget as budgets
from djqueue.policy import circuit as circuits
from djqueue.policy.budget import BudgetOptions
from djqueue.policy.circuit import Circuit, Report
from djqueue.policy.retry import AnyRetry, FixedRetry, RetryPolicy

STEP_SECONDS = 0.5
CAPACITY = 20
ARRIVALS = (156, 104)
"""Jobs that call for the first time in each of the first steps."""
HORIZON_SECONDS = 60.0
LOOKS = 5
"""How often a worker asks the breaker within a step."""

PUBLISHED = {
    "fixed 1 s": "156 / 6,154 / 30.5 s",
    "no jitter": "156 / 2,040 / 260 left",
    "full": "44 / 1,654 / 27.5 s",
    "equal": "60 / 1,598 / 29.5 s",
    "decorrelated": "53 / 1,797 / 28.5 s",
}

BUDGET = BudgetOptions()
BREAKER = CircuitOptions(
    min_calls=20,
    consecutive_failures=10,
    open_seconds=2,
    max_open_seconds=4,
    probes=3,
    ramp_per_second=20,
    ramp_double_seconds=8,
    ramp_seconds=20,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """What stands between the jobs and the dependency besides the retry policy."""

    budget: BudgetOptions | None = None
    breaker: CircuitOptions | None = None


PROTECTIONS = {
    "full, budget": Protection(budget=BUDGET),
    "full, breaker": Protection(breaker=BREAKER),
    "full, both": Protection(budget=BUDGET, breaker=BREAKER),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """What one policy did."""

    peak: int
    """Most calls in one step after the recovery."""
    calls: int
    """All calls within the horizon, the successful ones included."""
    wasted: int
    """Calls that failed."""
    left: int
    """Jobs that had not succeeded at the horizon."""
    done_after_seconds: float | None
    """From the beginning of the outage to the last success; None where jobs were left."""


@dataclass(frozen=True, slots=True)
class _Call:
    at: float
    attempt: int
    previous: float | None


def main() -> int:
    """Simulate, print."""
    options = _options()
    policies = _policies(options.base, options.cap)
    found = {name: _median(policy, options.outage, options.seeds) for name, policy in policies.items()}
    for name, protection in PROTECTIONS.items():
        found[name] = _median(policies["full"], options.outage, options.seeds, protection)
    if options.json:
        print(json.dumps(_report(options, found), indent=2))
    else:
        print(_table(found))
    return 0


def simulate(
    policy: AnyRetry, outage_seconds: float, rng: random.Random, protection: Protection | None = None
) -> Storm:
    """Run one outage to its end, or to the horizon."""
    protection = protection or Protection()
    gate, purse = _Gate(protection.breaker), _Purse(protection.budget)
    steps: dict[int, list[_Call]] = defaultdict(list)
    for step, jobs in enumerate(ARRIVALS):
        steps[step] += [_Call(step * STEP_SECONDS, 1, None)] * jobs
    left, peak, calls, done_at = sum(ARRIVALS), 0, 0, 0.0
    for step in range(int(HORIZON_SECONDS / STEP_SECONDS)):
        now = step * STEP_SECONDS
        due = sorted(steps.pop(step, []), key=lambda call: call.at)
        started = due[: gate.admit(len(due), now)]
        steps[step + 1] += due[len(started) :]  # what the breaker holds back waits, uncharged
        is_up = now >= outage_seconds
        calls += len(started)
        peak = max(peak, len(started)) if is_up else peak
        served = min(len(started), CAPACITY) if is_up else 0
        left -= served
        done_at = now if served else done_at
        gate.report(served, len(started) - served, now)
        purse.earn(served, now)
        for failed in started[served:]:
            again = _again(failed, policy, rng, purse)
            steps[max(step + 1, int(again.at / STEP_SECONDS))].append(again)
    return Storm(
        peak=peak,
        calls=calls,
        wasted=calls - (sum(ARRIVALS) - left),
        left=left,
        done_after_seconds=None if left else done_at,
    )


class _Gate:
    """The circuit breaker of the simulation; open for all where there is none."""

    def __init__(self, options: CircuitOptions | None) -> None:
        self._options = options
        self._circuit = Circuit()

    def admit(self, wanted: int, now: float) -> int:
        if self._options is None:
            return wanted
        allowed = 0
        for look in range(LOOKS):  # as workers do: a ramp lets jobs start a few at a time
            at = now + look * STEP_SECONDS / LOOKS
            more, self._circuit = circuits.admit(self._circuit, wanted - allowed, allowed, at, self._options)
            allowed += more
        return allowed

    def report(self, successes: int, failures: int, now: float) -> None:
        if self._options is not None:
            report = Report(term=self._circuit.term, successes=successes, failures=failures, streak=failures)
            self._circuit = circuits.count(self._circuit, report, now, self._options)


class _Purse:
    """The retry budget of the simulation; without limit where there is none."""

    def __init__(self, options: BudgetOptions | None) -> None:
        self._options = options
        self._successes: list[tuple[float, int]] = []
        self._level = 0.0
        self._at = 0.0

    def earn(self, successes: int, now: float) -> None:
        self._successes.append((now, successes))

    def push(self, now: float) -> float:
        if self._options is None:
            return 0.0
        recent = sum(jobs for at, jobs in self._successes if at > now - budgets.WINDOW_SECONDS)
        rate = budgets.per_second(recent, self._options)
        self._level = budgets.drained(self._level, rate, now - self._at)
        self._at = now
        [push] = budgets.pushes(self._level, 1, rate)
        self._level = budgets.raised(self._level, 1, rate)
        return push


def _again(failed: _Call, policy: AnyRetry, rng: random.Random, purse: _Purse) -> _Call:
    delay = policy.delay_seconds(failed.attempt, rng, failed.previous)
    return _Call(failed.at + delay + purse.push(failed.at), failed.attempt + 1, delay)


def _policies(base: float, cap: float) -> dict[str, AnyRetry]:
    return {
        "fixed 1 s": FixedRetry(seconds=1),
        "no jitter": RetryPolicy(base_seconds=base, cap_seconds=cap, jitter="none"),
        "full": RetryPolicy(base_seconds=base, cap_seconds=cap, jitter="full"),
        "equal": RetryPolicy(base_seconds=base, cap_seconds=cap, jitter="equal"),
        "decorrelated": RetryPolicy(base_seconds=base, cap_seconds=cap, jitter="decorrelated"),
    }


def _median(policy: AnyRetry, outage_seconds: float, seeds: int, protection: Protection | None = None) -> Storm:
    runs = [simulate(policy, outage_seconds, random.Random(seed), protection) for seed in range(seeds)]
    left = _middle([run.left for run in runs])
    ended = [run.done_after_seconds for run in runs if run.done_after_seconds is not None]
    return Storm(
        peak=_middle([run.peak for run in runs]),
        calls=_middle([run.calls for run in runs]),
        wasted=_middle([run.wasted for run in runs]),
        left=left,
        done_after_seconds=None if left else statistics.median_low(ended),
    )


def _middle(values: Sequence[int]) -> int:
    return statistics.median_low(values)


def _table(found: dict[str, Storm]) -> str:
    head = f"{'policy':<14}{'peak':>6}{'calls':>8}{'wasted':>8}  {'all done':<12}"
    lines = [f"{head}published (peak / calls / all done)"]
    for name, storm in found.items():
        done = f"{storm.left} left" if storm.done_after_seconds is None else f"{storm.done_after_seconds:.1f} s"
        lines.append(
            f"{name:<14}{storm.peak:>6}{storm.calls:>8,}{storm.wasted:>8,}  {done:<12}{PUBLISHED.get(name, '')}"
        )
    return "\n".join(lines)


def _report(options: argparse.Namespace, found: dict[str, Storm]) -> dict[str, object]:
    return {
        "benchmark": "retry_storm",
        "jobs": sum(ARRIVALS),
        "capacity_per_step": CAPACITY,
        "step_seconds": STEP_SECONDS,
        "outage_seconds": options.outage,
        "base_seconds": options.base,
        "cap_seconds": options.cap,
        "seeds": options.seeds,
        "policies": {name: asdict(storm) for name, storm in found.items()},
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=25, help="the medians of so many runs are shown")
    parser.add_argument("--outage", type=float, default=19, metavar="SECONDS")
    parser.add_argument("--base", type=float, default=1, metavar="SECONDS")
    parser.add_argument("--cap", type=float, default=8, metavar="SECONDS")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
