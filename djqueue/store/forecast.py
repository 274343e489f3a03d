"""What each queue holds and what left it lately, for forecasts: from its summary row and the minute statistics.

Invariant: no job is read. The window is as long as the oldest ready job has waited, one to fifteen minutes: so long the
queue has had more than it could do, and what left it meanwhile is what it can do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from djqueue.policy.forecast import Flow, Forecast, forecast
from djqueue.store import db

LEAST_SECONDS = 60
MOST_SECONDS = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueNow:
    """A queue's figures as of `summary_at`, and what follows from them."""

    name: str
    ready: int
    scheduled: int
    parked: int
    leased: int
    oldest_ready_seconds: float | None
    """How long the oldest ready job has waited; None: none is ready."""
    summary_seconds: float | None
    """The age of these figures; None: nobody has counted yet."""
    paused_until: datetime | None
    """If that is ahead."""
    forecast: Forecast


# The minutes are a range of the index of statistics; a queue that has statistics for a part of the window only is
# measured over that part.
FLOWS = f"""
with q as materialized (
    select name, ready, scheduled, parked, leased, oldest_ready_at, summary_at,
        case when paused_until > statement_timestamp() then paused_until end as paused_until,
        statement_timestamp() - make_interval(secs => least({MOST_SECONDS}, greatest({LEAST_SECONDS},
            extract(epoch from statement_timestamp() - oldest_ready_at)::float8))) as since
    from djqueue_queue where cardinality(%(names)s::text[]) = 0 or name = any(%(names)s::text[])),
s as materialized (
    select q.name, min(x.minute) as first, sum(x.count) filter (where x.outcome <> all(%(goes_on)s::text[])) as left_it,
        sum(x.seconds) as busy
    from djqueue_stat x join q on q.name = x.queue_name
    where x.minute >= date_trunc('minute', statement_timestamp() - interval '{MOST_SECONDS} s')
        and x.minute >= date_trunc('minute', q.since)
    group by q.name)
select q.name, q.ready, q.scheduled, q.parked, q.leased,
    extract(epoch from statement_timestamp() - q.oldest_ready_at)::float8,
    extract(epoch from statement_timestamp() - q.summary_at)::float8, q.paused_until,
    coalesce(s.left_it, 0)::bigint, coalesce(s.busy, 0)::float8,
    extract(epoch from statement_timestamp() - greatest(s.first, date_trunc('minute', q.since)))::float8
from q left join s on s.name = q.name order by q.name
"""

GOES_ON = ("scheduled", "ready", "lost", "")
"""Outcomes of attempts after which the job is still there, or was somebody else's."""


def queues(alias: str, names: Sequence[str] = ()) -> list[QueueNow]:
    """Return the figures and forecasts of these queues, or of all that have a row, by name."""
    found = db.rows(alias, FLOWS, {"names": list(names), "goes_on": list(GOES_ON)})
    return [_queue(row) for row in found]


def of_queue(alias: str, name: str) -> QueueNow | None:
    """Return the figures and the forecast of one queue, if it has a row."""
    return next(iter(queues(alias, [name])), None)


def _queue(row: db.Row) -> QueueNow:
    name, ready, scheduled, parked, leased, oldest, age, paused_until, left, busy, window = row
    flow = Flow(ready=ready, leased=leased, left=left, busy_seconds=busy, window_seconds=window or LEAST_SECONDS)
    return QueueNow(
        name=name,
        ready=ready,
        scheduled=scheduled,
        parked=parked,
        leased=leased,
        oldest_ready_seconds=None if oldest is None else max(0.0, oldest),
        summary_seconds=age,
        paused_until=paused_until,
        forecast=forecast(flow),
    )
