"""Progress and checkpoints, as handlers give them and attempts find them."""

import uuid
from typing import Any

import pytest
from django.db import connection

from djqueue.runtime.account import CHECKPOINT_BYTES
from djqueue.store import operate, progress
from djqueue.store.lease import Lease
from djqueue.testing import run_jobs
from testproject.trials import long

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def ledger_file(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIALS_LEDGER", str(tmp_path / "ledger"))


def column(sql: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def test_another_attempt_finds_what_the_one_before_has_saved() -> None:
    job = long.saves.enqueue({"page": 7}, fail=True)

    run_jobs(due_now=True)

    job.refresh()
    assert job.return_value == {"page": 7}


def test_progress_is_written_at_most_once_a_second_with_the_databases_moment() -> None:
    long.saves.enqueue(1, fail=True)

    run_jobs(limit=1)

    assert column('select progress - \'at\' = \'{"done": 1, "total": 4, "message": ""}\' from djqueue_job')
    assert column("select (progress->>'at')::timestamptz <= clock_timestamp() from djqueue_job")


def test_a_checkpoint_is_rolled_back_with_its_transaction_and_outlives_death_and_requeue() -> None:
    job = long.takes_back.enqueue()
    run_jobs()
    assert column("select checkpoint #>> '{}' from djqueue_dead_letter") == "kept"

    operate.requeue("default", [uuid.UUID(job.id)])

    assert column("select checkpoint #>> '{}' from djqueue_job") == "kept"


def test_a_checkpoint_in_an_atomic_task_is_refused() -> None:
    job = long.saves_atomically.enqueue()

    run_jobs()

    job.refresh()
    assert "expected a task without atomic=True" in job.errors[0].traceback


def test_a_checkpoint_that_is_too_large_is_refused_with_the_limit() -> None:
    job = long.saves.using(max_attempts=1).enqueue("x" * CHECKPOINT_BYTES)

    run_jobs()

    job.refresh()
    assert f"expected at most {CHECKPOINT_BYTES:,} bytes of JSON" in job.errors[0].traceback


def test_a_stale_token_writes_neither_progress_nor_checkpoint() -> None:
    """R1"""
    job = long.saves.enqueue(1)
    stale = Lease(uuid.UUID(job.id), 1)

    progress.tell("default", stale, "{}", apart=True)

    assert not progress.save("default", stale, "1")
    assert progress.load("default", stale) is None
    assert column("select progress is null and checkpoint is null from djqueue_job")


def test_async_handlers_have_twins_that_do_not_block_the_loop() -> None:
    job = long.saves_async.enqueue([1, 2])

    run_jobs(due_now=True)

    job.refresh()
    assert job.return_value == [1, 2]
