"""A worker's claims: queues with and without lanes, each in its turn, until nothing is left and it knows so."""

from collections import Counter
from collections.abc import Iterator

import pytest

from djqueue.conf import Options
from djqueue.policy.fair import Pool, pools_of
from djqueue.policy.gates import Gate, gate, queue_gate
from djqueue.policy.weights import QueueSelection
from djqueue.runtime.claimer import Claimer
from djqueue.runtime.plan import Plan
from djqueue.store import claim, db, limits, tenants
from djqueue.store.claim import Claimed
from djqueue.store.tenants import Used
from tests.store.factories import ALIAS, add, count, load

LANE = "'t' || lpad(to_hex(n), 16, '0')"


@pytest.fixture(autouse=True)
def adopted_for_claims(committed: None) -> Iterator[None]:
    db.adopt(ALIAS, prepared=False)
    yield
    db.drop(ALIAS)


def claimer(queues: str = "q", *, pool: str = "", **settings: object) -> Claimer:
    parsed, problems = Options.parse({"queues": {"q": settings}})
    assert problems == []
    selection = QueueSelection.parse(queues)
    plan = Plan(
        backend="default",
        options=parsed,
        selection=selection,
        known_queues=tuple(selection.weights),
        pool=Pool.parse(pool) if pool else None,
    )
    found = Claimer(plan, "w1")
    found.refresh()
    return found


def row(values: str) -> None:
    db.rows(ALIAS, f"insert into djqueue_queue (name, {values.split('=')[0]}) values ('q', {values.split('=')[1]})")


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


# ------------------------------------------------------------------------------------------------ limits


def limited_by(key: str, most: int) -> dict[str, str]:
    return {
        "lane": gate(Gate.CONCURRENCY, f"key {key}"),
        "options": f'{{"limits": {{"k": {{"label": "key {key}", "most": {most}}}}}}}',
    }


def test_a_claimer_that_meets_a_limiter_takes_locks_from_then_on_and_keeps_the_limit() -> None:
    add(20, **limited_by("a", 3))
    add(20, **limited_by("b", 2))
    add(5)
    found = claimer()

    taken = Counter(job.lane for jobs in drain(found, 50) for job in jobs)

    assert sorted(taken.values()) == [2, 3, 5]


@pytest.mark.parametrize("said", ["in the settings", "in the row"])
def test_a_queue_runs_no_more_jobs_than_it_may_whatever_their_lanes(said: str) -> None:
    load(50, "queue_name", "'q'")
    load(50, "queue_name, lane", f"'q', {LANE}")
    if said == "in the row":
        row("max_running = 7")

    found = claimer(max_running=7 if said == "in the settings" else 100)

    assert sum(len(jobs) for jobs in drain(found, 20)) == 7


@pytest.mark.parametrize("lane", ["''", LANE])
def test_a_limit_that_people_gave_a_queue_counts_though_nothing_declares_one(lane: str) -> None:
    load(50, "queue_name, lane", f"'q', {lane}")
    limits.set_limit(ALIAS, queue_gate("q"), label="queue q", running=3)

    assert sum(len(jobs) for jobs in drain(claimer(), 20)) == 3


def test_a_queue_that_is_paused_by_its_limit_alone_starts_nothing_until_it_is_resumed() -> None:
    load(5, "queue_name", "'q'")
    limits.set_limit(ALIAS, queue_gate("q"), label="queue q")
    limits.pause(ALIAS, [queue_gate("q")], seconds=3600)
    found = claimer()
    assert not any(drain(found, 5))

    limits.resume(ALIAS, [queue_gate("q")])
    found.refresh()
    assert sum(len(jobs) for jobs in drain(found, 5)) == 5


def test_a_limit_that_was_changed_in_the_row_counts_after_the_next_look_at_the_settings() -> None:
    load(50, "queue_name", "'q'")
    row("max_running = 2")
    found = claimer()
    drain(found, 10)

    db.rows(ALIAS, "update djqueue_queue set max_running = 5")
    found.refresh()
    drain(found, 10)
    assert count(where="state = 'leased'") == 5

    db.rows(ALIAS, "update djqueue_queue set max_running = null")
    found.refresh()
    drain(found, 10)
    assert count(where="state = 'leased'") == 50


def test_a_rate_limit_of_a_row_that_nobody_understands_stops_nobody() -> None:
    load(5, "queue_name", "'q'")
    row("rate_limit = 'often'")

    assert sum(len(jobs) for jobs in drain(claimer(), 10)) == 5


def test_a_rate_limit_of_a_queue_lets_its_burst_through() -> None:
    load(50, "queue_name", "'q'")
    row("rate_limit = '4/d'")

    assert sum(len(jobs) for jobs in drain(claimer(), 10)) == 1


def test_tenants_keep_to_the_queues_cap_or_their_own() -> None:
    for tenant in ("small", "big"):
        add(30, lane=gate(Gate.TENANT, tenant), tenant_id=tenant)
    tenants.set_tenant(ALIAS, "q", "big", max_running=9)

    taken = drain(claimer(tenant_max_running=4), 20)

    assert Counter(job.tenant_id for jobs in taken for job in jobs) == {"small": 4, "big": 9}


def test_the_pools_of_a_tenant_and_no_others_claim_its_jobs() -> None:
    names = [f"tenant {n}" for n in range(60)]
    for name in names:
        add(2, lane=gate(Gate.TENANT, name), tenant_id=name)
    add(3)

    seen: dict[str, set[int]] = {}
    for number in range(1, 5):
        for job in (job for jobs in drain(claimer(pool=f"{number}/4:2"), 500) for job in jobs):
            seen.setdefault(job.tenant_id, set()).add(number)
        db.rows(ALIAS, "update djqueue_job set state = 'ready', lease_until = null, leased_by = null, attempts = 0")

    assert seen.pop("") == {1, 2, 3, 4}
    assert {name: tuple(sorted(pools)) for name, pools in seen.items()} == {name: pools_of(name, 4) for name in names}


def test_in_a_weighted_queue_the_tenant_that_has_had_least_for_its_weight_comes_first() -> None:
    for tenant in ("light", "heavy"):
        add(20, lane=gate(Gate.TENANT, tenant), tenant_id=tenant)
    tenants.set_tenant(ALIAS, "q", "heavy", tier="pro")
    tenants.advance(ALIAS, [Used("q", "light", 1, 10.0), Used("q", "heavy", 1, 30.0)], '{"q": {"pro": 4}}')
    found = claimer(fair="weighted", tiers={"pro": 4})

    jobs, _ = turn(found, 1)

    assert [job.tenant_id for job in jobs] == ["heavy"]  # 30 ÷ 4 is less than 10
