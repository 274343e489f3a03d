"""The floor: psycopg running djqueue's own statements, and nothing around them.

Enqueue one row per commit, many by unnest; drain by claim and ack, 100 jobs at a time in one pipelined transaction.
"""

import json
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.compare import ledger
from benchmarks.compare.peers import base, djqueue

BATCH = 100

ONE = """
insert into djqueue_job (id, queue_name, task_name, args)
values (%s, 'default', 'benchmarks.compare.djqueue_tasks.noop', %s::jsonb)
"""
MANY = """
insert into djqueue_job (id, queue_name, task_name, args)
select id, 'default', 'benchmarks.compare.djqueue_tasks.noop', args from unnest(%s::uuid[], %s::jsonb[]) x(id, args)
"""


class Client:
    """Inserts rows by psycopg alone."""

    statement = MANY

    def open(self) -> None:
        """Connect."""
        import psycopg

        from djqueue.policy.ids import uuid7

        self._id = uuid7
        self._connection = psycopg.connect(base.dsn(), autocommit=True)
        self._connection.prepare_threshold = 0

    def one(self, number: int, task: str) -> Any:
        """Insert and commit one row."""
        self._connection.execute(ONE, (self._id(), _args(number)))

    def many(self, numbers: Sequence[int], task: str) -> Any:
        """Insert rows by unnest, 1,000 per statement, in one transaction."""
        with self._connection.transaction():
            for first in range(0, len(numbers), 1_000):
                chunk = numbers[first : first + 1_000]
                self._connection.execute(MANY, ([self._id() for _ in chunk], [_args(n) for n in chunk]))

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()


def _args(number: int) -> str:
    return json.dumps({"args": [number], "kwargs": {}})


def worker(processes: int, concurrency: int, task: str) -> None:
    """Claim and ack until SIGTERM."""
    djqueue.start_django()
    from djqueue.store import claim, db, finish

    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    db.adopt("default", prepared=True)
    request = claim.Request(worker_id=f"bare {os.getpid()}", limit=BATCH, free=BATCH, lease_seconds=30)
    acks: list[finish.Ack] = []
    while not stopping or acks:
        claimed = None
        with db.together("default"):
            if acks:
                finish.start_ack("default", acks, 0)
            if not stopping:
                claimed = claim.start_full_claim("default", request, [("default", "")])
        jobs = claim.claimed(claimed) if claimed is not None else []
        if jobs:
            ledger.write_all(json.loads(job.args)["args"][0] for job in jobs)
        elif not stopping:
            time.sleep(0.01)
        acks = [finish.Ack(job.id, job.lease_token, 0, 0, "null") for job in jobs]


PEER = base.Peer(
    name="bare",
    label="floor: psycopg, the bare statements",
    package="psycopg",
    client=Client,
    setup=djqueue.setup,
    worker=worker,
    settings="one row per commit; unnest 1,000 rows per statement; claim and ack 100 per transaction",
    guess=9_000,
    left=djqueue.PEER.left,
    finished=djqueue.FINISHED,
    scheduled="",
    claim=djqueue.PEER.claim,
)

if __name__ == "__main__":
    base.run(PEER)
