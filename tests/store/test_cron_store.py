"""Cron statements: a nominal time of a name makes at most one job (R17), by the database's clock (R16)."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from django.db import Error, connections, transaction

from djqueue.policy.ids import uuid7
from djqueue.store import cron, db
from djqueue.store.enqueue import NewJob, enqueue
from tests.helpers import eventually, raw_connection

pytestmark = pytest.mark.usefixtures("live_database")

NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)
TEN = NINE + timedelta(hours=1)


def create(name: str = "nightly", next_fire_at: datetime | None = NINE) -> cron.Entry:
    db.rows(
        "default",
        "insert into djqueue_cron_entry (name, schedule, task_name, next_fire_at, changed_at) "
        "values (%(name)s, '0 * * * *', 'noop', %(at)s, now())",
        {"name": name, "at": next_fire_at},
    )
    return entry(name)


def entry(name: str = "nightly") -> cron.Entry:
    return next(entry for entry in cron.entries("default") if entry.name == name)


def job(queue_name: str = "default", dedupe_key: str | None = None) -> Callable[[], UUID]:
    new = NewJob(id=uuid7(), queue_name=queue_name, task_name="noop", args="{}", dedupe_key=dedupe_key)
    return lambda: enqueue("default", new).id


def fire(found: cron.Entry, fire_at: datetime = NINE, next_fire_at: datetime = TEN) -> UUID | None:
    return cron.fire("default", found, fire_at, next_fire_at, job())


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

    assert cron.entries("default") == []
    assert db.rows("default", "select next_fire_at from djqueue_cron_entry") == [(None,)]


def test_a_fire_is_a_job_a_row_a_memory_and_the_next_plan() -> None:
    job_id = fire(create())

    assert jobs() == {job_id}
    assert fires() == [("nightly", NINE, job_id)]
    assert db.rows("default", "select name, last_fire_at from djqueue_cron_memory") == [("nightly", NINE)]
    assert entry().next_fire_at == TEN


def test_a_fire_that_can_not_be_written_leaves_nothing() -> None:
    found = create()

    with pytest.raises(Error):
        cron.fire("default", found, NINE, TEN, job(queue_name="x" * 101))

    assert (jobs(), fires(), db.rows("default", "select * from djqueue_cron_memory")) == (set(), [], [])
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
    assert entry().next_fire_at == TEN


def test_r17_the_memory_never_goes_back() -> None:
    fire(create(next_fire_at=TEN), fire_at=TEN, next_fire_at=TEN + timedelta(hours=1))

    assert fire(entry(), fire_at=NINE) is None
    assert db.rows("default", "select last_fire_at from djqueue_cron_memory") == [(TEN,)]


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
    monkeypatch.setattr(cron, "SETTLE", cron.SETTLE.replace("skip locked", ""))
    answers: list[UUID | None] = []

    with raw_connection() as other, transaction.atomic():
        db.rows("default", "update djqueue_cron_entry set args = '[1]'")
        waiting = elsewhere(lambda: answers.append(fire(found)))
        eventually(lambda: other.execute("select from pg_stat_activity where wait_event_type = 'Lock'").fetchall())
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
    first = cron.fire("default", create(), NINE, TEN, job(dedupe_key="one at a time"))

    second = cron.fire("default", entry(), TEN, TEN, job(dedupe_key="one at a time"))

    assert second == first
    assert jobs() == {first}
    assert [fired[1:] for fired in fires()] == [(NINE, first), (TEN, first)]


def test_settle_writes_plan_and_error_and_only_to_the_version_that_was_read() -> None:
    found = create(next_fire_at=None)

    assert cron.settle("default", found, TEN, "unknown task")
    assert (entry().next_fire_at, entry().last_error) == (TEN, "unknown task")
    assert not cron.settle("default", found, NINE)
    assert entry().next_fire_at == TEN


def test_only_old_fires_are_pruned() -> None:
    fire(create())
    fire(entry(), fire_at=TEN)
    db.rows(
        "default",
        "update djqueue_cron_fire set fired_at = now() - interval '91 days' where fire_at = %(at)s",
        {"at": NINE},
    )

    assert cron.prune_fires("default") == 1
    assert [fired[1] for fired in fires()] == [TEN]
