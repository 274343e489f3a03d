"""djqueue beside its peers, the same workloads in one run on one server.

    python -m benchmarks.compare [--only drain,bulk,…] [--peers pgqueuer,…] [--quick] [--json] [--svg FILE]

Every round runs each contender once, forwards and backwards in turn; ratios are taken within a round. djqueue runs as
shipped, with default options. Peers live in a virtualenv of their own, see `environment`; who can't take part is named
with the reason. A run that loses or doubles a job counts as failed, and the exit code is 1 if djqueue's does.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.compare import environment, report, svg
from benchmarks.compare.databases import Databases
from benchmarks.compare.measures import Measured, Scale
from benchmarks.compare.programs import Contender, RunFailed
from benchmarks.compare.workloads import LATER, WORKLOADS, Workload
from benchmarks.setting import alone, fresh_server, machine

QUICK = ("single", "bulk", "drain", "latency")


def main() -> int:
    """Measure, print, and draw if asked to."""
    options = _options()
    began = time.monotonic()
    names = [] if options.quick and not options.peers else _chosen(options.peers, environment.PEERS, "--peers")
    taking_part, skipped = environment.contenders(names, options.peers_env)
    with alone(), fresh_server() as server:
        found = _report(options, taking_part, skipped, Databases(server))
    found["minutes"] = round((time.monotonic() - began) / 60, 1)
    if options.svg:
        options.svg.write_text(svg.picture(found))
    if options.save:
        options.save.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2) if options.json else report.words(found))
    return 1 if any("djqueue" in workload["failed"] for workload in found["workloads"].values()) else 0


def _report(
    options: argparse.Namespace, taking_part: Sequence[Contender], skipped: dict[str, str], databases: Databases
) -> dict[str, Any]:
    scale = Scale(seconds=1, latency_jobs=60) if options.quick else Scale(seconds=options.seconds)
    wanted = _chosen(options.only, [each.name for each in WORKLOADS], "--only")
    if options.quick and not options.only:
        wanted = list(QUICK)
    found: dict[str, Any] = {
        "benchmark": "compare",
        "machine": machine(),
        "taking part": report.who(taking_part),
        "labels": {name: environment.peer(name).label for name in (*environment.OWN, *environment.PEERS)},
        "skipped": {**skipped, **LATER},
        "workloads": {},
    }
    for workload in WORKLOADS:
        if workload.name in wanted:
            rounds = 1 if options.quick else workload.rounds or options.rounds
            found["workloads"][workload.name] = _measure(workload, taking_part, databases, scale, rounds)
    return found


def _measure(
    workload: Workload, taking_part: Sequence[Contender], databases: Databases, scale: Scale, rounds: int
) -> dict[str, Any]:
    able = [each for each in taking_part if not workload.suits(each)]
    guesses = {each.peer.name: each.peer.guess for each in able}
    failed: dict[str, str] = {}
    kept: list[dict[str, Measured]] = []
    warm_up = [-1] if rounds > 1 else []
    for number in [*warm_up, *range(rounds)]:
        figures: dict[str, Measured] = {}
        for contender in able if number % 2 == 0 else reversed(able):
            name = contender.peer.name
            if name in failed:
                continue
            try:
                figures[name] = workload.measure(contender, databases, scale, guesses[name])
            except RunFailed as error:
                failed[name] = str(error)
                print(f"{workload.name} {name}: FAILED: {error}", file=sys.stderr)
                continue
            if workload.figure == "jobs/s":
                guesses[name] = figures[name]["jobs/s"]
            _tell(workload, name, figures[name], number)
        if number >= 0:
            kept.append(figures)
    found = report.summary(workload, kept, [each.peer.name for each in able])
    reasons = {each.peer.name: why for each in taking_part if (why := workload.suits(each))}
    return {**found, "rounds": rounds, "failed": failed, "not taking part": reasons}


def _tell(workload: Workload, name: str, figures: Measured, number: int) -> None:
    said = "  ".join(f"{key} {value:,.2f}" for key, value in figures.items())
    print(f"{workload.name} {'warm-up' if number < 0 else number + 1} {name}: {said}", file=sys.stderr, flush=True)


def _chosen(given: str, known: Sequence[str], option: str) -> list[str]:
    if not given:
        return list(known)
    wanted = given.split(",")
    for name in wanted:
        if name not in known:
            raise SystemExit(f"{option}: expected some of {', '.join(known)}, got {name!r}")
    return wanted


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="workloads, separated by commas (default: all)")
    parser.add_argument("--peers", default="", help="peers, separated by commas (default: all)")
    parser.add_argument("--peers-env", type=Path, help="a virtualenv with the peers' packages (default: one is made)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5, help="how long a run takes, about (default: 5)")
    parser.add_argument("--quick", action="store_true", help="djqueue and the floor only, one short round, for CI")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the JSON to a file as well")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the report")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
