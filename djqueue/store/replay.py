"""Replay runs: their rows, how their jobs went, and the next step, each step in one transaction.

Invariant: what a step has requeued, and that it has, commit together; a run goes on after a crash where it was, and of
two leaders one takes the step.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from djqueue.policy.replay import Run, next_step
from djqueue.store import db, letters, operate
from djqueue.store.letters import Cursor, Letters

JUDGED_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A run to be started."""

    letters: Letters
    per_second: float = 10
    """Dead letters per second: above 0, up to 10,000."""
    canary: int = 5
    """How many go first, alone; 0: none."""
    stop_ratio: float = 0.2
    """Stop when a larger share of those that are known has failed: 0 to 1 (1: never)."""
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a step has done."""

    id: int
    state: str
    requeued: int
    """In this step."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a run is."""

    id: int
    state: str
    """`running`, `paused`, `stopped` or `finished`."""
    reason: str
    total: int
    requeued: int
    refused: int
    """Left as they were, because another job holds their key."""
    succeeded: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A running replay, locked."""

    id: int
    wanted: Wanted
    requeued: int
    refused: int
    succeeded: int
    failed: int
    credit: float
    idle_seconds: float
    cursor: Cursor


CREATE = """
insert into djqueue_replay (created_at, created_by, fingerprint, queue_name, task_name, per_second, canary, stop_ratio,
    total)
values (%(until)s, %(by)s, %(fingerprint)s, %(queue)s, %(task)s, %(per_second)s, %(canary)s, %(stop_ratio)s, %(total)s)
returning id
"""
RUNNING = "select id from djqueue_replay where state = 'running' order by id"
LOCK = """
select id, fingerprint, queue_name, task_name, created_at, per_second, canary, stop_ratio, requeued, refused,
    succeeded, failed, credit, coalesce(extract(epoch from clock_timestamp() - ticked_at), 1)::float8, cursor_at,
    cursor_id
from djqueue_replay where id = %(id)s and state = 'running' for update skip locked
"""

# A job moves from one table to the next in one statement, so this snapshot sees each in one of them, or in none when
# its row of history is gone already. A failed attempt that is to be tried again counts as failed until it succeeds.
JUDGE = f"""
with o as materialized (
    select id, job_id, outcome from djqueue_replay_job
    where replay_id = %(id)s and outcome in ('', 'failing') order by outcome, id limit {JUDGED_AT_ONCE}),
now as (
    select o.id, o.outcome as before, case
        when j.id is not null and j.attempts > (j.state = 'leased')::int then 'failing'
        when j.id is not null then ''
        when d.id is not null then 'dead'
        else coalesce(h.outcome, v.outcome, 'gone') end as outcome
    from o left join djqueue_job j on j.id = o.job_id
    left join djqueue_dead_letter d on d.id = o.job_id
    left join lateral (select x.outcome from djqueue_history x where x.id = o.job_id limit 1) h on j.id is null
    left join lateral (select x.outcome from djqueue_history_overflow x where x.id = o.job_id limit 1) v
        on j.id is null),
changed as (
    update djqueue_replay_job r set outcome = now.outcome from now where r.id = now.id and now.outcome <> now.before)
select before, outcome, count(*) from now group by before, outcome
"""
UNKNOWN = "select count(*) from djqueue_replay_job where replay_id = %(id)s and outcome = ''"
NOTE_JOBS = """
insert into djqueue_replay_job (replay_id, job_id) select %(id)s::bigint, unnest(%(jobs)s::uuid[])
on conflict (replay_id, job_id) do update set outcome = ''
"""
WRITE = """
update djqueue_replay set state = %(state)s, reason = %(reason)s, requeued = %(requeued)s, refused = %(refused)s,
    succeeded = %(succeeded)s, failed = %(failed)s, credit = %(credit)s, cursor_at = %(cursor_at)s::timestamptz,
    cursor_id = %(cursor_id)s::uuid, ticked_at = clock_timestamp(),
    finished_at = case when %(state)s <> 'running' then clock_timestamp() end
where id = %(id)s
"""

LOOK = """
select state, reason, total, requeued, refused, succeeded, failed from djqueue_replay where id = %(id)s
"""
PAUSE = """
update djqueue_replay set state = 'paused', reason = %(reason)s where id = any(%(ids)s::bigint[]) and state = 'running'
returning id
"""
RESUME = """
update djqueue_replay set state = 'running', reason = '', ticked_at = clock_timestamp(), credit = 0
where id = any(%(ids)s::bigint[]) and state = 'paused' returning id
"""
STOP = """
update djqueue_replay set state = 'stopped', reason = %(reason)s, finished_at = clock_timestamp()
where id = any(%(ids)s::bigint[]) and state in ('running', 'paused') returning id
"""


def create(alias: str, wanted: Wanted) -> int:
    """Start a run over the letters that match at this moment; the leader of the workers drives it. Return its id."""
    if not 0 < wanted.per_second <= 10_000:
        raise ValueError(f"per_second: expected above 0 and up to 10,000, got {wanted.per_second!r}")
    if not 0 <= wanted.canary <= 10_000:
        raise ValueError(f"canary: expected 0 to 10,000 jobs, got {wanted.canary!r}")
    if not 0 <= wanted.stop_ratio <= 1:
        raise ValueError(f"stop_ratio: expected 0 to 1, got {wanted.stop_ratio!r}")
    until: datetime = wanted.letters.until or db.rows(alias, letters.NOW)[0][0]
    chosen = wanted.letters
    fixed = Letters(
        fingerprint=chosen.fingerprint, queue_name=chosen.queue_name, task_name=chosen.task_name, until=until
    )
    params = {
        "until": until,
        "by": wanted.by,
        "fingerprint": chosen.fingerprint or "",
        "queue": chosen.queue_name or "",
        "task": chosen.task_name or "",
        "per_second": float(wanted.per_second),
        "canary": wanted.canary,
        "stop_ratio": float(wanted.stop_ratio),
        "total": letters.count(alias, fixed),
    }
    return int(db.rows(alias, CREATE, params)[0][0])


def step_all(alias: str) -> list[Progress]:
    """Take the next step of each running replay."""
    steps = (step(alias, row[0]) for row in db.rows(alias, RUNNING))
    return [progress for progress in steps if progress is not None]


def step(alias: str, id_: int) -> Progress | None:
    """Take the next step of one replay; None where it does not run, or somebody else takes the step."""
    with db.one_transaction(alias):
        found = db.rows(alias, LOCK, {"id": id_})
        if not found:
            return None
        row = _row(found[0])
        succeeded, failed, unknown = _judge(alias, row)
        todo = next_step(
            Run(
                per_second=row.wanted.per_second,
                canary=row.wanted.canary,
                stop_ratio=row.wanted.stop_ratio,
                requeued=row.requeued,
                unknown=unknown,
                failed=failed,
                credit=row.credit,
                idle_seconds=row.idle_seconds,
            )
        )
        state, reason, after = "running", "", row.cursor
        done: list[UUID] = []
        refused = 0
        if todo.stop:
            state, reason = "stopped", todo.stop
        else:
            # Also where nothing is to be requeued yet: whether there is a next one tells whether this is the end.
            found_next = letters.matching(alias, row.wanted.letters, max(1, todo.count), row.cursor)
            if not found_next and unknown == 0:
                state = "finished"
            elif found_next and todo.count:
                answer = operate.requeue(alias, [each.id for each in found_next if each.id is not None])
                done, refused, after = answer.ids, len(answer.refused), found_next[-1]
                db.rows(alias, NOTE_JOBS, {"id": id_, "jobs": done})
        params = {
            "id": id_,
            "state": state,
            "reason": reason,
            "requeued": row.requeued + len(done),
            "refused": row.refused + refused,
            "succeeded": succeeded,
            "failed": failed,
            "credit": todo.credit,
            "cursor_at": after.died_at,
            "cursor_id": after.id,
        }
        db.rows(alias, WRITE, params)
    return Progress(id=id_, state=state, requeued=len(done), reason=reason)


def look(alias: str, id_: int) -> Standing | None:
    """Return how far a run is; None where there is none."""
    for state, reason, total, requeued, refused, succeeded, failed in db.rows(alias, LOOK, {"id": id_}):
        return Standing(
            id=id_,
            state=state,
            reason=reason,
            total=total,
            requeued=requeued,
            refused=refused,
            succeeded=succeeded,
            failed=failed,
        )
    return None


def pause(alias: str, ids: Sequence[int], *, reason: str = "") -> set[int]:
    """Hold running replays; return those that were."""
    return {row[0] for row in db.rows(alias, PAUSE, {"ids": list(ids), "reason": reason})}


def resume(alias: str, ids: Sequence[int]) -> set[int]:
    """Let paused replays go on; return those that were."""
    return {row[0] for row in db.rows(alias, RESUME, {"ids": list(ids)})}


def stop(alias: str, ids: Sequence[int], *, reason: str = "stopped by hand") -> set[int]:
    """End replays for good; return those that were running or paused."""
    return {row[0] for row in db.rows(alias, STOP, {"ids": list(ids), "reason": reason})}


def _judge(alias: str, row: _Row) -> tuple[int, int, int]:
    """Look how the jobs went; return how many have succeeded and failed, and of how many nothing is known."""
    gains: Counter[str] = Counter()
    for before, outcome, number in db.rows(alias, JUDGE, {"id": row.id}):
        gains[before] -= number
        gains[outcome] += number
    failed = row.failed + gains["failing"] + gains["dead"]
    unknown = int(db.rows(alias, UNKNOWN, {"id": row.id})[0][0])
    return row.succeeded + gains["succeeded"], failed, unknown


def _row(row: db.Row) -> _Row:
    (id_, fingerprint, queue, task, until, per_second, canary, stop_ratio, requeued, refused, succeeded, failed) = row[
        :12
    ]
    credit, idle_seconds, cursor_at, cursor_id = row[12:]
    chosen = Letters(fingerprint=fingerprint or None, queue_name=queue or None, task_name=task or None, until=until)
    return _Row(
        id=id_,
        wanted=Wanted(letters=chosen, per_second=per_second, canary=canary, stop_ratio=stop_ratio),
        requeued=requeued,
        refused=refused,
        succeeded=succeeded,
        failed=failed,
        credit=credit,
        idle_seconds=idle_seconds,
        cursor=Cursor(cursor_at, cursor_id),
    )
