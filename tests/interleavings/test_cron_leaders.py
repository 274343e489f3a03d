"""Cron: a nominal time makes one job, however many believe that they lead, and whoever edits meanwhile (R17)."""

from typing import Any
from uuid import UUID

from djqueue.store import cronfire, db, leader
from djqueue.store.cron import Entry
from djqueue.store.cronfire import Fire
from tests.interleavings.orders import Answers, Stage
from tests.interleavings.sound import assert_sound, places
from tests.interleavings.test_leases import in_a_transaction
from tests.store.factories import ALIAS, ack, count, take
from tests.store.test_cron_store import NINE, TEN, create, entries, job

DISABLE = "update djqueue_cron_entry set enabled = false, changed_at = clock_timestamp()"
REMOVE = "delete from djqueue_cron_entry"


def fire(entry: Entry) -> list[Any]:
    """What a leader does that has read the entry."""
    fired, _ = cronfire.fire(ALIAS, [Fire(entry=entry, at=NINE)], job("q"))
    return [each.job_id for each in fired]


def test_two_leaders_fire_once(stage: Stage) -> None:
    def judge(_: Entry, said: Answers) -> None:
        fired = said["one"] + said["two"]
        assert len(fired) == count("job") == count("cron_fire") == 1
        assert places() == {fired[0]: "ready"}

    assert stage.in_every_order({"one": fire, "two": fire}, create, judge) >= 10


def test_a_leader_and_an_editor_who_disables(stage: Stage) -> None:
    """Disabled before the entry is held: nothing fires. After that the editor waits, and the job is there."""

    def judge(_: Entry, said: Answers) -> None:
        assert len(said["fire"]) == count("job") == count("cron_fire")
        assert entries() == []

    def disable(_: Entry) -> None:
        in_a_transaction(lambda: db.rows(ALIAS, DISABLE))

    assert stage.in_every_order({"fire": fire, "disable": disable}, create, judge) >= 4


def test_an_entry_deleted_and_made_again_while_it_fires_fires_once(stage: Stage) -> None:
    """The memory of the name outlives the entry."""

    def make_again(_: Entry) -> None:
        def act() -> None:
            db.rows(ALIAS, REMOVE)
            create()

        in_a_transaction(act)

    def judge(_: Entry, said: Answers) -> None:
        assert_sound()
        [again] = entries()
        assert len(said["fire"] + fire(again)) == count("job") == 1

    assert stage.in_every_order({"fire": fire, "again": make_again}, create, judge) >= 4


def test_a_fire_that_waits_leaves_the_queue_once(stage: Stage) -> None:
    def arrange() -> Entry:
        found = create()
        [job_id] = fire(found)
        db.rows(ALIAS, "update djqueue_cron_entry set overlap = 'queue_one'")
        cronfire.fire(ALIAS, [Fire(entry=entries()[0], at=TEN)], job("q"))
        assert ack(*take(1)) == {job_id}
        return entries()[0]

    def leave(entry: Entry) -> list[UUID | None]:
        return [each.job_id for each in cronfire.leave_queue(ALIAS, [entry], job("q"))]

    def judge(_: Entry, said: Answers) -> None:
        fired = said["one"] + said["two"]
        assert len(fired) == count("job") == 1

    assert stage.in_every_order({"one": leave, "two": leave}, arrange, judge) >= 10


def test_two_who_want_the_lead_get_it_one_after_the_other(stage: Stage) -> None:
    def acquire(holder: str) -> Any:
        return lambda _: in_a_transaction(lambda: leader.acquire(ALIAS, "keeper", holder, 60))

    def arrange() -> None:
        leader.acquire(ALIAS, "keeper", "before", 60)
        db.rows(ALIAS, "update djqueue_leader set until = clock_timestamp() - interval '1 s'")

    def judge(_: None, said: Answers) -> None:
        assert sorted(lead.term for lead in said.values() if lead is not None) == [2]

    assert stage.in_every_order({"a": acquire("a"), "b": acquire("b")}, arrange, judge) >= 4
