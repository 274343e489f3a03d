"""Atomic handlers under heartbeats: the ack at the end of the handler's transaction sees the row that was extended."""

import os
import signal

import pytest
from django.db import connection

from testproject.shop.models import Counter
from testproject.trials import tasks
from tests.helpers import eventually
from tests.runtime.trial import Trial, history, rows

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_a_heartbeat_during_an_atomic_handler_costs_no_second_run(trial: Trial, level: str) -> None:
    """Whatever the database's default level: the handler's transaction itself runs at READ COMMITTED."""
    jobs = 8
    rows(f"alter database {connection.settings_dict['NAME']} set default_transaction_isolation = '{level}'")
    connection.close()
    for number in range(jobs):
        Counter.objects.create(name=f"{number}", value=0)
        tasks.count_slowly.enqueue(f"{number}", trial.file("go"))
    trial.supervisor("--threads", str(jobs), options={"lease_seconds": 3})
    trial.wait_for_starts(*(str(number) for number in range(jobs)))

    ((latest,),) = rows("select max(lease_until) from djqueue_job")
    eventually(lambda: rows("select min(lease_until) > %s from djqueue_job", latest) == [(True,)], 20)
    trial.make("go")
    trial.wait_until_done()

    assert history() == {"succeeded": jobs}
    assert rows("select distinct attempts from djqueue_history") == [(1,)]
    assert rows("select distinct value from shop_counter") == [(1,)]


@pytest.mark.parametrize("raises", ["", "ValueError", "SystemExit"])
def test_hooks_run_after_the_commit_and_undo_nothing_when_they_fail(trial: Trial, raises: str) -> None:
    """What Django's `transaction.on_commit` was told in an atomic handler."""
    Counter.objects.create(name="hooked", value=0)
    tasks.count_and_hook.enqueue("hooked", raises)
    trial.supervisor("--threads", "1")
    trial.wait_until_done()
    tasks.note.enqueue("next")
    trial.wait_until_done()

    assert trial.events("hook") == {"hooked is committed": 1}
    assert trial.events() == {"hooked": 1, "next": 1}
    assert history() == {"succeeded": 2}
    assert rows("select value from shop_counter") == [(1,)]


def test_the_sum_is_exact_while_heartbeats_pass_and_workers_are_killed(trial: Trial) -> None:
    """Promise 2, with leases so short that each handler outlives several heartbeats."""
    jobs = 12
    for number in range(jobs):
        Counter.objects.create(name=f"{number}", value=0)
        tasks.count_slowly.enqueue(f"{number}", trial.file("go"))
    supervisor = trial.supervisor("--processes", "2", "--threads", "6", options={"lease_seconds": 3})
    trial.wait_for_starts(*(str(number) for number in range(jobs)))
    eventually(lambda: rows("select count(*) from djqueue_job where started_at is not null") == [(jobs,)], 20)

    os.kill(rows("select pid from djqueue_worker limit 1")[0][0], signal.SIGKILL)
    trial.make("go")
    trial.wait_until_done(within=40)

    assert rows("select distinct value from shop_counter") == [(1,)], supervisor.output()
    assert history() == {"succeeded": jobs}
