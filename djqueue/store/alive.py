"""What health checks read: when workers have last looked for jobs, and whether somebody leads. It writes nothing.

Invariant: two small tables only; it costs the same however many jobs there are.
"""

from djqueue.policy.alive import WorkerLook
from djqueue.store import db

# A row that nobody has renewed for 90 s is of a worker that is gone; the leader deletes it. Workers of a release before
# say nothing of their looks: they are judged by when they were seen.
LOOKS = """
select id, host, pid, extract(epoch from clock_timestamp() - seen_at)::float8 + coalesce(looked_seconds, 0)
from djqueue_worker
where seen_at > clock_timestamp() - interval '90 s' and (%(host)s::text = '' or host = %(host)s::text) order by id
"""
LEADERLESS = """
select extract(epoch from clock_timestamp() - until)::float8 from djqueue_leader where name = 'djqueue'
"""


def looks(alias: str, host: str = "") -> list[WorkerLook]:
    """Return the workers seen lately, of one host if it is named."""
    return [
        WorkerLook(id=id_, host=where, pid=pid, looked_seconds=max(0.0, age))
        for id_, where, pid, age in db.rows(alias, LOOKS, {"host": host})
    ]


def leaderless_seconds(alias: str) -> float | None:
    """Return for how long nobody has led; negative while somebody does, None where nobody ever has."""
    found = db.rows(alias, LEADERLESS)
    return found[0][0] if found else None
