"""Beside 100,000 jobs and statistics of a day, circuits and budgets read only what concerns them."""

from uuid import uuid4

import pytest

from djqueue.policy.budget import MOST_SECONDS, WINDOW_SECONDS
from djqueue.store import budget, circuits, db
from tests.store.factories import ALIAS, load

pytestmark = pytest.mark.slow


def plan(sql: str, **params: object) -> str:
    return "\n".join(row[0] for row in db.rows(ALIAS, f"explain {sql}", params))


def test_living_probes_are_found_by_their_ids(db: None) -> None:
    load(100_000, "queue_name", "'q'")
    db_rows("analyze djqueue_job")

    found = plan(circuits.PROBING, ids=[uuid4()] * 3, tokens=[1, 2, 3])

    assert "djqueue_job_pkey" in found
    assert "Seq Scan on djqueue_job" not in found


def test_a_budget_reads_two_minutes_of_the_statistics(db: None) -> None:
    db_rows(
        "insert into djqueue_stat (minute, queue_name, task_name, outcome, count) "
        "select date_trunc('minute', now()) - (n / 70) * interval '1 minute', 'q' || n % 7, 't' || n % 10, "
        "'succeeded', 1 "
        "from generate_series(1, 100000) n"
    )
    db_rows("analyze djqueue_stat")
    wishes = {"floor": 10.0, "ratio": 0.1, "window": WINDOW_SECONDS, "most": MOST_SECONDS}

    found = plan(budget.SPEND, queues=["q1"], retries=[1.0], **wishes)

    assert "djqueue_stat_key" in found
    assert "Seq Scan on djqueue_stat" not in found


def db_rows(sql: str) -> None:
    db.rows(ALIAS, sql)
