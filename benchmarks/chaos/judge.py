"""The verdict: the handlers' own account against the database, by lease tokens and the order of lines, not by clocks.

A run counts as the one that was acked where its token is the one that history holds: such a run held its lease from its
claim to its ack, so for those, order and limits must hold to the letter, whatever was frozen or killed meanwhile.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from django.db import connection

from testproject.trials import ledger, turmoil

ENDED = """
select id::text, lease_token, attempts, interruptions, outcome, errors::text from djqueue_history
union all
select id::text, lease_token, attempts, interruptions, outcome, errors::text from djqueue_history_overflow
union all
select id::text, lease_token, attempts, interruptions, 'dead', errors::text from djqueue_dead_letter
"""
UNFINISHED = "select id::text, state, attempts from djqueue_job"
EFFECTS = "select order_id, count(*) from shop_partnercall group by order_id"


@dataclass(slots=True)
class Run:
    """One start of a handler."""

    token: int
    pid: int
    begin: int
    """Place of its line in the ledger."""
    began_at: float
    end: int | None = None


@dataclass(slots=True)
class Job:
    """What the ledger says of a job."""

    kind: str
    words: list[str]
    runs: list[Run] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What the database says of one."""

    token: int
    attempts: int
    interruptions: int
    outcome: str


def judge(path: Path, committed: Mapping[str, str], kills: Iterable[tuple[float, int]]) -> dict[str, Any]:
    """Compare; return the figures."""
    jobs = _jobs(path)
    ended = {row[0]: Ended(token=row[1], attempts=row[2], interruptions=row[3], outcome=row[4]) for row in _rows(ENDED)}
    unfinished = {row[0] for row in _rows(UNFINISHED)}
    effects = dict(_rows(EFFECTS))
    recoveries = sorted(_recoveries(jobs, kills))
    return {
        "lost": sum(id_ not in ended and id_ not in unfinished for id_ in committed),
        "unfinished": len(unfinished),
        "doubled_atomic": _wrong_effects(jobs, ended, effects),
        "over_attempts": _over_attempts(jobs, ended),
        "order_broken": _order_broken(jobs, ended, committed),
        "limit_broken": _limit_broken(jobs, ended),
        "duplicates": sum(max(0, sum(run.end is not None for run in job.runs) - 1) for job in jobs.values()),
        "duplicates_unexplained": _unexplained(jobs, ended),
        "doubly_ended": _doubly_ended(),
        "succeeded": sum(each.outcome == "succeeded" for each in ended.values()),
        "dead": sum(each.outcome == "dead" for each in ended.values()),
        "starts": sum(len(job.runs) for job in jobs.values()),
        "recoveries": len(recoveries),
        "recovery_median_seconds": round(statistics.median(recoveries), 2) if recoveries else None,
        "recovery_p99_seconds": round(recoveries[int(len(recoveries) * 0.99)], 2) if recoveries else None,
    }


def _jobs(path: Path) -> dict[str, Job]:
    jobs: dict[str, Job] = {}
    open_runs: dict[tuple[str, int], Run] = {}
    for place, line in enumerate(ledger.read(path)):
        word, id_, token, at = line.event.split()
        kind, *words = line.label.split()
        job = jobs.setdefault(id_, Job(kind, words))
        if word == "begin":
            run = Run(int(token), line.pid, place, float(at))
            job.runs.append(run)
            open_runs[id_, run.token] = run
        else:
            open_runs[id_, int(token)].end = place
    return jobs


def _acked(jobs: Mapping[str, Job], ended: Mapping[str, Ended], kind: str) -> dict[str, Run]:
    """The runs of a kind that were acked, by job id."""
    return {
        id_: run
        for id_, job in jobs.items()
        if job.kind == kind and id_ in ended and ended[id_].outcome == "succeeded"
        for run in job.runs
        if run.token == ended[id_].token
    }


def _wrong_effects(jobs: Mapping[str, Job], ended: Mapping[str, Ended], effects: Mapping[int, int]) -> int:
    """Atomic jobs whose row is not there exactly once, or there although they did not succeed."""
    return sum(
        effects.get(int(job.words[0]), 0) != (id_ in ended and ended[id_].outcome == "succeeded")
        for id_, job in jobs.items()
        if job.kind == "atomic"
    )


def _over_attempts(jobs: Mapping[str, Job], ended: Mapping[str, Ended]) -> int:
    found = 0
    for id_, job in jobs.items():
        most = turmoil.FAILING_ATTEMPTS if job.kind == "failing" else turmoil.MAX_ATTEMPTS
        row = ended.get(id_)
        if row is not None:
            found += row.attempts > most or len(job.runs) > most + row.interruptions
    return found


def _order_broken(jobs: Mapping[str, Job], ended: Mapping[str, Ended], committed: Mapping[str, str]) -> int:
    """Neighbours of a key, in the order of their commits, of which the later began before the earlier had ended."""
    acked = _acked(jobs, ended, "ordered")
    keys: dict[str, list[Run]] = defaultdict(list)
    for id_ in committed:
        if id_ in acked:
            keys[jobs[id_].words[0]].append(acked[id_])
    return sum(b.begin < (a.end or 0) for runs in keys.values() for a, b in pairwise(runs))


def _limit_broken(jobs: Mapping[str, Job], ended: Mapping[str, Ended]) -> int:
    """Moments at which one run more began than may."""
    acked = _acked(jobs, ended, "limited").values()
    steps = sorted([(run.begin, 1) for run in acked] + [(run.end, -1) for run in acked if run.end is not None])
    running = found = 0
    for _, step in steps:
        running += step
        found += step > 0 and running > turmoil.LIMIT
    return found


def _unexplained(jobs: Mapping[str, Job], ended: Mapping[str, Ended]) -> int:
    """Jobs that started more often than their rows account for: charged attempts and interruptions."""
    return sum(
        len(job.runs) > ended[id_].attempts + ended[id_].interruptions for id_, job in jobs.items() if id_ in ended
    )


def _recoveries(jobs: Mapping[str, Job], kills: Iterable[tuple[float, int]]) -> Iterable[float]:
    """Seconds from the death of a process to the next start of what it ran."""
    died = {pid: at for at, pid in kills}
    for job in jobs.values():
        for run, later in pairwise(job.runs):
            at = died.get(run.pid)
            if run.end is None and at is not None and run.began_at < at < later.began_at:
                yield later.began_at - at


def _doubly_ended() -> int:
    return int(_rows(f"select count(*) - count(distinct id) from ({ENDED}) x")[0][0])


def _rows(sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()
