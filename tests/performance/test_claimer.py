"""A worker's claims: queues with and without lanes, each in its turn, until nothing is left and it knows so."""

from collections import Counter
from collections.abc import Iterator

import pytest

from djqueue.conf import Options
from djqueue.policy.weights import QueueSelection
from djqueue.runtime.claimer import Claimer
from djqueue.runtime.plan import Plan
from djqueue.store import claim, db
from djqueue.store.claim import Claimed
from tests.store.factories import ALIAS, count, load

LANE = "'t' || lpad(to_hex(n), 16, '0')"


@pytest.fixture(autouse=True)
def adopted_for_claims(committed: None) -> Iterator[None]:
    db.adopt(ALIAS, prepared=False)
    yield
    db.drop(ALIAS)


def claimer(queues: str = "q", **options: object) -> Claimer:
    parsed, problems = Options.parse(options)
    assert problems == []
    selection = QueueSelection.parse(queues)
    plan = Plan(backend="default", options=parsed, selection=selection, known_queues=tuple(selection.weights))
    found = Claimer(plan, "w1")
    found.refresh()
    return found


def turn(found: Claimer, limit: int, free: int | None = None) -> tuple[list[Claimed], bool]:
    """One exchange of a worker: the jobs, and whether nothing more is claimable."""
    free = limit if free is None else free
    with db.one_transaction(ALIAS):
        cursor = found.start(limit, free)
    jobs = [] if cursor is None else claim.claimed(cursor)
    if found.has_many_lanes and len(jobs) < limit:
        jobs += found.steps(limit - len(jobs), free)
    return jobs, found.learn(jobs, limit)


def drain(found: Claimer, limit: int) -> list[list[Claimed]]:
    """Claim until the claimer says that there is nothing more."""
    turns: list[list[Claimed]] = []
    while True:
        jobs, nothing_more = turn(found, limit)
        turns.append(jobs)
        assert len(jobs) <= limit
        assert len(turns) < 1_000
        if nothing_more:
            return turns


def close(gate: str) -> None:
    db.rows(ALIAS, "insert into djqueue_lane (queue_name, lane, closed_until) values ('', %s, 'infinity')", [gate])


@pytest.mark.parametrize("limit", [1, 7, 100, 500])
def test_everything_in_every_lane_is_claimed_once_before_the_claimer_says_that_there_is_nothing_more(
    limit: int,
) -> None:
    load(60, "queue_name", "'q'")
    load(300, "queue_name, lane", f"'q', {LANE}")
    load(200, "queue_name, lane", "'q', 't0000000000000007'")
    load(50, "queue_name", "'plain'")

    turns = drain(claimer("q,plain"), limit)

    ids = [job.id for jobs in turns for job in jobs]
    assert len(ids) == len(set(ids)) == 610
    assert count(where="state = 'ready'") == 0


def test_an_idle_claimer_says_so_after_one_turn_and_finds_what_comes_later() -> None:
    found = claimer()
    assert turn(found, 5) == ([], True)

    load(3, "queue_name, lane", f"'q', {LANE}")
    found.refresh()

    assert sum(len(jobs) for jobs in drain(found, 5)) == 3
    assert count(where="state = 'leased'") == 3


def test_no_form_of_a_claim_takes_a_job_from_behind_a_closed_gate() -> None:
    load(40, "queue_name", "'q'")
    load(40, "queue_name, lane", "'q', 'c0123456789abcdef'")
    load(40, "queue_name, lane", "'q', 'c0123456789abcdef:t' || lpad(to_hex(n), 16, '0')")
    load(5, "queue_name, lane", "'q', 'c0123456789abcdee:t' || lpad(to_hex(n), 16, '0')")
    close("c0123456789abcdef")

    taken = [job.lane for jobs in drain(claimer(), 10) for job in jobs]

    assert Counter(lane[:17] for lane in taken) == {"": 40, "c0123456789abcdee": 5}


def test_one_lane_with_many_jobs_does_not_delay_the_others_beyond_two_rounds() -> None:
    load(5_000, "queue_name, lane", "'q', 't0000000000000001'")
    load(99, "queue_name, lane", "'q', 't' || lpad(to_hex(n + 1), 16, '0')")
    found = claimer()

    jobs = [job for _ in range(2 * 100 // 10) for job in turn(found, 10)[0]]

    assert len({job.lane for job in jobs}) == 100


def test_jobs_without_a_lane_and_jobs_with_one_come_first_in_turn() -> None:
    load(2_000, "queue_name", "'q'")
    load(2_000, "queue_name, lane", "'q', 't' || lpad(to_hex(n % 50), 16, '0')")
    found = claimer()

    jobs = [job for _ in range(100) for job in turn(found, 10)[0]]

    assert 250 < sum(job.lane == "" for job in jobs) < 750


def test_a_full_batch_comes_from_few_lanes_too() -> None:
    load(3_000, "queue_name, lane", "'q', 't' || lpad(to_hex(n % 3), 16, '0')")
    found = claimer()
    turn(found, 100)  # learns how many lanes there are

    assert len(turn(found, 100)[0]) == 100


def test_free_slots_that_the_start_has_filled_are_not_given_away_twice() -> None:
    load(3, "queue_name, max_attempts", "'a', 1")
    load(3, "queue_name, lane, max_attempts", "'b', 't0000000000000001', 1")

    jobs, _ = turn(claimer("a,b"), 10, free=4)

    assert len(jobs) <= 4
