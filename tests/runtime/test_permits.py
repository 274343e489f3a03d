"""One worker's part in the circuits, without processes: permits, what counts as a call, when it is reported."""

from collections.abc import Iterable
from typing import Any, ClassVar

import pytest

from djqueue.circuitconf import CircuitOptions
from djqueue.conf import Options
from djqueue.exceptions import Cancel, Dead, JobTimeout, Retry, Snooze
from djqueue.policy.circuit import CircuitState
from djqueue.policy.gates import Gate, gate
from djqueue.runtime import circuits as runtime
from djqueue.runtime import verdicts
from djqueue.runtime.async_loop import AsyncLoop
from djqueue.runtime.circuits import Circuits
from djqueue.runtime.executor import Executor
from djqueue.runtime.held import Held
from djqueue.runtime.outcome import NotStarted, Outcome, Succeeded
from djqueue.store import circuits as store
from djqueue.testing.standins import NoPage
from testproject.trials.partner import call
from testproject.trials.tasks import note
from tests.store.factories import ALIAS, add, take

NAME = "partner"
GATE = gate(Gate.CIRCUIT, NAME)
SETTINGS = {NAME: CircuitOptions(consecutive_failures=3, probes=2, open_seconds=60)}


class Hands:
    """What a worker gives back."""

    def __init__(self) -> None:
        self.given_back: list[Held] = []

    def give_back(self, jobs: Iterable[Held]) -> None:
        """Remember them."""
        self.given_back += jobs


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def mine(db: None, hands: Hands) -> Circuits:
    """A worker that has looked once."""
    worker = Circuits(ALIAS, SETTINGS, hands.give_back)
    worker.tick()
    return worker


def held(number: int = 1, task: Any = call, lane: str = GATE) -> list[Held]:
    add(number, lane=lane, task_name=task.module_path)
    return [Held(job, task, NoPage(), 0) for job in take(number, lane=lane)]  # type: ignore[arg-type]


def state() -> str:
    [view] = [each for each in store.look(ALIAS, [NAME], SETTINGS) if each.name == NAME]
    return str(view.state)


def end(worker: Circuits, jobs: list[Held], outcome: Outcome) -> None:
    for job in jobs:
        job.outcome = outcome
        worker.ended(job)


def outcome_of(error: BaseException, job: Held) -> Outcome:
    return verdicts.outcome_of(job, error)


def calls(worker: Circuits) -> dict[str, tuple[int, int]]:
    """Successes and failures that are not reported yet."""
    return {
        name: (sum(c.successes for c in found), sum(c.failures for c in found)) for name, found in worker._calls.items()
    }


def test_a_job_without_a_circuit_is_no_concern(db: None) -> None:
    [plain] = held(task=note, lane="")
    [ours] = held()
    [old] = held(lane="")

    assert [Circuits.concern(job) for job in (plain, ours, old)] == [False, True, True]


def test_jobs_of_a_closed_circuit_may_start_without_asking_the_database(
    mine: Circuits, hands: Hands, django_assert_num_queries: Any
) -> None:
    jobs = held(3)

    with django_assert_num_queries(0):
        assert mine.admitted(jobs) == jobs
    assert hands.given_back == []


def test_a_job_whose_permit_has_ended_is_not_started(mine: Circuits) -> None:
    [job] = mine.admitted(held())
    store.force_open(ALIAS, NAME, SETTINGS, seconds=None, reason="by hand")
    mine._look(0)
    executor = Executor(ALIAS, Options(), AsyncLoop(), lambda: False)

    assert executor.run(job) == NotStarted()
    assert not job.began


def test_of_a_half_open_circuit_s_jobs_only_its_probes_are_kept(mine: Circuits, hands: Hands) -> None:
    store.force_open(ALIAS, NAME, SETTINGS, seconds=0, reason="by hand")
    mine._look(0)
    jobs = held(4)

    assert mine.admitted(jobs) == jobs[:2]
    assert hands.given_back == jobs[2:]


def test_a_job_that_was_enqueued_before_its_task_named_the_circuit_is_counted_and_never_held_back(
    mine: Circuits, hands: Hands
) -> None:
    """No gate closes its lane: given back, it would be claimed again at once."""
    store.force_open(ALIAS, NAME, SETTINGS, seconds=None, reason="by hand")
    mine._look(0)
    jobs = held(lane="")

    assert mine.admitted(jobs) == jobs
    end(mine, jobs, Succeeded("null"))
    assert calls(mine) == {NAME: (1, 0)}


def test_what_the_database_can_not_answer_is_given_back(
    mine: Circuits, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.force_open(ALIAS, NAME, SETTINGS, seconds=None, reason="by hand")
    mine._look(0)

    def fails(*args: Any) -> Any:
        raise OSError("no connection")

    monkeypatch.setattr(store, "admit", fails)
    jobs = held(2)

    with pytest.raises(OSError, match="no connection"):
        mine.admitted(jobs)
    assert hands.given_back == jobs


class HTTPStatusError(Exception):
    """Looks like httpx's."""

    __module__ = "httpx"

    def __init__(self, status: int) -> None:
        self.response = type("Response", (), {"status_code": status, "headers": {}})()


def wrapped(error: BaseException) -> Retry:
    """A wish for a retry that comes from an error."""
    try:
        raise Retry(after=5) from error
    except Retry as retry:
        return retry


class TestVerdicts:
    FAILURES: ClassVar = [TimeoutError(), ConnectionError(), HTTPStatusError(503), HTTPStatusError(429), JobTimeout()]
    NO_CALLS: ClassVar = [ValueError(), HTTPStatusError(404), Dead("x"), Cancel("x"), Snooze(1), Retry(after=1)]

    @pytest.mark.parametrize("error", [*FAILURES, wrapped(TimeoutError())], ids=repr)
    def test_what_the_dependency_is_known_to_cause_counts_against_it(self, mine: Circuits, error: Exception) -> None:
        jobs = mine.admitted(held())
        end(mine, jobs, outcome_of(error, jobs[0]))

        assert calls(mine) == {NAME: (0, 1)}

    @pytest.mark.parametrize("error", [*NO_CALLS, wrapped(ValueError())], ids=repr)
    def test_anything_else_says_nothing_about_it(self, mine: Circuits, error: Exception) -> None:
        jobs = mine.admitted(held())
        end(mine, jobs, outcome_of(error, jobs[0]))

        assert calls(mine) == {}


def test_calls_are_reported_in_batches_and_at_once_where_they_could_open_it(
    mine: Circuits, django_assert_num_queries: Any
) -> None:
    jobs = mine.admitted(held(6))
    end(mine, jobs[:1], Succeeded("null"))
    mine.tick()  # the first report is not delayed
    end(mine, jobs[1:3], outcome_of(TimeoutError(), jobs[1]))

    with django_assert_num_queries(0):
        mine.tick()
    assert 0.5 < mine.seconds_to_next() <= runtime.REPORT_SECONDS

    end(mine, jobs[3:5], outcome_of(TimeoutError(), jobs[3]))
    mine._reported_at[NAME] -= runtime.URGENT_SECONDS
    mine.tick()
    assert state() == CircuitState.OPEN


def test_what_was_counted_is_reported_at_the_end(mine: Circuits) -> None:
    end(mine, mine.admitted(held(3)), Succeeded("null"))
    mine.tick()
    end(mine, mine.admitted(held(2)), Succeeded("null"))

    mine.flush()

    [found] = [each for each in store.listed(ALIAS, SETTINGS) if each.view.name == NAME]
    assert found.calls == 5
