"""Retries beyond the budget with real workers: pushed later, counted, told of, and none lost."""

from typing import Any

import pytest

from testproject.trials.partner import stumble
from tests.helpers import eventually
from tests.runtime.trial import Trial, dead, rows

pytestmark = pytest.mark.slow

JOBS = 10
PUSHED = """select count(*) from djqueue_job where state = 'scheduled' and run_at > clock_timestamp() + interval '10 s'
    and errors->-1 ? 'pushed_seconds'"""


def options(**changed: Any) -> dict[str, Any]:
    """One retry in twenty seconds, so three within a minute."""
    budget = {"retry_budget_ratio": 0, "retry_budget_floor": 0.05}
    return {"task_modules": ["testproject.trials.partner"], **budget, **changed}


def test_retries_beyond_the_budget_are_pushed_later_and_none_is_lost(trial: Trial) -> None:
    for number in range(JOBS):
        stumble.enqueue(f"job {number}")
    supervisor = trial.supervisor("--threads", "2", options=options())

    eventually(lambda: rows(PUSHED) == [(JOBS,)], within=20, message=lambda: str(rows("select * from djqueue_job")))

    [(retries, pushed)] = rows("select retries, pushed from djqueue_retry_budget")
    assert retries == trial.events().total() <= JOBS + 4
    assert pushed == JOBS
    assert not dead()
    assert "retries beyond the budget are pushed later queue=default" in supervisor.output()


def test_what_will_not_be_tried_again_costs_nothing(trial: Trial) -> None:
    stumble.using(max_attempts=1).enqueue("once")
    trial.supervisor("--threads", "2", options=options())

    trial.wait_until_done()
    assert rows("select * from djqueue_retry_budget") == []


def test_without_a_budget_nothing_is_counted_or_pushed(trial: Trial) -> None:
    stumble.using(max_attempts=30).enqueue("often")
    trial.supervisor("--threads", "2", options=options(retry_budget_ratio=None))

    trial.wait_until_done(within=60)
    assert trial.events()["often"] == 30
    assert rows("select * from djqueue_retry_budget") == []
