"""What other schedulers' entries would be here: a proposal for each, with the reason where there can be none."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from djqueue.policy import celerybeat, crontab
from djqueue.policy.celerybeat import Translated


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """An entry that could be made; `source`: what it comes from; `note`: what will be different."""

    name: str
    source: str
    schedule: str = ""
    timezone: str = "UTC"
    task: str = ""
    queue: str = ""
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    problem: str = ""


def from_crontab(text: str, timezone: str, task: str, *, system: bool) -> Iterator[Proposal]:
    """Yield a proposal for each line that schedules a command, which the task gets as its only argument."""
    taken: set[str] = set()
    for line in crontab.read(text, timezone, system=system):
        name = crontab.entry_name(line.command or f"line-{line.number}", taken)
        taken.add(name)
        yield Proposal(
            name=name,
            source=f"line {line.number}: {line.text}",
            schedule=line.schedule,
            timezone=line.timezone,
            task=task,
            args=[line.command] if line.command else [],
            problem=line.problem,
        )


Row = tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any] | None]


def from_celery_beat(rows: Iterable[Row], queues: Iterable[str]) -> Iterator[Proposal]:
    """Yield a proposal for each periodic task; tasks are known under the paths that celery had for them."""
    known = set(queues)
    for task, cron, interval in rows:
        translated = _schedule(task, cron, interval)
        queue = task.get("queue") or ""
        args, kwargs, problem = _arguments(task)
        yield Proposal(
            name=task["name"],
            source=f"periodic task {task['id']}" + ("" if task.get("enabled", True) else " (disabled)"),
            schedule=translated.schedule,
            timezone=str((cron or {}).get("timezone") or "UTC"),
            task=task["task"],
            queue=queue if queue in known else "",
            args=args,
            kwargs=kwargs,
            note="; ".join(note for note in (translated.note, _queue_note(queue, known)) if note),
            problem=translated.problem or problem,
        )


def _schedule(task: dict[str, Any], cron: dict[str, Any] | None, interval: dict[str, Any] | None) -> Translated:
    if task["task"].startswith("celery."):
        return Translated(problem="a task of celery itself")
    if task.get("one_off"):
        return Translated(problem="it runs once; enqueue it with .using(run_after=…)")
    if cron:
        fields = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
        return celerybeat.crontab(*(str(cron[name]) for name in fields))
    if interval:
        return celerybeat.interval(int(interval["every"]), str(interval["period"]))
    return Translated(problem="expected a crontab or an interval, got a schedule by the sun or a single moment")


def _arguments(task: dict[str, Any]) -> tuple[list[Any], dict[str, Any], str]:
    try:
        args, kwargs = json.loads(task.get("args") or "[]"), json.loads(task.get("kwargs") or "{}")
    except ValueError as error:
        return [], {}, f"its arguments are no JSON: {error}"
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        return [], {}, "its arguments are not a list and an object"
    return args, kwargs, ""


def _queue_note(queue: str, known: set[str]) -> str:
    return f"its queue {queue!r} is not one of QUEUES, the task's own is taken" if queue and queue not in known else ""
