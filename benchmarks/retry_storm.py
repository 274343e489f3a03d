"""What retries do to a dependency that was down for a while: five policies against the same simulated outage.

    python -m benchmarks.retry_storm [--seeds 25] [--outage 19] [--base 1] [--cap 8] [--json]

The policies are the shipped ones (`djqueue.policy.retry`); the dependency is simulated in steps of half a second: while
it is down every call fails, after that the first 20 calls of a step succeed and the others fail. 260 jobs call it when
the outage begins, 156 in the first step and 104 in the second. No database, no clock: a run takes a second.
"""

import argparse
import json
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from djqueue.policy.retry import AnyRetry, FixedRetry, RetryPolicy

STEP_SECONDS = 0.5
CAPACITY = 20
ARRIVALS = (156, 104)
"""Jobs that call for the first time in each of the first steps."""
HORIZON_SECONDS = 60.0

PUBLISHED = {
    "fixed 1 s": "156 / 6,154 / 30.5 s",
    "no jitter": "156 / 2,040 / 260 left",
    "full": "44 / 1,654 / 27.5 s",
    "equal": "60 / 1,598 / 29.5 s",
    "decorrelated": "53 / 1,797 / 28.5 s",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """What one policy did."""

    peak: int
    """Most calls in one step after the recovery."""
    calls: int
    """All calls within the horizon, the successful ones included."""
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
    if options.json:
        print(json.dumps(_report(options, found), indent=2))
    else:
        print(_table(found))
    return 0


def simulate(policy: AnyRetry, outage_seconds: float, rng: random.Random) -> Storm:
    """Run one outage to its end, or to the horizon."""
    steps: dict[int, list[_Call]] = defaultdict(list)
    for step, jobs in enumerate(ARRIVALS):
        steps[step] += [_Call(step * STEP_SECONDS, 1, None)] * jobs
    left, peak, calls, done_at = sum(ARRIVALS), 0, 0, 0.0
    for step in range(int(HORIZON_SECONDS / STEP_SECONDS)):
        due = sorted(steps.pop(step, []), key=lambda call: call.at)
        is_up = step * STEP_SECONDS >= outage_seconds
        calls += len(due)
        peak = max(peak, len(due)) if is_up else peak
        served = min(len(due), CAPACITY) if is_up else 0
        left -= served
        done_at = step * STEP_SECONDS if served else done_at
        for failed in due[served:]:
            again = _again(failed, policy, rng)
            steps[max(step + 1, int(again.at / STEP_SECONDS))].append(again)
    return Storm(peak=peak, calls=calls, left=left, done_after_seconds=None if left else done_at)


def _again(failed: _Call, policy: AnyRetry, rng: random.Random) -> _Call:
    delay = policy.delay_seconds(failed.attempt, rng, failed.previous)
    return _Call(failed.at + delay, failed.attempt + 1, delay)


def _policies(base: float, cap: float) -> dict[str, AnyRetry]:
    return {
        "fixed 1 s": FixedRetry(seconds=1),
        "no jitter": RetryPolicy(base_seconds=base, cap_seconds=cap, jitter="none"),
        "full": RetryPolicy(base_seconds=base, cap_seconds=cap, jitter="full"),
        "equal": RetryPolicy(base_seconds=base, cap_seconds=cap, jitter="equal"),
        "decorrelated": RetryPolicy(base_seconds=base, cap_seconds=cap, jitter="decorrelated"),
    }


def _median(policy: AnyRetry, outage_seconds: float, seeds: int) -> Storm:
    runs = [simulate(policy, outage_seconds, random.Random(seed)) for seed in range(seeds)]
    left = _middle([run.left for run in runs])
    ended = [run.done_after_seconds for run in runs if run.done_after_seconds is not None]
    return Storm(
        peak=_middle([run.peak for run in runs]),
        calls=_middle([run.calls for run in runs]),
        left=left,
        done_after_seconds=None if left else statistics.median_low(ended),
    )


def _middle(values: Sequence[int]) -> int:
    return statistics.median_low(values)


def _table(found: dict[str, Storm]) -> str:
    lines = [f"{'policy':<14}{'peak':>6}{'calls':>8}  {'all done':<12}published (peak / calls / all done)"]
    for name, storm in found.items():
        done = f"{storm.left} left" if storm.done_after_seconds is None else f"{storm.done_after_seconds:.1f} s"
        lines.append(f"{name:<14}{storm.peak:>6}{storm.calls:>8,}  {done:<12}{PUBLISHED[name]}")
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
