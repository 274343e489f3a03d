"""What a fleet has carried lately, and what its server allows: what `djqueue plan` starts from.

Invariant: figures come from the minute statistics, never from jobs or history.
"""

from dataclasses import dataclass

from djqueue.store import db


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The load of the last week, or of what there is of it."""

    jobs_per_day: float
    peak: float
    """The busiest hour in relation to the mean."""
    seconds: float
    """How long a job holds a slot in all its attempts together, on average."""
    days: float
    """What these figures cover."""


# Of an attempt that is tried again only the time counts: it holds a slot, but it is no job that ends.
WEEK = """
with s as (
    select date_trunc('hour', minute) as hour, sum(count) filter (where outcome in ('succeeded', 'cancelled', 'dead'))
        as ended, sum(seconds) as seconds
    from djqueue_stat where minute > statement_timestamp() - interval '7 days' group by 1)
select coalesce(sum(ended), 0)::float8, coalesce(max(ended), 0)::float8, coalesce(sum(seconds), 0)::float8,
    greatest(extract(epoch from statement_timestamp() - min(hour)), 3600)::float8
from s
"""
MAX_CONNECTIONS = "select current_setting('max_connections')::int"


def last_week(alias: str) -> Measured | None:
    """Return the load of the last week; None where nothing has ended."""
    [(ended, busiest, seconds, covered)] = db.rows(alias, WEEK)
    if not ended:
        return None
    return Measured(
        jobs_per_day=ended / covered * 86_400,
        peak=max(1.0, busiest / 3_600 / (ended / covered)),
        seconds=seconds / ended,
        days=covered / 86_400,
    )


def max_connections(alias: str) -> int:
    """Return how many connections the server allows at the most."""
    return int(db.rows(alias, MAX_CONNECTIONS)[0][0])
