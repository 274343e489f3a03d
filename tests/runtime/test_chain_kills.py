"""Chains under kill -9: the middle step dies, is requeued, and every step takes effect exactly once."""

import random
import uuid

import pytest

from djqueue import chain
from djqueue.store import operate
from testproject.trials.long import count
from tests.helpers import eventually
from tests.runtime.test_kill import kill_one_of
from tests.runtime.trial import Trial, history, rows

pytestmark = pytest.mark.slow

CHAINS = 40
OPTIONS = {"lease_seconds": 3, "task_modules": ["testproject.trials.long"]}


def test_atomic_steps_take_effect_once_and_in_order_under_kills_though_the_middle_died_first(trial: Trial) -> None:
    rng = random.Random()
    for number in range(CHAINS):
        chain(*(count.s(number, step, trial.file("mended")) for step in range(3))).enqueue()
    supervisor = trial.supervisor("--processes", "2", "--threads", "2", options=OPTIONS)
    for at in (5, 15, 30):
        eventually(lambda at=at: done() >= at, 60)
        eventually(lambda: kill_one_of(rows("select pid from djqueue_worker"), rng), 20, supervisor.output)
    eventually(lambda: len(rows("select id from djqueue_dead_letter")) == CHAINS, 60)
    assert history() == {"succeeded": CHAINS}

    trial.make("mended")
    operate.requeue("default", [uuid.UUID(str(id_)) for (id_,) in rows("select id from djqueue_dead_letter")])
    for at in (CHAINS + 10, CHAINS + 40):
        eventually(lambda at=at: done() >= at, 60)
        eventually(lambda: kill_one_of(rows("select pid from djqueue_worker"), rng), 20, supervisor.output)
    trial.wait_until_done(within=60)

    assert history() == {"succeeded": 3 * CHAINS}
    assert rows("select value, count(*) from shop_counter where name like '%%:%%' group by 1") == [(1, 3 * CHAINS)]


def done() -> int:
    return int(rows("select count(*) from djqueue_history")[0][0])
