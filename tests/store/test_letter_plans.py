"""With 100,000 dead letters a batch of a cause, of a queue or of all is a walk along an index, and so is pruning."""

import pytest
from django.db import connection

from djqueue.store import db, letters, replay
from tests.store.factories import ALIAS

pytestmark = pytest.mark.slow

COUNT = 100_000
LOAD = f"""
insert into djqueue_dead_letter (id, seq, died_at, created_at, lease_token, priority, attempts, max_attempts,
    interruptions, runs, reason, fingerprint, queue_name, lane, task_name, tenant_id, on_dead, worker_ids, args, errors,
    options)
select gen_random_uuid(), n, now() - n * interval '1 s', now(), 1, 0, 1, 1, 0, 1, 'x', 'cause ' || n % 1000,
    'q' || n % 100, '', 't', '', 'skip', '{{}}', '{{}}', '[]', '{{}}'
from generate_series(1, {COUNT}) n
"""
BASE = {
    "until": "2100-01-01",
    "died_at": None,
    "id": None,
    "task": None,
    "fingerprint": None,
    "queue": None,
    "limit": 100,
}


@pytest.fixture
def many(db: None) -> None:
    """The letters, and statistics about them."""
    with connection.cursor() as cursor:
        cursor.execute(LOAD)
        cursor.execute("analyze djqueue_dead_letter")


def plan(sql: str, **params: object) -> str:
    return "\n".join(row[0] for row in db.rows(ALIAS, f"explain {sql}", {**BASE, **params}))


@pytest.mark.parametrize(
    ("sql", "params", "index"),
    [
        (letters.MATCH, {}, "djqueue_dead_letter_died"),
        (letters.MATCH_CAUSE, {"fingerprint": "cause 7"}, "djqueue_dead_letter_cause"),
        (letters.MATCH_QUEUE, {"queue": "q7"}, "djqueue_dead_letter_queue"),
        (letters.PRUNE, {"days": 1}, "djqueue_dead_letter_died"),
    ],
    ids=["all", "cause", "queue", "prune"],
)
def test_a_batch_of_letters_is_found_by_an_index(many: None, sql: str, params: dict[str, object], index: str) -> None:
    found = plan(sql, **params)

    assert index in found
    assert "Seq Scan on djqueue_dead_letter" not in found


def test_a_look_at_a_replay_s_jobs_reads_those_only(many: None) -> None:
    db.rows(
        ALIAS,
        "insert into djqueue_replay_job (replay_id, job_id, outcome) select n % 10, gen_random_uuid(), "
        f"case when n % 1000 = 0 then '' else 'succeeded' end from generate_series(1, {COUNT}) n",
    )
    db.rows(ALIAS, "analyze djqueue_replay_job")

    assert "djqueue_replay_job_open" in plan(replay.JUDGE, id=0)
