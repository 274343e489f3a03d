"""R10-R13: whatever a handler does, raises or leaves behind, the next job and the worker are as ever."""

import json
import sqlite3
from contextlib import closing

import pytest

from testproject.trials import tasks
from tests.helpers import eventually
from tests.runtime.trial import Trial, dead, history, rows

pytestmark = pytest.mark.slow

IDLE_IN_TRANSACTION = """select count(*) from pg_stat_activity
    where datname = current_database() and state like 'idle in transaction%'"""
FAULTS = {"open transaction", "aborted transaction", "entered atomic"}


@pytest.mark.parametrize("pool", ["", '{"min_size": 1, "max_size": 1}'], ids=["own connections", "pooled ones"])
def test_dirty_connections_harm_nobody(trial: Trial, pool: str) -> None:
    """R12: each kind of dirt, one after another on the same thread, each followed by a job that looks around."""
    for how in tasks.DIRT:
        tasks.make_dirty.enqueue(how)
        tasks.look_around.enqueue(f"after {how}")
    trial.supervisor("--threads", "1", env={"DATABASE_POOL": pool} if pool else None)
    trial.wait_until_done(within=60)

    clean = rows("select args->'args'->>0, result from djqueue_history where task_name like %s", "%look_around")
    assert {label for label, _ in clean} == {f"after {how}" for how in tasks.DIRT}
    assert len({result for _, result in clean}) == 1, clean
    assert {label for label, _, _ in dead()} == FAULTS
    assert {reason for _, reason, _ in dead()} == {"attempts used up"}


def test_handlers_share_a_pool_that_is_smaller_than_their_number(trial: Trial) -> None:
    """Connections go back after each job, and bookkeeping takes none: else most would wait for one in vain."""
    for number in range(40):
        tasks.look_around.enqueue(f"{number}")
    pool = {"min_size": 1, "max_size": 1, "timeout": 5}
    trial.supervisor("--threads", "4", env={"DATABASE_POOL": json.dumps(pool)})
    trial.wait_until_done()

    assert history() == {"succeeded": 40}


def test_a_transaction_left_open_on_a_second_database_is_rolled_back(trial: Trial) -> None:
    """R12: also where that is no PostgreSQL."""
    env = {"OTHER_DATABASE_URL": f"sqlite:///{trial.file('other.sqlite3')}"}
    tasks.leave_open_elsewhere.enqueue("left open")
    trial.supervisor("--threads", "1", env=env)
    trial.wait_until_done()
    tasks.write_elsewhere.enqueue("written")
    trial.wait_until_done()

    assert [label for label, _, _ in dead()] == ["left open"]
    assert history() == {"succeeded": 1}
    with closing(sqlite3.connect(trial.file("other.sqlite3"))) as other:
        assert other.execute("select label from written").fetchall() == [("written",)]


def test_no_connection_is_left_idle_in_transaction(trial: Trial) -> None:
    """R12"""
    tasks.make_dirty.enqueue("open transaction")
    tasks.make_dirty.enqueue("entered atomic")
    trial.supervisor("--threads", "1")
    trial.wait_until_done()

    # The keeper's own transactions come and go; what a handler had left open would stay.
    eventually(lambda: rows(IDLE_IN_TRANSACTION) == [(0,)])
    eventually(lambda: rows("select count(*) from pg_locks where locktype = 'advisory'") == [(0,)])


def test_what_a_handler_changes_in_its_thread_is_as_before_for_the_next(trial: Trial) -> None:
    """R13: language, time zone, context variables, decimal context, working folder."""
    tasks.look_around.enqueue("before")
    tasks.disorder.enqueue("disorder")
    tasks.look_around.enqueue("after")
    trial.supervisor("--threads", "1")
    trial.wait_until_done()

    found = dict(rows("select args->'args'->>0, result from djqueue_history where task_name like %s", "%look_around"))
    assert found["before"] == found["after"]


@pytest.mark.parametrize("kind", sorted(tasks.RAISED))
def test_whatever_is_raised_is_a_failed_attempt(trial: Trial, kind: str) -> None:
    """R10, R11: any BaseException, and content that no row could hold; the worker lives on."""
    tasks.throw.enqueue(kind)
    supervisor = trial.supervisor("--threads", "1")
    trial.wait_until_done()
    tasks.note.enqueue("next")
    trial.wait_until_done()

    assert [(label, attempts) for label, _, attempts in dead()] == [(kind, 1)]
    assert trial.pids("next") == trial.pids(kind), supervisor.output()


def test_a_coroutine_that_nobody_awaits_is_a_failure(trial: Trial) -> None:
    """R11"""
    tasks.forget_to_await.enqueue("forgotten")
    trial.supervisor()
    trial.wait_until_done()

    ((_, reason, _),) = dead()
    assert "attempts used up" in reason
    ((message,),) = rows("select errors->0->>'message' from djqueue_dead_letter")
    assert "coroutine" in message


def test_a_return_value_that_is_no_json_is_dead_at_once(trial: Trial) -> None:
    tasks.return_a_set.enqueue("set")
    trial.supervisor()
    trial.wait_until_done()

    ((_, reason, attempts),) = dead()
    assert attempts == 1
    assert "return value" in reason
    assert rows("select errors->0->>'exception' from djqueue_dead_letter") == [
        ("djqueue.policy.arguments.ResultInvalid",)
    ]


@pytest.mark.parametrize(
    "payload", ["[]", "null", '{"args": 5, "kwargs": {}}', '{"args": [1, 2, 3, 4], "kwargs": {}}', '{"args": []}']
)
def test_one_bad_row_in_a_batch_harms_only_itself(trial: Trial, payload: str) -> None:
    """R21"""
    tasks.note.enqueue("good before")
    bad = tasks.note.enqueue("bad")
    tasks.note.enqueue("good after")
    rows("update djqueue_job set args = %s::jsonb where id = %s", payload, bad.id)
    trial.supervisor("--threads", "1")
    trial.wait_until_done()

    assert trial.events() == {"good before": 1, "good after": 1}
    assert history() == {"succeeded": 2}
    assert rows("select id::text, attempts from djqueue_dead_letter") == [(bad.id, 1)]


@pytest.mark.parametrize("errors", ["5", "null", '{"a": 1}', '[5, "x", null]', '[{"dropped": "x"}]'])
@pytest.mark.parametrize("task", [tasks.fail, tasks.poison], ids=["failing", "lost"])
def test_rubbish_in_the_column_of_errors_stops_nobody(trial: Trial, task: object, errors: str) -> None:
    """R21: neither the worker that records a failure, nor the keeper that records a loss."""
    bad = task.using(max_attempts=1).enqueue("bad")  # type: ignore[attr-defined]
    rows("update djqueue_job set errors = %s::jsonb where id = %s", errors, bad.id)
    trial.supervisor("--threads", "1")
    trial.wait_until_done()
    tasks.note.enqueue("next")
    trial.wait_until_done()

    assert [(label, attempts) for label, _, attempts in dead()] == [("bad", 1)]
    assert trial.events() == {"bad": 1, "next": 1}


def test_handlers_end_their_jobs_with_signals_of_their_own(trial: Trial) -> None:
    for wish in ("snooze", "dead", "cancel"):
        tasks.ask.enqueue(wish, wish)
    tasks.ask.using(max_attempts=2).enqueue("retry", "retry")
    trial.supervisor("--drain").wait(within=20)

    assert dead() == [("dead", "as the test wished", 1), ("retry", "attempts used up", 2)]
    assert history() == {"cancelled": 1}
    assert rows("select args->'args'->>0, state, attempts from djqueue_job") == [("snooze", "scheduled", 0)]


def test_orphans_are_set_aside_uncharged_and_let_back(trial: Trial) -> None:
    """R22: a task that no live worker knows is never charged or killed."""
    known = tasks.note.enqueue("known later")
    rows("update djqueue_job set task_name = 'shop.tasks.of_another_deploy' where id = %s", known.id)
    supervisor = trial.supervisor()
    supervisor.wait_for_output("set aside")

    assert rows("select state, attempts, parked_for, worker_ids from djqueue_job") == [
        ("parked", 0, "task:shop.tasks.of_another_deploy", [])
    ]
    name = "testproject.trials.tasks.note"
    rows("update djqueue_job set task_name = %s, parked_for = 'task:' || %s", name, name)
    trial.wait_until_done()
    assert history() == {"succeeded": 1}
