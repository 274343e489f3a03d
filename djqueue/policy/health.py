"""Is the queue well? Facts in, sentences out: what is wrong, the worst first, and what each sentence is about.

    BAD    jobs are late, are dying, or nobody works
    WARN   somebody should look before that happens
    NOTE   as people wanted it, but good to know

Invariant: a verdict never says "Healthy" when the figures are too old to know.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from djqueue.policy import words

TARGET_SECONDS = 300.0
"""The target of a queue that has none of its own."""

STALE_SECONDS = 60.0
"""Figures that are older tell of the past only."""

DYING_AT_LEAST = 10
DYING_SHARE = 0.01
"""So many deaths in an hour, and this share of all that ended, are an alarm; fewer are news."""


class Level(IntEnum):
    """How bad something is."""

    OK = 0
    NOTE = 1
    WARN = 2
    BAD = 3


class About(StrEnum):
    """What a sentence is about, and so where its cause can be seen."""

    QUEUE = "queue"
    JOBS = "jobs"
    WORKERS = "workers"
    DEATHS = "deaths"
    CAUSE = "cause"
    ORPHANS = "orphans"
    CIRCUIT = "circuit"
    CRON = "cron"
    REPLAY = "replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """One queue, as of its summary."""

    name: str
    ready: int = 0
    oldest_seconds: float | None = None
    """How long its oldest ready job has been waiting."""
    target_seconds: float | None = None
    paused_seconds: float | None = None
    """For how long it is paused from now on; None: it is not."""
    paused_by: str = ""
    paused_reason: str = ""
    is_served: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A cause of death that was not known before."""

    fingerprint: str
    name: str
    deaths: int
    seconds_ago: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that a verdict rests on."""

    figures_seconds: float | None = None
    """The age of the oldest queue summary; None: there is none yet."""
    queues: Sequence[QueueFacts] = ()
    workers: int = 0
    silent_workers: int = 0
    has_leader: bool = False
    died: int = 0
    """In the last hour."""
    ended: int = 0
    """In the last hour, the dead included."""
    causes: Sequence[Cause] = ()
    orphans: Sequence[tuple[str, int]] = ()
    """Tasks that no worker knows, with their jobs."""
    open_circuits: Sequence[str] = ()
    broken_entries: Sequence[str] = ()
    stopped_replays: Sequence[int] = ()
    """Replays that ended themselves in the last day because too much failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One sentence, and what it is about."""

    level: Level
    text: str
    about: About
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The first line, and all alarms, the worst first."""

    level: Level
    text: str
    alarms: Sequence[Alarm]


def judge(facts: Facts) -> Verdict:
    """Return what is to be said of these facts."""
    alarms = sorted(_alarms(facts), key=lambda alarm: -alarm.level)
    if not alarms or alarms[0].level < Level.WARN:
        return Verdict(level=Level.OK, text="Healthy", alarms=alarms)
    return Verdict(level=alarms[0].level, text=alarms[0].text, alarms=alarms)


def is_late(queue: QueueFacts) -> bool:
    """Tell whether a queue's oldest ready job waits for longer than it should; a paused queue is not late."""
    if queue.oldest_seconds is None or queue.paused_seconds is not None:
        return False
    return queue.oldest_seconds > target_of(queue)


def target_of(queue: QueueFacts) -> float:
    """Return how long a job of the queue may wait."""
    return TARGET_SECONDS if queue.target_seconds is None else queue.target_seconds


def _alarms(facts: Facts) -> Iterator[Alarm]:
    yield from _of_workers(facts)
    for queue in facts.queues:
        yield from _of_queue(queue, facts.workers)
    yield from _of_deaths(facts)
    yield from _of_the_rest(facts)


def _of_workers(facts: Facts) -> Iterator[Alarm]:
    waiting = sum(queue.ready for queue in facts.queues)
    if not facts.workers:
        text = "No worker is running" + (f": {words.count(waiting, 'ready job')} can't start" if waiting else "")
        yield Alarm(level=Level.BAD if waiting else Level.WARN, text=text, about=About.WORKERS)
    elif not facts.has_leader:
        text = "No worker leads: nobody counts, fires cron entries or removes what is old"
        yield Alarm(level=Level.WARN, text=text, about=About.WORKERS)
    if facts.silent_workers:
        text = f"{words.count(facts.silent_workers, 'worker')} fell silent without saying goodbye"
        yield Alarm(level=Level.WARN, text=text, about=About.WORKERS)
    if facts.figures_seconds is not None and facts.figures_seconds > STALE_SECONDS:
        text = f"The figures are {words.span(facts.figures_seconds)} old"
        yield Alarm(level=Level.WARN, text=text, about=About.WORKERS)


def _of_queue(queue: QueueFacts, workers: int) -> Iterator[Alarm]:
    if queue.paused_seconds is not None:
        text = f"Queue {queue.name} is paused for another {words.span(queue.paused_seconds)}"
        text += f" by {queue.paused_by}" if queue.paused_by else ""
        text += f": {queue.paused_reason}" if queue.paused_reason else ""
        yield Alarm(level=Level.NOTE, text=text, about=About.QUEUE, subject=queue.name)
    elif queue.ready and workers and not queue.is_served:
        text = f"No worker serves queue {queue.name}: {words.count(queue.ready, 'ready job')} can't start"
        yield Alarm(level=Level.BAD, text=text, about=About.QUEUE, subject=queue.name)
    elif is_late(queue) and queue.oldest_seconds is not None:
        waited, target = words.span(queue.oldest_seconds), words.span(target_of(queue))
        text = f"Queue {queue.name} is late: oldest ready job {waited}, target {target}"
        yield Alarm(level=Level.BAD, text=text, about=About.JOBS, subject=queue.name)


def _of_deaths(facts: Facts) -> Iterator[Alarm]:
    if facts.died:
        is_many = facts.died >= DYING_AT_LEAST and facts.died >= DYING_SHARE * facts.ended
        share = words.share(facts.died, max(facts.died, facts.ended))
        text = f"{words.count(facts.died, 'job')} died in the last hour, {share} of what ended"
        yield Alarm(level=Level.BAD if is_many else Level.NOTE, text=text, about=About.DEATHS)
    for cause in facts.causes:
        text = f"New cause of death {words.span(cause.seconds_ago)} ago: {cause.name}, "
        text += words.count(cause.deaths, "death")
        yield Alarm(level=Level.WARN, text=text, about=About.CAUSE, subject=cause.fingerprint)


def _of_the_rest(facts: Facts) -> Iterator[Alarm]:
    for task, jobs in facts.orphans:
        text = f"No worker knows the task {task}: {words.count(jobs, 'job')} set aside"
        yield Alarm(level=Level.WARN, text=text, about=About.ORPHANS, subject=task)
    for circuit in facts.open_circuits:
        text = f"Circuit {circuit} is open: its jobs wait"
        yield Alarm(level=Level.WARN, text=text, about=About.CIRCUIT, subject=circuit)
    for entry in facts.broken_entries:
        yield Alarm(level=Level.WARN, text=f"Cron entry {entry} can't fire", about=About.CRON, subject=entry)
    for replay in facts.stopped_replays:
        text = f"Replay {replay} stopped by itself: too many of its jobs failed"
        yield Alarm(level=Level.WARN, text=text, about=About.REPLAY, subject=str(replay))
