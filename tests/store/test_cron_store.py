"""Cron statements: a nominal time of a name makes at most one job (R17), by the database's clock (R16)."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from django.db import Error, IntegrityError, connections, transaction

from djqueue.policy.cronfires import Outcome
from djqueue.policy.ids import uuid7
from djqueue.store import cron, cronfire, db
from djqueue.store.cronfire import Fire
from djqueue.store.enqueue import NewJob, enqueue
from tests.helpers import BLOCKED, eventually, raw_connection

pytestmark = pytest.mark.usefixtures("live_database")

NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
TEN = NINE + HOUR


def create(name: str = "nightly", next_fire_at: datetime | None = NINE) -> cron.Entry:
    db.rows(
        "default",
        "insert into djqueue_cron_entry (name, schedule, task_name, next_fire_at, changed_at) "
        "values (%(name)s, '0 * * * *', 'noop', %(at)s, now())",
        {"name": name, "at": next_fire_at},
    )
    return entry(name)


def entry(name: str = "nightly") -> cron.Entry:
    return next(entry for entry in entries() if entry.name == name)


def entries() -> list[cron.Entry]:
    return cron.read("default", [each.id for each in cron.look("default")])


def set_all(**values: object) -> None:
    """Change every entry, as SQL may."""
    for column, value in values.items():
        db.rows("default", f"update djqueue_cron_entry set {column} = %(value)s", {"value": value})


def job(queue_name: str = "default", dedupe_key: str | None = None) -> cronfire.Enqueue:
    def write(fires: Sequence[Fire]) -> list[UUID]:
        new = NewJob(id=uuid7(), queue_name=queue_name, task_name="noop", args="{}", dedupe_key=dedupe_key)
        return [enqueue("default", replace(new, id=uuid7())).id for _ in fires]

    return write


def fire(found: cron.Entry, *ats: datetime) -> UUID | None:
    """Fire for some times; return the last job, if there is one."""
    fires = [Fire(entry=found, at=at) for at in ats or (NINE,)]
    fired, _ = cronfire.fire("default", fires, job())
    return next((each.job_id for each in reversed(fired) if each.job_id), None)


def settle(found: cron.Entry, next_fire_at: datetime | None, error: str = "") -> bool:
    plan = cron.Settled(id=found.id, version=found.version, next_fire_at=next_fire_at, error=error)
    return bool(cron.settle("default", [plan]))


def memories() -> list[tuple[str, datetime]]:
    return db.rows("default", "select name, last_fire_at from djqueue_cron_memory")  # type: ignore[return-value]


def outcomes() -> list[tuple[datetime, str, UUID | None]]:
    return db.rows("default", "select fire_at, outcome, job_id from djqueue_cron_fire order by fire_at")  # type: ignore[return-value]


def end(job_id: UUID | None) -> None:
    db.rows("default", "delete from djqueue_job where id = %(id)s", {"id": job_id})


def jobs() -> set[UUID]:
    return {id_ for (id_,) in db.rows("default", "select id from djqueue_job")}


def fires() -> list[tuple[str, datetime, UUID]]:
    return db.rows("default", "select name, fire_at, job_id from djqueue_cron_fire order by id")  # type: ignore[return-value]


def elsewhere(action: Callable[[], object]) -> threading.Thread:
    def run() -> None:
        try:
            action()
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_an_entry_is_read_with_what_its_name_remembers() -> None:
    db.rows("default", "insert into djqueue_cron_memory values ('nightly', %(at)s)", {"at": NINE})

    found = create(next_fire_at=TEN)

    assert (found.schedule, found.timezone, found.task_name) == ("0 * * * *", "UTC", "noop")
    assert (found.args, found.kwargs, found.queue_name) == ("[]", "{}", "")
    assert (found.next_fire_at, found.last_fire_at) == (TEN, NINE)


def test_entries_that_are_switched_off_are_not_read_and_lose_their_plan() -> None:
    create()
    db.rows("default", "update djqueue_cron_entry set enabled = false")

    cron.forget_disabled("default")

    assert entries() == cron.look("default") == []
    assert db.rows("default", "select next_fire_at from djqueue_cron_entry") == [(None,)]


def test_a_fire_is_a_job_a_row_and_a_memory_and_the_entry_knows_its_job() -> None:
    job_id = fire(create())

    assert jobs() == {job_id}
    assert fires() == [("nightly", NINE, job_id)]
    assert memories() == [("nightly", NINE)]
    assert (entry().last_job_id, entry().last_fire_at) == (job_id, NINE)


def test_the_new_version_of_what_fired_is_told_so_that_its_plan_can_be_written() -> None:
    found = create()
    _, versions = cronfire.fire("default", [Fire(entry=found, at=NINE)], job())

    assert versions == {found.id: entry().version}
    assert settle(replace(found, version=versions[found.id]), TEN)
    assert entry().next_fire_at == TEN


def test_many_entries_fire_in_one_transaction_and_those_that_were_edited_are_left_out() -> None:
    found = [create(f"entry {number}") for number in range(5)]
    db.rows("default", "update djqueue_cron_entry set args = '[1]' where name = 'entry 3'")

    fired, _ = cronfire.fire("default", [Fire(entry=each, at=NINE) for each in found], job())

    assert [each.fire.entry.name for each in fired] == ["entry 0", "entry 1", "entry 2", "entry 4"]
    assert {each.job_id for each in fired} == jobs()


def test_several_times_of_an_entry_are_several_jobs() -> None:
    fire(create(), NINE, TEN)

    assert [fired[1] for fired in fires()] == [NINE, TEN]
    assert len(jobs()) == 2
    assert memories() == [("nightly", TEN)]


def test_r17_of_several_times_those_that_were_answered_before_are_left_out() -> None:
    found = create()
    fire(found)
    db.rows("default", "delete from djqueue_cron_fire")

    fire(entry(), NINE, TEN)

    assert [fired[1] for fired in fires()] == [TEN]
    assert len(jobs()) == 2


def test_a_missed_time_is_answered_without_a_job() -> None:
    cronfire.fire("default", [Fire(entry=create(), at=NINE, outcome=Outcome.MISSED)], job())

    assert outcomes() == [(NINE, "missed", None)]
    assert memories() == [("nightly", NINE)]
    assert jobs() == set()


def test_overlap_skip_makes_no_job_while_the_last_is_unfinished() -> None:
    create()
    set_all(overlap="skip")
    first = fire(entry())

    assert fire(entry(), TEN) is None
    end(first)
    second = fire(entry(), TEN + HOUR)

    assert outcomes() == [(NINE, "enqueued", first), (TEN, "overlapped", None), (TEN + HOUR, "enqueued", second)]


def test_overlap_queue_one_keeps_one_fire_until_the_last_job_has_ended() -> None:
    create()
    set_all(overlap="queue_one")
    first = fire(entry())
    fire(entry(), TEN)
    fire(entry(), TEN + HOUR)

    assert [each.can_leave_queue for each in cron.look("default")] == [False]
    assert cronfire.leave_queue("default", [entry()], job()) == []
    end(first)
    assert [each.can_leave_queue for each in cron.look("default")] == [True]
    (left,) = cronfire.leave_queue("default", [entry()], job())

    assert jobs() == {left.job_id}
    assert outcomes() == [
        (NINE, "enqueued", first),
        (TEN, "replaced", None),
        (TEN + HOUR, "enqueued", left.job_id),
    ]
    assert (entry().queued_fire_at, entry().last_job_id) == (None, left.job_id)
    assert cronfire.leave_queue("default", [entry()], job()) == []


def test_r17_two_leaders_let_one_job_out_of_the_queue() -> None:
    create()
    set_all(overlap="queue_one")
    first = fire(entry())
    fire(entry(), TEN)
    end(first)
    stale = entry()

    assert len(cronfire.leave_queue("default", [stale], job())) == 1
    assert cronfire.leave_queue("default", [stale], job()) == []
    assert len(jobs()) == 1


def test_r17_switching_off_drops_what_waits() -> None:
    create()
    set_all(overlap="queue_one")
    first = fire(entry())
    fire(entry(), TEN)
    set_all(enabled=False)
    end(first)

    cron.forget_disabled("default")
    set_all(enabled=True)

    assert entry().queued_fire_at is None
    assert outcomes()[1] == (TEN, "dropped", None)
    assert cronfire.leave_queue("default", [entry()], job()) == []


def test_a_fire_by_hand_leaves_plan_and_memory_alone() -> None:
    found = create()

    fired = cronfire.fire_by_hand("default", found, job())

    assert jobs() == {fired.job_id}
    assert memories() == []
    assert [each[1:] for each in outcomes()] == [("manual", fired.job_id)]
    assert entry().next_fire_at == NINE


def test_an_entry_that_its_code_no_longer_declares_is_off() -> None:
    found = create()
    db.rows("default", "update djqueue_cron_entry set removed_at = now()")

    assert entries() == []
    assert fire(found) is None
    cron.forget_disabled("default")
    assert cron.look("default") == []


@pytest.mark.parametrize(
    "values",
    [{"missed": "sometimes"}, {"overlap": "maybe"}, {"jitter_seconds": -1}, {"missed_max": 0}, {"grace_seconds": -1}],
)
def test_policies_that_there_are_not_can_not_be_stored(values: dict[str, object]) -> None:
    create()
    with pytest.raises(IntegrityError):
        set_all(**values)


def test_a_fire_that_can_not_be_written_leaves_nothing() -> None:
    found = create()

    with pytest.raises(Error):
        cronfire.fire("default", [Fire(entry=found, at=NINE)], job(queue_name="x" * 101))

    assert (jobs(), fires(), memories()) == (set(), [], [])
    assert entry().next_fire_at == NINE


def test_r17_a_second_leader_with_a_stale_view_fires_nothing() -> None:
    stale = create()
    first = fire(entry())

    assert fire(stale) is None
    assert jobs() == {first}


def test_r17_leaders_at_once_make_one_job() -> None:
    found = create()
    start = threading.Barrier(4)

    def compete(_: int) -> UUID | None:
        try:
            start.wait()
            return fire(found)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(compete, range(4)))

    assert len([answer for answer in answers if answer]) == len(jobs()) == len(fires()) == 1


def test_r17_delete_and_create_again_fires_nothing_twice_also_after_pruning() -> None:
    first = fire(create())
    db.rows("default", "delete from djqueue_cron_entry")
    db.rows("default", "update djqueue_cron_fire set fired_at = now() - interval '91 days'")
    assert cron.prune_fires("default") == 1

    assert fire(create()) is None
    assert jobs() == {first}


def test_r17_the_memory_never_goes_back() -> None:
    fire(create(next_fire_at=TEN), TEN)

    assert fire(entry(), NINE) is None
    assert memories() == [("nightly", TEN)]


def test_r17_a_fire_row_alone_is_enough_to_refuse() -> None:
    fire(create())
    db.rows("default", "delete from djqueue_cron_memory")

    assert fire(entry()) is None
    assert len(jobs()) == 1


@pytest.mark.parametrize(
    "change",
    [
        "delete from djqueue_cron_entry",
        "update djqueue_cron_entry set enabled = false",
        "update djqueue_cron_entry set schedule = '5 * * * *'",
        "update djqueue_cron_entry set args = '[1]'",
    ],
)
def test_r17_a_change_counts_from_its_commit(change: str) -> None:
    found = create()
    db.rows("default", change)

    assert fire(found) is None
    assert jobs() == set()


def test_r17_a_change_that_commits_while_the_fire_looks_counts_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fire's snapshot is older than the change, and it must wait for the row: it has to look at the new version."""
    found = create()
    monkeypatch.setattr(cronfire, "HOLD", cronfire.HOLD.replace("skip locked", ""))
    answers: list[UUID | None] = []

    with raw_connection() as other, transaction.atomic():
        db.rows("default", "update djqueue_cron_entry set args = '[1]'")
        waiting = elsewhere(lambda: answers.append(fire(found)))
        eventually(lambda: other.execute(BLOCKED).fetchall())
    waiting.join()

    assert answers == [None]
    assert jobs() == set()


def test_an_entry_that_somebody_edits_holds_nobody_up() -> None:
    edited = create("edited")
    free = create("free")
    with raw_connection() as other, other.transaction():
        other.execute("select from djqueue_cron_entry where name = 'edited' for update")

        assert fire(edited) is None
        assert fire(free) is not None
        cron.forget_disabled("default")

    assert fire(edited) is not None


def test_a_fire_whose_dedupe_key_is_taken_names_the_job_that_holds_it() -> None:
    create()
    for at in (NINE, TEN):
        cronfire.fire("default", [Fire(entry=entry(), at=at)], job(dedupe_key="one at a time"))

    (first,) = jobs()
    assert [fired[1:] for fired in fires()] == [(NINE, first), (TEN, first)]


def test_settle_writes_plan_and_error_and_only_to_the_version_that_was_read() -> None:
    found = create(next_fire_at=None)

    assert settle(found, TEN, "unknown task")
    assert (entry().next_fire_at, entry().last_error) == (TEN, "unknown task")
    assert not settle(found, NINE)
    assert entry().next_fire_at == TEN


def test_only_old_fires_are_pruned() -> None:
    fire(create())
    fire(entry(), TEN)
    db.rows(
        "default",
        "update djqueue_cron_fire set fired_at = now() - interval '91 days' where fire_at = %(at)s",
        {"at": NINE},
    )

    assert cron.prune_fires("default") == 1
    assert [fired[1] for fired in fires()] == [TEN]
