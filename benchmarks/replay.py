"""Dead letters by cause, and a replay of one cause: it stops by itself, and completes when the cause is mended.

    python -m benchmarks.replay [--letters 10000] [--rate 100] [--canary 5] [--json]

Real workers let the jobs die of five causes. Then all letters of one cause are replayed twice: first the cause is still
there, then it is mended. While the second replay goes on it is looked at ten times a second by the database's clock; at
no look may it be further than its rate allows, one second's worth ahead at the most. Exit code 1 where anything is not
as it should be. The short form: `--letters 1000`, some ten seconds.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.setting import alone, fresh_server, machine

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = {"task_modules": ["testproject.trials.mortal"], "poll_seconds": 0.2}
LOOK_SECONDS = 0.1
PATIENCE_SECONDS = 300
STANDING = """
select state, requeued, succeeded, failed, reason, extract(epoch from clock_timestamp() - created_at)
from djqueue_replay where id = %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """How a replay went."""

    state: str
    requeued: int
    succeeded: int
    failed: int
    reason: str
    seconds: float
    most_ahead: float
    """Letters requeued beyond rate x time, at the worst look."""

    @property
    def per_second(self) -> float:
        """Its rate on the whole."""
        return round(self.requeued / self.seconds, 1)


def main() -> int:
    """Let jobs die, replay, print."""
    options = _options()
    with alone(), fresh_server(), tempfile.TemporaryDirectory() as folder, _workers():
        mended = Path(folder) / "mended"
        report = {"benchmark": "replay", "letters": options.letters, "rate": options.rate, "machine": machine()}
        report["groups"] = groups = _die(options.letters, mended)
        fingerprint, count = next(iter(groups.items()))
        hopeless = _replay(fingerprint, options)
        mended.touch()
        hopeful = _replay(fingerprint, options)
        left = _rows("select count(*) from djqueue_dead_letter")[0][0]
    report |= {"cause still there": _row(hopeless), "cause mended": _row(hopeful)}
    problems = [*_problems(options, groups, count, hopeless, hopeful)]
    if left != options.letters - count:
        problems.append(f"expected {options.letters - count} dead letters to be left, got {left}")
    report["problems"] = problems
    print(json.dumps(report, indent=2) if options.json else _words(options, groups, hopeless, hopeful, problems))
    return 1 if problems else 0


@contextmanager
def _workers() -> Iterator[None]:
    env = {**os.environ, "DJQUEUE_OPTIONS": json.dumps(OPTIONS)}
    command = [sys.executable, "manage.py", "runworker", "--processes", "2", "-v", "0"]
    with open(os.devnull, "w") as nowhere:  # ten thousand deaths are a line each
        workers = subprocess.Popen(command, cwd=ROOT, env=env, stdout=nowhere, stderr=nowhere)
    try:
        yield
    finally:
        workers.terminate()
        workers.wait(60)


def _die(letters: int, mended: Path) -> dict[str, int]:
    """Let so many jobs die, and wait until all are counted; return deaths by fingerprint."""
    from testproject.trials import mortal

    mortal.die_of_one_of_five.enqueue_many([(number, str(mended)) for number in range(letters)])
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        groups = dict(_rows("select fingerprint, count from djqueue_error_group order by 1"))
        if sum(groups.values()) >= letters:
            return groups
        time.sleep(LOOK_SECONDS)
    raise SystemExit(f"expected {letters} deaths to be counted, got {groups}")


def _replay(fingerprint: str, options: argparse.Namespace) -> Replayed:
    """Replay the letters of one cause, and look at it until it is over."""
    from djqueue.store import replay
    from djqueue.store.letters import Letters

    wanted = replay.Wanted(
        letters=Letters(fingerprint=fingerprint), per_second=options.rate, canary=options.canary, by="benchmark"
    )
    id_ = replay.create("default", wanted)
    worst = 0.0
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        state, requeued, succeeded, failed, reason, seconds = _rows(STANDING, id_)[0]
        worst = max(worst, requeued - options.rate * float(seconds))
        if state != "running":
            return Replayed(
                state=state,
                requeued=requeued,
                succeeded=succeeded,
                failed=failed,
                reason=reason,
                seconds=round(float(seconds), 2),
                most_ahead=round(worst, 1),
            )
        time.sleep(LOOK_SECONDS)
    raise SystemExit(f"replay {id_} is still {state} after {PATIENCE_SECONDS} s")


def _problems(
    options: argparse.Namespace, groups: dict[str, int], count: int, hopeless: Replayed, hopeful: Replayed
) -> Iterator[str]:
    if len(groups) != 5 or sum(groups.values()) != options.letters:
        yield f"expected {options.letters} deaths in five groups, got {groups}"
    if (hopeless.state, hopeless.requeued, hopeless.failed) != ("stopped", options.canary, options.canary):
        yield f"expected a replay that stops after its canary, got {hopeless}"
    if (hopeful.state, hopeful.succeeded, hopeful.failed) != ("finished", count, 0):
        yield f"expected a replay that completes {count} letters, got {hopeful}"
    if hopeful.most_ahead > options.rate:
        yield f"expected at most a second's worth beyond the rate, got {hopeful.most_ahead}"


def _rows(sql: str, *params: Any) -> list[tuple[Any, ...]]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql, params or None)
        return cursor.fetchall()


def _row(replayed: Replayed) -> dict[str, Any]:
    return {**asdict(replayed), "per_second": replayed.per_second}


def _words(
    options: argparse.Namespace,
    groups: dict[str, int],
    hopeless: Replayed,
    hopeful: Replayed,
    problems: list[str],
) -> str:
    return "\n".join(
        [
            f"{options.letters:,} dead letters of five causes: {len(groups)} groups, {sorted(groups.values())}",
            f"cause still there: {hopeless.state} after {hopeless.requeued}: {hopeless.reason}",
            f"cause mended: {hopeful.state}, {hopeful.succeeded:,} succeeded in {hopeful.seconds:.1f} s, "
            f"{hopeful.per_second:.1f} per second, never more than {hopeful.most_ahead:.0f} ahead of its rate",
            *(f"PROBLEM: {problem}" for problem in problems),
        ]
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--letters", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--canary", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
