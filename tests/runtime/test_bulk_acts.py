"""Acts on many jobs, worked off by real workers to their end, also when all of them are killed in the middle."""

import json

import pytest

from djqueue.policy.search import parse
from djqueue.store import bulk
from djqueue.store.bulk import Act, Wanted
from tests.helpers import eventually
from tests.runtime.trial import Trial, dead, history, live, rows

pytestmark = pytest.mark.slow

LETTERS = 10_000
FILL = """
insert into djqueue_dead_letter (id, seq, died_at, created_at, lease_token, priority, attempts, max_attempts,
    interruptions, runs, reason, queue_name, lane, task_name, tenant_id, on_dead, worker_ids, args, errors, options)
select gen_random_uuid(), n, now(), now(), n, 0, 8, 8, 0, 1, 'r', %s, '', 'testproject.shop.tasks.noop', '', 'skip',
    '{}', %s::jsonb, '[]', '{}'
from generate_series(1, %s) n
"""
ARGS = json.dumps({"args": [], "kwargs": {}})


def state_of(id_: int) -> tuple[object, ...]:
    """Where an act stands."""
    return rows("select state, done, refused::text, error from djqueue_bulk_act where id = %s", id_)[0]


def test_ten_thousand_dead_letters_are_requeued_in_one_act_across_a_kill_of_all_workers(trial: Trial) -> None:
    """The queue that they go to is served by nobody, so that none can leave it before it is counted."""
    rows(FILL, "images", ARGS, LETTERS)
    rows(FILL, "emails", ARGS, 1)
    act = bulk.create("default", Wanted(act=Act.REQUEUE, search=parse("queue:images")))
    workers = trial.supervisor("--queues", "default")
    eventually(lambda: state_of(act)[1] > 0, 30, message=lambda: str(state_of(act)))  # type: ignore[operator]
    workers.kill_tree()

    trial.supervisor("--queues", "default")
    eventually(lambda: state_of(act)[0] != "running", 90, message=lambda: str(state_of(act)))

    assert state_of(act) == ("finished", LETTERS, "{}", "")
    assert len(live()) == LETTERS
    assert len(dead()) == 1


def test_what_was_requeued_by_an_act_runs(trial: Trial) -> None:
    rows(FILL, "default", ARGS, 50)
    act = bulk.create("default", Wanted(act=Act.REQUEUE))

    trial.supervisor()
    trial.wait_until_done(60)
    eventually(lambda: history().get("succeeded") == 50, 60, message=lambda: str(history()))

    assert state_of(act)[:2] == ("finished", 50)
