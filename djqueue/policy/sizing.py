"""How large a fleet and its database must be: the back of an envelope, behind `manage.py djqueue plan`.

Enqueues and jobs in flight are rounded to three digits, and the rest is made of what is shown, as on an envelope: who
checks them by hand gets the same. Invariant: only sums go in; what a server can do is measured elsewhere and given.
"""

import math
from dataclasses import dataclass

DAY_SECONDS = 86_400
KEEPER_CONNECTIONS = 6
"""Bookkeeping connections of a supervisor's keeper: one for each of its routines (seven with `large_args`)."""
WORKER_CONNECTIONS = 2
"""Of a worker process beside those of its handlers: one claims and acks, one listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is to be carried, and by what."""

    jobs_per_day: float
    peak: float = 4
    """The busiest time in relation to the mean."""
    seconds: float = 2
    """How long a job runs."""
    slots: int = 10
    """Jobs that one worker process runs at once."""
    row_bytes: float = 1_000
    """What a finished job takes, with its arguments and its share of the indexes."""
    days: float = 7
    """How long finished jobs are kept."""
    headroom: float = 0.3
    """Workers beyond those that the peak needs, as a share."""
    lease_seconds: float = 30
    server_operations: float = 10_000
    """Store operations per second that one server is trusted with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What follows from a load."""

    enqueues_per_second: float
    operations_per_second: float
    in_flight: float
    workers: int
    storage_bytes: float
    shards: int
    connections: int
    """Of all shards together, when every slot of every worker has one."""
    connections_per_shard: int
    """What the max_connections of a shard must allow: every worker serves every shard."""


def size(load: Load) -> Size:
    """Return what a load needs.

    - enqueues = jobs a day ÷ 86,400 · peak.
    - in flight = enqueues · seconds (Little's law, L = λW; J. D. C. Little, 1961).
    - operations = 3 · enqueues (each job is enqueued, claimed and acked) + in flight ÷ lease (each lease is renewed
      about once before it would end). They are rows touched: a claim and its acks travel in batches.
    - workers = in flight ÷ slots · (1 + headroom), rounded up.
    - storage = jobs a day · days · bytes.
    - shards = operations ÷ what a server is trusted with, rounded up.
    - connections of a shard = workers · (6 of the keeper + 2 of the worker + one per slot), a supervisor for each.
    """
    per_second = load.jobs_per_day / DAY_SECONDS * load.peak
    enqueues, in_flight = rounded(per_second), rounded(per_second * load.seconds)
    operations = rounded(3 * enqueues + in_flight / load.lease_seconds)
    workers = max(1, math.ceil(round(in_flight / load.slots * (1 + load.headroom), 6)))
    shards = max(1, math.ceil(operations / load.server_operations))
    each = workers * connections(processes=1, slots=load.slots)
    return Size(
        enqueues_per_second=enqueues,
        operations_per_second=operations,
        in_flight=in_flight,
        workers=workers,
        storage_bytes=rounded(load.jobs_per_day * load.days * load.row_bytes),
        shards=shards,
        connections=each * shards,
        connections_per_shard=each,
    )


def connections(*, processes: int, slots: int) -> int:
    """Return the most connections that a supervisor opens: its keeper's, and of each worker process its own and one
    per slot."""
    return KEEPER_CONNECTIONS + processes * (WORKER_CONNECTIONS + slots)


def rounded(number: float) -> float:
    """Round to three digits."""
    if number == 0:
        return 0.0
    return round(number, 2 - math.floor(math.log10(abs(number))))
