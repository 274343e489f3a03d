"""From figures to words: the median of the ratios within each round, a table, and JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.compare.measures import Measured
from benchmarks.compare.programs import Contender
from benchmarks.compare.workloads import Workload
from benchmarks.setting import quartiles

Rounds = Sequence[Mapping[str, Measured]]
"""For each round, the figures by contender."""


def summary(workload: Workload, rounds: Rounds, names: Sequence[str]) -> dict[str, Any]:
    """Summarise one workload: each contender's median and quartiles, and how many times better djqueue is."""
    entries: dict[str, Any] = {}
    for name in names:
        values = [each[name][workload.figure] for each in rounds if name in each]
        if not values:
            continue
        entry: dict[str, Any] = {"value": quartiles(values), "runs": [each[name] for each in rounds if name in each]}
        pairs = [
            _times_better(workload, each["djqueue"], each[name])
            for each in rounds
            if name in each and "djqueue" in each and name != "djqueue"
        ]
        if pairs:
            entry["djqueue is better by"] = quartiles(pairs)
        entries[name] = entry
    return {"title": workload.title, "unit": workload.unit, "better": workload.better, "contenders": entries}


def _times_better(workload: Workload, ours: Measured, theirs: Measured) -> float:
    mine, other = ours[workload.figure], theirs[workload.figure]
    if workload.better == "higher":
        return mine / max(other, 1e-9)
    return other / max(mine, 1e-9)


def words(report: Mapping[str, Any]) -> str:
    """Return the report as a Markdown page."""
    machine = report["machine"]
    lines = ["Machine: " + ", ".join(f"{key} {value}" for key, value in machine.items()) + ".", ""]
    lines += [f"- {each['label']} {each['version']}: {each['settings']}" for each in report["taking part"].values()]
    lines += [f"- skipped: {name}: {reason}" for name, reason in report["skipped"].items()]
    for name, workload in report["workloads"].items():
        lines += ["", *_table(name, workload, report)]
    return "\n".join(lines)


def _table(name: str, workload: Mapping[str, Any], report: Mapping[str, Any]) -> list[str]:
    unit = workload["unit"]
    lines = [
        f"**{workload['title']}** (`{name}`)",
        "",
        f"| | {unit}, median (quartiles) | djqueue is better by |",
        "| --- | ---: | ---: |",
    ]
    for key, entry in workload["contenders"].items():
        better = entry.get("djqueue is better by")
        label = report["taking part"][key]["label"]
        lines.append(f"| {label} | {_spread(entry['value'])}{_extra(entry)} | {_spread(better) if better else ''} |")
    for key, why in workload["failed"].items():
        lines.append(f"| {report['labels'][key]} | failed: {why.splitlines()[0][:150]} | |")
    return lines


def _spread(values: Mapping[str, float]) -> str:
    return f"{_number(values['median'])} ({_number(values['q1'])} to {_number(values['q3'])})"


def _extra(entry: Mapping[str, Any]) -> str:
    """The second figure that a latency is judged by."""
    p99 = [run["p99"] for run in entry["runs"] if "p99" in run]
    return f", p99 {_number(quartiles(p99)['median'])}" if p99 else ""


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def who(contenders: Sequence[Contender]) -> dict[str, dict[str, str]]:
    """Return versions and settings, by name."""
    return {
        each.peer.name: {"label": each.peer.label, "version": each.version, "settings": each.peer.settings}
        for each in contenders
    }
