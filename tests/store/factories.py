"""Jobs made and claimed through the store, rows read and bent by plain SQL, and second parties for races."""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

import psycopg
from django.db import connections, transaction

from djqueue.policy.ids import uuid7
from djqueue.store import claim, db, enqueue, finish
from djqueue.store.claim import Claimed, Place, Request
from djqueue.store.enqueue import NewJob
from djqueue.store.finish import Ack, Ended, Failure
from djqueue.store.lease import Lease
from tests.helpers import eventually

T = TypeVar("T")

ALIAS = "default"
YEAR_1 = datetime(1, 1, 2, tzinfo=UTC)
YEAR_9999 = datetime(9999, 12, 30, tzinfo=UTC)
PARTITION_FOR_ALL = """
do $$ begin
    if exists (select from pg_partitioned_table where partrelid = 'djqueue_history'::regclass)
        and not exists (select from pg_inherits where inhparent = 'djqueue_history'::regclass)
    then create table djqueue_history_of_the_test partition of djqueue_history
        for values from (minvalue) to (maxvalue); end if;
end $$
"""
NO_PARTITIONS = """
do $$ declare partition regclass; begin
    for partition in select inhrelid from pg_inherits where inhparent = 'djqueue_history'::regclass
    loop execute format('drop table %s', partition); end loop;
end $$
"""


def new_job(**fields: Any) -> NewJob:
    """A job to be enqueued, into queue `q` for task `t` unless told otherwise."""
    return NewJob(**{"id": uuid7(), "queue_name": "q", "task_name": "t", "args": "{}", **fields})


def add(count: int = 1, **fields: Any) -> list[UUID]:
    """Enqueue so many jobs alike; return their ids in order."""
    return [answer.id for answer in enqueue.enqueue_many(ALIAS, [new_job(**fields) for _ in range(count)])]


def add_one(**fields: Any) -> UUID:
    """Enqueue one job."""
    return enqueue.enqueue(ALIAS, new_job(**fields)).id


def request(limit: int = 1, **fields: Any) -> Request:
    """A claim of so many jobs, with as many free slots, by worker `w1`."""
    return Request(**{"worker_id": "w1", "limit": limit, "free": limit, "lease_seconds": 30, **fields})


def take(limit: int = 1, *, queue: str = "q", lane: str = "", **fields: Any) -> list[Claimed]:
    """Claim by the full form from one lane."""
    return take_from([(queue, lane)], limit, **fields)


def take_from(lanes: Sequence[tuple[str, str]], limit: int = 1, **fields: Any) -> list[Claimed]:
    """Claim by the full form from several lanes."""
    connections[ALIAS].ensure_connection()
    return claim.claimed(claim.start_full_claim(ALIAS, request(limit, **fields), lanes))


def take_at(places: Sequence[Place], limit: int = 1, **fields: Any) -> list[Claimed]:
    """Claim by the everyday form."""
    connections[ALIAS].ensure_connection()
    return claim.claimed(claim.start_claim(ALIAS, request(limit, **fields), places))


def take_one(**fields: Any) -> Claimed:
    """Claim one job, which must be there."""
    [job] = take(1, **fields)
    return job


def ack(*jobs: Claimed | Lease, result: str = "null") -> set[UUID]:
    """Ack jobs that began two seconds ago and ended one second ago."""
    return finish.ack(ALIAS, [Ack(job.id, job.lease_token, 2.0, 1.0, result) for job in jobs])


def failure(job: Claimed | Lease, **fields: Any) -> Failure:
    """A failed attempt of a job."""
    return Failure(
        **{"id": job.id, "lease_token": job.lease_token, "entry": {"message": "boom"}, "errors": [], **fields}
    )


def fail(*jobs: Claimed | Lease, **fields: Any) -> dict[UUID, str]:
    """Fail jobs; return what became of them."""
    return {e.id: str(e.state) for e in failed(*jobs, **fields)}


def failed(*jobs: Claimed | Lease, **fields: Any) -> list[Ended]:
    """Fail jobs; return the store's answer."""
    return finish.fail(ALIAS, [failure(job, **fields) for job in jobs])


def lease_of(job: Claimed) -> Lease:
    """The lease of a claimed job."""
    return Lease(job.id, job.lease_token)


def stale(job: Claimed) -> Lease:
    """A lease with the token before."""
    return Lease(job.id, job.lease_token - 1)


def row(id_: UUID, columns: str = "state", table: str = "job") -> Any:
    """Columns of the row with this id: one value, a tuple of several, None without the row."""
    found = db.rows(ALIAS, f"select {columns} from djqueue_{table} where id = %(id)s", {"id": id_})
    return None if not found else found[0][0] if len(found[0]) == 1 else found[0]


def read(value: Any) -> Any:
    """A JSON column as Python values; Django's cursor returns its text."""
    return json.loads(value) if isinstance(value, str) else value


def ids_of(jobs: Sequence[Claimed]) -> list[UUID]:
    """The ids of claimed jobs, in order."""
    return [job.id for job in jobs]


def count(table: str = "job", where: str = "true") -> int:
    """How many rows a table has."""
    return int(db.rows(ALIAS, f"select count(*) from djqueue_{table} where {where}")[0][0])


def bend(what: str, id_: UUID | None = None) -> None:
    """Set columns of one job, or of all, whatever the store would say."""
    db.rows(ALIAS, f"update djqueue_job set {what} where id = coalesce(%(id)s::uuid, id)", {"id": id_})


def load(count: int, columns: str, values: str) -> None:
    """Insert so many rows straight into djqueue_job; `n` in the values counts from 1."""
    db.rows(
        ALIAS,
        f"insert into djqueue_job (id, task_name, {columns}) select gen_random_uuid(), 't', {values} "
        f"from generate_series(1, {count}) n",
    )


def everything(id_: UUID) -> Any:
    """The whole live row, to see that nothing of it changed."""
    return row(id_, "j.*", "job j")


def told(listener: psycopg.Connection) -> list[str]:
    """The queues that were notified until now. (The listener's own word comes after all that committed before.)"""
    listener.execute("notify djqueue, 'that is all'")
    heard: list[str] = []
    for notice in listener.notifies(timeout=5):
        if notice.payload == "that is all":
            return heard
        heard.append(notice.payload)
    raise AssertionError("not even the listener's own word came back")


class Party:
    """Somebody else: a thread with a Django connection of its own."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self.pid: int = self.do(lambda: db.rows(ALIAS, "select pg_backend_pid()")[0][0])

    def start(self, action: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
        """Let it begin something."""
        return self._thread.submit(action, *args, **kwargs)

    def do(self, action: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Let it do something and wait for the answer."""
        return self.start(action, *args, **kwargs).result(timeout=20)

    def begin(self) -> None:
        """Open a transaction."""
        self.do(lambda: transaction.set_autocommit(False))

    def commit(self) -> None:
        """Commit, and go on in autocommit."""
        self.do(lambda: (transaction.commit(), transaction.set_autocommit(True)))

    def rollback(self) -> None:
        """Roll back, and go on in autocommit."""
        self.do(lambda: (transaction.rollback(), transaction.set_autocommit(True)))

    def wait_until_blocked(self) -> None:
        """Return when it waits for somebody's lock."""
        eventually(
            lambda: db.rows(ALIAS, "select cardinality(pg_blocking_pids(%(pid)s)) > 0", {"pid": self.pid})[0][0],
            message="the other party does not wait",
        )

    def leave(self) -> None:
        """Close the connection and end the thread."""
        self.start(db.drop, ALIAS)
        self._thread.shutdown()


@contextmanager
def parties(count: int) -> Iterator[list[Party]]:
    """So many parties, who leave at the end."""
    found = [Party() for _ in range(count)]
    try:
        yield found
    finally:
        for party in found:
            party.leave()


def all_at_once(actions: Sequence[Callable[[], T]]) -> list[T]:
    """Run each action on a party of its own, at the same time; return the answers."""
    with parties(len(actions)) as found:
        futures = [party.start(action) for party, action in zip(found, actions, strict=True)]
        return [future.result(timeout=60) for future in futures]
