"""Waiting for a job: its end, the end of patience, and a transaction in which it could never start."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from asgiref.sync import sync_to_async
from django.db import connections, transaction

from djqueue import JobResult, TransactionError, WaitTimeout
from djqueue.testing import run_jobs
from testproject.shop.tasks import noop

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def running() -> Iterator[None]:
    """Let another thread run the jobs meanwhile."""

    def run() -> None:
        run_jobs()
        connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join()


async def wait_and_disconnect(job: JobResult) -> None:
    """Wait, and leave no connection of the loop's own thread behind."""
    await job.wait_async(20)
    await sync_to_async(connections.close_all, thread_sensitive=True)()


def test_it_returns_when_the_job_has_ended() -> None:
    job = noop.enqueue()

    with running():
        assert job.wait(20) is job

    assert job.is_finished


def test_it_returns_on_an_event_loop_too() -> None:
    job = noop.enqueue()

    with running():
        asyncio.run(wait_and_disconnect(job))

    assert job.is_finished


def test_out_of_patience_it_says_in_which_state_the_job_is() -> None:
    job = noop.enqueue()

    with pytest.raises(WaitTimeout, match="still READY") as caught:
        job.wait(0)

    assert (caught.value.status, caught.value.job_id) == ("READY", job.id)


def test_it_refuses_to_wait_in_an_open_transaction() -> None:
    with transaction.atomic():
        job = noop.enqueue()
        with pytest.raises(TransactionError, match="can't start before it is committed"):
            job.wait(20)
