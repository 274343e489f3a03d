"""Ageing at the claimer: under a steady overload of high priority low ones move, and without the option they do not."""

from collections.abc import Iterator

import pytest

from djqueue.conf import Options
from djqueue.policy.weights import QueueSelection
from djqueue.runtime.claimer import Claimer
from djqueue.runtime.plan import Plan
from djqueue.store import claim, db
from djqueue.store.claim import Claimed
from tests.live import LiveDatabase
from tests.runtime.trial import Trial, rows
from tests.store.factories import ALIAS, ack, add, bend, count

AGEING = {"queues": {"q": {"ageing_seconds": 5}}}


@pytest.fixture
def adopted_alone(live_database: LiveDatabase) -> Iterator[None]:
    db.adopt(ALIAS, prepared=True)
    yield
    db.drop(ALIAS)


def claimer(options: dict[str, object], queues: str = "q") -> Claimer:
    parsed, problems = Options.parse(options)
    assert problems == []
    selection = QueueSelection.parse(queues)
    plan = Plan(backend="default", options=parsed, selection=selection, known_queues=tuple(selection.weights))
    found = Claimer(plan, "w1")
    found.refresh()
    return found


def take(found: Claimer, limit: int) -> list[Claimed]:
    with db.one_transaction(ALIAS):
        cursor = found.start(limit, limit)
    jobs = [] if cursor is None else claim.claimed(cursor)
    if found.has_many_lanes and len(jobs) < limit:
        jobs += found.steps(limit - len(jobs), limit)
    found.learn(jobs, limit)
    return jobs


def low_ones_done(found: Claimer, seconds: int) -> int:
    """Every second twelve high ones come and ten jobs are done: 120 %. Time is told, not waited for."""
    add(5, priority=0)
    done = 0
    for _ in range(seconds):
        add(12, priority=5)
        jobs = take(found, 10)
        assert len(jobs) == 10
        done += sum(job.priority == 0 for job in jobs)
        ack(*jobs)
        bend("run_at = run_at - interval '1 s'")
    return done


def test_under_120_percent_of_high_priority_low_ones_move_by_ageing(adopted_alone: None) -> None:
    assert low_ones_done(claimer(AGEING), 40) == 5


def test_priority_is_strict_without_the_option(adopted_alone: None) -> None:
    assert low_ones_done(claimer({}), 40) == 0


def test_the_queue_s_row_goes_before_the_settings(adopted_alone: None) -> None:
    db.rows(ALIAS, "insert into djqueue_queue (name, ageing_seconds) values ('q', 1000000)")

    assert low_ones_done(claimer(AGEING), 30) == 0


def test_a_queue_with_ageing_stands_beside_others_and_is_emptied(adopted_alone: None) -> None:
    add(7, priority=3)
    add(7, priority=-3)
    add(7, queue_name="r")
    found = claimer(AGEING, "q,r")

    taken = [job for _ in range(20) for job in take(found, 2)]

    assert len(taken) == 21
    assert count(where="state = 'ready'") == 0
    assert take(found, 2) == []


def test_levels_are_each_priority_with_its_oldest_job(adopted_alone: None) -> None:
    add(3, priority=5)
    [oldest] = add(1, priority=-7)
    add(2, priority=-7)
    bend("run_at = '2020-01-01 00:00+00'", oldest)
    bend("suspect = true", add(1, priority=9)[0])
    add(1, priority=8, lane="x")

    found = claim.levels(ALIAS, "q")

    assert [level.priority for level in found] == [5, -7]
    assert found[1].since == 1_577_836_800


@pytest.mark.slow
def test_a_real_worker_runs_low_ones_among_high_ones(trial: Trial) -> None:
    from testproject.trials.tasks import note

    for number in range(200):
        note.using(priority=50).enqueue(f"high {number}")
    note.using(priority=-50).enqueue("low")
    rows("update djqueue_job set run_at = run_at - interval '1 hour' where priority = -50")
    trial.supervisor("--threads", "1", "--drain", options={"queues": {"default": {"ageing_seconds": 1}}})
    trial.wait_until_done()

    [(place,)] = rows(
        "select count(*) from djqueue_history where started_at < "
        "(select started_at from djqueue_history where priority = -50)"
    )
    assert place < 50
