"""`manage.py djqueue stats`: four numbers first, then queues with their forecasts, tasks and pauses. It only prints."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from djqueue.management.verbs.common import Print, as_json, backend_of, said, verb
from djqueue.policy.durations import in_words
from djqueue.store import forecast, numbers, pauses
from djqueue.store.forecast import QueueNow
from djqueue.store.numbers import Counts, Numbers, TaskFigures
from djqueue.store.pauses import Pause

MOST_TASKS = 20


def add_arguments(verbs: Any) -> None:
    """Declare the verb."""
    parser = verb(verbs, "stats", "counts by state, oldest ready job, durations by task, deaths per hour; then queues")
    parser.set_defaults(run=_stats)


def _stats(options: dict[str, Any], out: Print) -> None:
    alias = backend_of(options).alias_of_database
    now, queues, paused = numbers.numbers(alias), forecast.queues(alias), pauses.in_force(alias)
    if options["json"]:
        out(
            as_json({**asdict(now), "queues": [asdict(each) for each in queues], "pauses": [asdict(p) for p in paused]})
        )
    else:
        out("\n".join(_said(now, queues, paused)))


def _said(now: Numbers, queues: list[QueueNow], paused: list[Pause]) -> Iterator[str]:
    counts = now.counts
    yield f"jobs         {_states(counts)}{_as_of(counts.age_seconds)}"
    oldest = counts.oldest_ready_seconds
    yield f"oldest ready {'none is ready' if oldest is None else in_words(oldest)}"
    yield f"duration     {_first(now.tasks)}"
    yield f"dead         {now.dead_last_hour:,} in the last hour"
    if queues:
        yield ""
        yield f"{'queue':<24} {'ready':>9} {'running':>8} {'waiting':>9} {'per s':>8} {'oldest':>10}  empty in"
        yield from (_queue(each) for each in queues)
    if now.tasks:
        yield ""
        yield f"{'task, last hour':<44} {'attempts':>9} {'failed':>7} {'mean':>9} {'median':>9} {'95 %':>9}"
        yield from (_task(each) for each in now.tasks[:MOST_TASKS])
    if paused:
        yield ""
        yield from (_pause(each) for each in paused)


def _states(counts: Counts) -> str:
    return (
        f"{counts.ready:,} ready, {counts.leased:,} running, {counts.scheduled:,} scheduled, {counts.parked:,} parked, "
        f"{counts.dead:,} dead"
    )


def _as_of(age: float) -> str:
    return f" (counted {in_words(age)} ago)" if age >= 1 else ""


def _first(tasks: list[TaskFigures]) -> str:
    if not tasks:
        return "nothing has run in the last hour"
    return ", ".join(f"{each.task_name.rpartition('.')[2]} {in_words(each.mean_seconds)}" for each in tasks[:3])


def _queue(each: QueueNow) -> str:
    drain = each.forecast.drain_seconds
    empty = (
        f"paused until {said(each.paused_until)}"
        if each.paused_until
        else "never"
        if drain is None
        else in_words(drain)
    )
    oldest = "-" if each.oldest_ready_seconds is None else in_words(each.oldest_ready_seconds)
    return (
        f"{each.name:<24} {each.ready:>9,} {each.leased:>8,} {each.scheduled + each.parked:>9,} "
        f"{each.forecast.per_second:>8,.1f} {oldest:>10}  {empty}"
    )


def _task(each: TaskFigures) -> str:
    times = " ".join(f"{in_words(s):>9}" for s in (each.mean_seconds, each.median_seconds, each.p95_seconds))
    return f"{each.task_name[-44:]:<44} {each.attempts:>9,} {each.failed:>7,} {times}"


def _pause(each: Pause) -> str:
    by = f" by {each.by}" if each.by else ""
    return f"paused: {each.kind} {each.name} until {said(each.until)}{by}{': ' + each.reason if each.reason else ''}"
