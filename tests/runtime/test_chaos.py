"""`runworker --chaos`: jobs run twice, processes die after the effect, and every job ends well all the same."""

import re

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import override_settings

from djqueue.runtime.start import Wishes, make_plan
from testproject.shop.models import Counter as Total
from testproject.trials import isolated, tasks
from tests.runtime.trial import Trial, dead, history, rows

pytestmark = pytest.mark.slow

JOBS = 30


@pytest.mark.parametrize("isolation", [None, "process"])
def test_jobs_run_twice_and_lose_their_process_and_all_of_them_end_well(trial: Trial, isolation: str | None) -> None:
    """Atomic effects happen once each; the others can tell by the ledger that they ran more often."""
    Total.objects.create(name="sum", value=0)
    tasks.count.enqueue_many([("sum",)] * JOBS)
    tasks.note.enqueue_many([(f"note {number}",) for number in range(JOBS)])
    queues = {"default": {"isolation": isolation}}
    options = {"allow_chaos": True, "queues": queues, "task_modules": [isolated.MODULE]}
    supervisor = trial.supervisor("--chaos", "0.5", options=options)
    trial.wait_until_done(within=60)

    output = supervisor.output()
    assert "chaos: of all jobs 0.5 run twice" in output
    assert Total.objects.get(name="sum").value == JOBS
    assert (history(), dead()) == ({"succeeded": 2 * JOBS}, [])
    twice = set(re.findall(r"chaos, delivered twice job=(\S+)", output))
    killed = set(re.findall(r"chaos, killing the process after the effect job=(\S+)", output))
    assert twice
    assert killed
    again = {str(id_) for (id_,) in rows("select id from djqueue_history where attempts > 1")}
    assert killed <= again
    assert trial.events().total() > 2 * JOBS + len(twice)
    assert ("worker ended" in output) is (isolation is None)


def test_a_job_on_its_last_attempt_is_left_alone_and_so_is_its_process(trial: Trial) -> None:
    tasks.hold.using(max_attempts=1).enqueue("last", trial.file("go"))
    supervisor = trial.supervisor("--chaos", "1", options={"allow_chaos": True})
    trial.wait_for_starts("last")
    tasks.note.enqueue_many([(f"note {number}",) for number in range(JOBS)])
    trial.wait_for_starts(*(f"note {number}" for number in range(JOBS)))
    trial.make("go")
    trial.wait_until_done()

    assert trial.events()["last"] == 1
    assert (history(), dead()) == ({"succeeded": JOBS + 1}, [])
    assert "worker ended" not in supervisor.output()[: supervisor.output().rindex("chaos, delivered")]


def test_chaos_is_refused_where_nobody_has_allowed_it() -> None:
    with pytest.raises(CommandError, match=r"--chaos: expected DEBUG or OPTIONS\['allow_chaos'\] to be True"):
        call_command("runworker", chaos=0.05)
    with override_settings(DEBUG=True):
        assert make_plan(Wishes(chaos=0.05)).chaos == 0.05


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_chaos_is_a_share(share: float) -> None:
    with pytest.raises(CommandError, match="--chaos: expected a share from 0 to 1"):
        call_command("runworker", chaos=share)
