"""An old snapshot keeps dead rows from being removed ("failure by MVCC"): claims must not walk them again and again."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections

from djqueue.store import claim, db, finish
from djqueue.store.claim import Place
from tests.helpers import raw_connection
from tests.store.factories import ALIAS, load, request

pytestmark = pytest.mark.slow

JOBS = 20_000
BATCH = 500


@pytest.fixture
def loaded(committed: None) -> None:
    load(JOBS, "queue_name, run_at", f"'q', now() - interval '1 h' + n * interval '{3_000 / JOBS} s'")
    db.rows(ALIAS, "analyze djqueue_job")


@pytest.fixture
def old_snapshot(loaded: None) -> Iterator[None]:
    """Another session that began before the first claim and goes on."""
    with raw_connection() as session, session.transaction():
        session.execute("set transaction isolation level repeatable read")
        session.execute("select count(*) from djqueue_job")
        yield


def pages_of(sql: str, extra: dict[str, Any]) -> int:
    """The pages that a claim of ten touches; it is rolled back."""
    with connections[ALIAS].cursor() as cursor:
        cursor.execute("begin")
        cursor.execute(f"explain (analyze, buffers, format json) {sql}", claim.params(request(10)) | extra)
        found = cursor.fetchone()[0]
        cursor.execute("rollback")
    plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    assert plan["Actual Rows"] == 10
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def everyday(mark: float) -> dict[str, Any]:
    return {"queues": ["q"], "lanes": [""], "priorities": [0], "marks": [mark], "quotas": [BATCH]}


def drain(jobs: int, mark: float) -> float:
    """Claim and ack so many jobs as a worker does; return the last mark."""
    for _ in range(jobs // BATCH):
        with db.one_transaction(ALIAS):
            taken = claim.claimed(claim.start_claim(ALIAS, request(BATCH), [Place("q", "", 0, mark)]))
        assert len(taken) == BATCH
        mark = max(job.run_at for job in taken) - 0.25
        finish.ack(ALIAS, [finish.Ack(job.id, job.lease_token, 0, 0, "null") for job in taken])
    return mark


def test_a_claim_from_its_mark_touches_as_few_pages_after_18000_dead_rows_as_before(old_snapshot: None) -> None:
    first = pages_of(claim.CLAIM, everyday(0))

    mark = drain(JOBS - 2_000, 0)

    assert pages_of(claim.CLAIM, everyday(mark)) <= first * 1.5
    full = {"queues": ["q"], "lanes": [""], "quotas": [BATCH]}
    assert pages_of(claim.CLAIM_FULL, full) > first * 5  # what the mark spares
