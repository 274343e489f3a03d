"""The retry budget of each queue: one row that all workers raise, by the database's clock.

Invariant: counting retries makes no job wait for longer than one statement of another worker takes.
"""

from collections.abc import Mapping
from typing import NamedTuple

from djqueue.policy.budget import MOST_SECONDS, WINDOW_SECONDS, BudgetOptions
from djqueue.store import db


class Spent(NamedTuple):
    """Where a queue's budget stood before the retries that were counted now."""

    queue_name: str
    level: float
    per_second: float


class Standing(NamedTuple):
    """What a queue's budget has done so far."""

    per_second: float
    retries: int
    pushed: int
    pushed_seconds_ago: float | None


# Throughput: what succeeded within the last minute, by the statistics of this minute and a share of the one before.
# The level falls by the rate since the last look and rises by what comes now; `policy.budget` says what that means.
SPEND = """
insert into djqueue_retry_budget as b (queue_name, level, level_at, per_second, retries, pushed, pushed_at)
select u.queue_name, u.retries, clock_timestamp(), r.rate, u.retries, p.pushed,
    case when p.pushed > 0 then clock_timestamp() end
from unnest(%(queues)s::text[], %(retries)s::float8[]) u(queue_name, retries)
cross join lateral (
    select %(floor)s::float8 + %(ratio)s::float8 / %(window)s::float8 * coalesce(sum(s.count * case
        when s.minute = date_trunc('minute', statement_timestamp()) then 1
        else 1 - extract(second from statement_timestamp()) / 60 end), 0)::float8 as rate
    from djqueue_stat s where s.minute >= date_trunc('minute', statement_timestamp()) - interval '1 minute'
        and s.queue_name = u.queue_name and s.outcome = 'succeeded') r
cross join lateral (select ceil(greatest(0, u.retries - r.rate * %(window)s::float8))::bigint as pushed) p
order by u.queue_name collate "C"
on conflict (queue_name) do update
set (level, level_at, per_second, retries, pushed, pushed_at) = (
    select y.level, greatest(b.level_at, excluded.level_at), excluded.per_second, b.retries + excluded.retries,
        b.pushed + y.pushed, case when y.pushed > 0 then clock_timestamp() else b.pushed_at end
    from (select least(excluded.per_second * (%(window)s::float8 + %(most)s::float8), excluded.retries + greatest(0,
        b.level - excluded.per_second * greatest(0, extract(epoch from excluded.level_at - b.level_at)::float8)))
        as level) x
    cross join lateral (select x.level, least(excluded.retries,
        ceil(greatest(0, x.level - excluded.per_second * %(window)s::float8)))::bigint as pushed) y)
returning queue_name, level, per_second
"""
STANDING = """
select per_second, retries, pushed, extract(epoch from clock_timestamp() - pushed_at)::float8
from djqueue_retry_budget where queue_name = %(queue)s
"""


def spend(alias: str, retries: Mapping[str, int], options: BudgetOptions) -> list[Spent]:
    """Count retries by queue; return the level that each queue had before them, and what its budget allows."""
    params = {
        "queues": list(retries),
        "retries": [float(number) for number in retries.values()],
        "floor": float(options.floor_per_second),
        "ratio": float(options.ratio),
        "window": WINDOW_SECONDS,
        "most": MOST_SECONDS,
    }
    found = db.rows(alias, SPEND, params)
    return [Spent(name, level - retries[name], rate) for name, level, rate in found]


def standing(alias: str, queue_name: str) -> Standing | None:
    """Return what a queue's budget has done; None where nothing was ever retried."""
    found = db.rows(alias, STANDING, {"queue": queue_name})
    return Standing(*found[0]) if found else None
