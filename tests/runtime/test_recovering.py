"""The keeper's duties by themselves, on a live database: what becomes of jobs whose worker can't say it any more."""

import threading
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest

from djqueue.conf import Options
from djqueue.policy.weights import QueueSelection
from djqueue.runtime.duty import Routine
from djqueue.runtime.heartbeat import Heartbeat
from djqueue.runtime.plan import Plan
from djqueue.runtime.recovering import Promote, Reap, Suspects
from djqueue.runtime.settle import Settle
from djqueue.runtime.slot_table import (
    BEAT,
    ENDED_AT,
    EXIT_CODE,
    PROGRESS,
    REPLACE,
    STATUS,
    SUSPECTS_WAIT,
    WHY,
    Kind,
    Page,
    PageStatus,
    SlotTable,
    Why,
    now_ns,
)
from djqueue.store import db, workers
from djqueue.store.claim import Claimed
from tests.helpers import eventually
from tests.store.factories import ALIAS, Party, add, add_one, bend, parties, row, take

pytestmark = pytest.mark.usefixtures("live_database")

SECOND = 1_000_000_000


@pytest.fixture
def table() -> SlotTable:
    return SlotTable.inherited(3)


@pytest.fixture
def page(table: SlotTable) -> Page:
    """A page of a worker that runs."""
    page = table.pages[0]
    page.assign(uuid4(), Kind.WORKER)
    page.set(STATUS, PageStatus.RUNNING)
    return page


@pytest.fixture
def other() -> Iterator[Party]:
    with parties(1) as [party]:
        yield party


def plan(queues: str = "*", **options: object) -> Plan:
    return Plan(
        backend="default",
        options=Options(**options),  # type: ignore[arg-type]
        selection=QueueSelection.parse(queues),
        known_queues=("default",),
    )


def settle(table: SlotTable, **options: object) -> Settle:
    return Settle(plan(**options), table, lambda: None)


def held(page: Page, count: int = 1, **fields: object) -> list[Claimed]:
    """Jobs that the page's worker has claimed and written into the table."""
    add(count, **fields)
    jobs = take(count, worker_id=page.worker_id)
    for index, job in enumerate(jobs):
        page.hold(index, job.id, job.lease_token)
    return jobs


def start(page: Page, index: int, seconds_left: float = 300) -> None:
    page.start(index, now_ns(), now_ns() + int(seconds_left * SECOND))


def end(page: Page, code: int = -9, why: Why = Why.DIED, seconds_ago: float = 0) -> None:
    """Let the page's process have ended."""
    page.set(WHY, why)
    page.set(EXIT_CODE, code)
    page.set(ENDED_AT, now_ns() - int(seconds_ago * SECOND))
    page.set(STATUS, PageStatus.ENDED)


def account(job: Claimed) -> tuple[object, ...]:
    return row(job.id, "state, attempts, interruptions, suspect")  # type: ignore[no-any-return]


# ------------------------------------------------------------------------------------------------ settle


def test_a_killed_worker_is_charged_for_what_had_started_alone(table: SlotTable, page: Page) -> None:
    """R3: waiting, running, returned but not acked, and claimed without having been heard of."""
    waiting, running, returned, unheard = held(page, 4)
    start(page, 1)
    start(page, 2)
    page.end(2)
    page.let_go(3)
    end(page)

    settle(table).tick()

    assert account(waiting) == account(unheard) == ("ready", 0, 0, False)
    assert account(running) == account(returned) == ("ready", 1, 0, True)
    assert page.status is PageStatus.FREE


def test_to_settle_twice_changes_nothing_more(table: SlotTable, page: Page) -> None:
    """R2: a keeper died between the commit and the note that it had settled."""
    jobs = held(page, 2)
    start(page, 0)
    end(page)
    settle(table).tick()
    before = [account(job) for job in jobs]
    end(page)

    settle(table).tick()

    assert [account(job) for job in jobs] == before


def test_what_a_stop_cuts_short_is_uncharged_even_beside_a_handler_past_its_limit(table: SlotTable, page: Page) -> None:
    """R6: the neighbour of a handler that can't be ended is innocent; the handler itself ran into its limit."""
    neighbour, culprit = held(page, 2)
    start(page, 0)
    start(page, 1, seconds_left=-1)
    end(page, why=Why.STOPPED)

    settle(table, retry_base_seconds=0).tick()

    assert account(neighbour) == ("ready", 0, 1, False)
    assert account(culprit) == ("ready", 1, 0, False)


def test_a_limit_that_passes_after_the_workers_end_is_no_timeout(table: SlotTable, page: Page) -> None:
    """R5: the keeper could not reach the database for a while; what matters is when the process was killed."""
    neighbour, culprit = held(page, 2, max_attempts=1)
    start(page, 0, seconds_left=-1)
    start(page, 1, seconds_left=-10)
    end(page, why=Why.TIMEOUT, seconds_ago=5)

    settle(table).tick()

    reasons = dict(db.rows(ALIAS, "select id, reason from djqueue_dead_letter"))
    assert reasons == {neighbour.id: "worker lost: signal 9", culprit.id: "timeout"}


def test_a_row_that_is_locked_is_settled_later_and_keeps_nobody_waiting(
    table: SlotTable, page: Page, other: Party
) -> None:
    locked, free = held(page, 2)
    end(page)
    other.begin()
    other.do(db.rows, ALIAS, "select from djqueue_job where id = %s for update", (locked.id,))
    duty = settle(table)

    again_in = duty.tick()

    assert again_in < 0.5
    assert (account(free)[0], account(locked)[0], page.status) == ("ready", "leased", PageStatus.ENDED)
    other.commit()
    duty.tick()
    assert (account(locked), page.status) == (("ready", 0, 0, False), PageStatus.FREE)


def test_a_claim_that_a_dead_workers_session_still_carried_out_is_given_back_uncharged(
    table: SlotTable, page: Page
) -> None:
    """R3: killed between sending the claim and its commit; no job dies without having started."""
    worker_id = page.worker_id
    end(page)
    duty = settle(table)
    duty.tick()
    add_one(max_attempts=1)
    [late] = take(1, worker_id=worker_id)

    eventually(lambda: duty.tick() and account(late)[0] == "ready", within=3)

    assert account(late) == ("ready", 0, 0, False)
    eventually(lambda: duty.tick() and duty.is_quiet, within=3)


def test_a_worker_that_ended_by_itself_is_not_looked_after_any_more(table: SlotTable, page: Page) -> None:
    end(page, code=0)
    duty = settle(table)

    assert duty.tick() == 1.0
    assert duty.is_quiet


# ------------------------------------------------------------------------------------------------ reap and promote


def test_the_reaper_leaves_the_parent_a_moment_to_end_a_job_past_its_limit(page: Page) -> None:
    """R6: also without a grace period nothing is given away while its code can run."""
    [job] = held(page, 1, timeout_seconds=1.0, max_attempts=1)
    duty = Reap(plan(grace_seconds=0), lambda: None)
    bend("started_at = clock_timestamp() - interval '2 s'", job.id)
    duty.tick()
    assert account(job)[0] == "leased"

    bend("started_at = clock_timestamp() - interval '7 s'", job.id)
    duty.tick()

    assert db.rows(ALIAS, "select reason from djqueue_dead_letter") == [("timeout",)]


def test_after_a_standstill_heartbeats_come_before_the_reaper(page: Page) -> None:
    """A frozen tree, a suspended machine: leases have run out because nobody was awake, in one tick only."""
    [job] = held(page, 1)
    duty = Reap(plan(), lambda: None)
    duty.tick()
    bend("lease_until = clock_timestamp() - interval '1 s'", job.id)
    duty._expected_at -= 60

    assert duty.tick() == Reap.after_outage_seconds
    assert account(job)[0] == "leased"

    duty.tick()
    assert account(job)[0] != "leased"


def test_after_an_outage_heartbeats_come_before_the_reaper(page: Page) -> None:
    """R19: a database that was away for longer than a lease costs no second run."""
    [job] = held(page)
    started: list[float] = []
    seen: list[str] = []

    class Breaks:
        name = "breaks"

        def tick(self) -> float:
            started.append(time.monotonic())
            if len(started) == 1:
                bend("lease_until = clock_timestamp() - interval '1 s'", job.id)
                db.rows(ALIAS, "select pg_terminate_backend(pg_backend_pid())")
            seen.append(str(row(job.id)))
            return 0.1

    reap = Reap(plan(), lambda: None)
    reap.after_outage_seconds = 1.5
    routine = Routine("test", ALIAS, [Breaks(), reap], prepared=True, on_fatal=pytest.fail)
    routine.start()
    eventually(lambda: "ready" in seen, within=10)
    routine.stop()
    assert routine.join(5)

    assert seen.count("leased") >= 3


def test_a_job_that_is_due_is_promoted_and_the_next_look_is_when_the_next_one_is() -> None:
    first, second = add(2, delay_seconds=60)
    bend("run_at = clock_timestamp() - interval '1 s'", first)
    bend("run_at = clock_timestamp() + interval '0.5 s'", second)

    again_in = Promote(plan()).tick()

    assert (row(first), row(second)) == ("ready", "scheduled")
    assert 0 < again_in <= 0.5


# ------------------------------------------------------------------------------------------------ suspects


@pytest.mark.parametrize(
    ("queues", "paused", "wanted"), [("*", False, 1), ("*", True, 0), ("q:2", False, 1), ("other", False, 0)]
)
def test_a_worker_for_suspects_is_wanted_for_queues_that_are_served_and_not_paused(
    table: SlotTable, queues: str, paused: bool, wanted: int
) -> None:
    bend("suspect = true", add_one())
    if paused:
        db.rows(ALIAS, "insert into djqueue_queue (name, paused_until) values ('q', 'infinity')")

    Suspects(plan(queues), table, lambda: None).tick()

    assert table.get(SUSPECTS_WAIT) == wanted


# ------------------------------------------------------------------------------------------------ heartbeat


def lease_is_longer(job: Claimed) -> bool:
    return bool(db.rows(ALIAS, "select lease_until > clock_timestamp() + interval '5 s' from djqueue_job")[0][0])


def beat(table: SlotTable, **options: object) -> Heartbeat:
    return Heartbeat(plan(**options), table, lambda: None)


@pytest.fixture
def short(page: Page) -> Claimed:
    """A job of the page whose lease is about to end."""
    [job] = held(page)
    bend("lease_until = clock_timestamp() + interval '2 s'", job.id)
    return job


def test_jobs_that_wait_run_or_have_returned_are_extended(table: SlotTable, page: Page, short: Claimed) -> None:
    """R4"""
    duty = beat(table)
    for step in (lambda: None, lambda: start(page, 0), lambda: page.end(0)):
        step()
        bend("lease_until = clock_timestamp() + interval '2 s'", short.id)
        duty.tick()
        assert lease_is_longer(short)


def test_a_job_past_its_limit_and_the_grace_is_extended_no_more(table: SlotTable, page: Page, short: Claimed) -> None:
    """R2: however alive its process is."""
    start(page, 0, seconds_left=-26)

    beat(table).tick()

    assert not lease_is_longer(short)


def test_a_worker_without_progress_loses_what_waits_and_is_replaced(
    table: SlotTable, page: Page, short: Claimed
) -> None:
    """R4"""
    stand_still(page, 31)

    beat(table).tick()

    assert account(short) == ("ready", 0, 0, False)
    assert page.get(REPLACE) == 1


def test_a_keeper_that_stood_still_itself_judges_nobody(table: SlotTable, page: Page, short: Claimed) -> None:
    """A machine that was suspended, or a whole tree that was stopped, comes back as it was."""
    duty = beat(table, lease_seconds=3)
    stand_still(page, 31)
    duty._ticked_at -= 31

    duty.tick()

    assert (account(short)[0], page.get(REPLACE)) == ("leased", 0)


def test_a_worker_may_take_longer_than_a_lease_to_start(table: SlotTable, page: Page) -> None:
    page.set(STATUS, PageStatus.STARTING)
    stand_still(page, 31)
    duty = beat(table)
    duty.tick()
    assert page.get(REPLACE) == 0

    stand_still(page, 61)
    duty.tick()

    assert page.get(REPLACE) == 1


def test_a_locked_worker_row_does_not_stop_the_heartbeat(
    table: SlotTable, page: Page, short: Claimed, other: Party
) -> None:
    """R4: leases must not run out because somebody looks at the fleet with FOR UPDATE."""
    register(page.worker_id)
    other.begin()
    other.do(db.rows, ALIAS, "select from djqueue_worker for update")
    db.rows(ALIAS, "set lock_timeout = '2s'")

    beat(table).tick()

    assert lease_is_longer(short)
    other.commit()


def test_a_thousand_held_jobs_are_extended_in_one_beat(table: SlotTable, page: Page) -> None:
    held(page, 1_000)
    bend("lease_until = clock_timestamp() + interval '2 s'")

    beat(table).tick()

    assert db.rows(
        ALIAS, "select count(*) from djqueue_job where lease_until > clock_timestamp() + interval '5 s'"
    ) == [(1_000,)]


def stand_still(page: Page, seconds: float) -> None:
    for word in (BEAT, PROGRESS):
        page.set(word, now_ns() - int(seconds * SECOND))


def register(worker_id: str) -> None:
    info = workers.WorkerInfo(
        id=worker_id,
        supervisor_id="s",
        host="h",
        pid=1,
        version="1",
        slots=1,
        queues=["*"],
        task_names=[],
        tasks_hash="",
    )
    workers.register(ALIAS, info)


# ------------------------------------------------------------------------------------------------ routines


def test_a_routine_that_waits_for_the_database_without_end_is_cut_off_and_connects_again(other: Party) -> None:
    """R4: a lock that is never let go, or a network that swallows everything."""
    other.do(db.rows, ALIAS, "select pg_advisory_lock(77)")
    ticks: list[int] = []
    cut = threading.Event()

    class Waits:
        name = "waits"

        def tick(self) -> float:
            ticks.append(1)
            if not cut.is_set():
                db.rows(ALIAS, "select pg_advisory_lock(77)")
            return 60.0

    routine = Routine("waits", ALIAS, [Waits()], prepared=True, on_fatal=pytest.fail)
    routine.start()
    eventually(lambda: ticks == [1])
    eventually(
        lambda: db.rows(ALIAS, "select count(*) from pg_locks where locktype = 'advisory' and not granted")[0][0]
    )
    routine.cut_if_stuck(60)
    cut.set()
    routine.cut_if_stuck(0)

    eventually(lambda: ticks == [1, 1], within=5)
    routine.stop()
    assert routine.join(5)
