"""The leader's housekeeping: what is old goes, what is needed ahead is made, and no step stops another (R25)."""

import logging
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import Error

from djqueue.conf import Options
from djqueue.runtime import housekeeping
from djqueue.runtime.housekeeping import PrunerDuty, SummaryDuty, VacuumDuty
from djqueue.runtime.leader import LeaderDuty
from djqueue.store import db, faults, history, vacuum
from tests.helpers import raw_connection
from tests.live import LiveDatabase
from tests.runtime.keepers import connection_of, keeper
from tests.store.history_rows import count, days_ago, digits, finished, partitions, today


@pytest.fixture(autouse=True, params=["django", "adopted"])
def connection_kind(request: pytest.FixtureRequest, live_database: LiveDatabase) -> Iterator[str]:
    """Duties run on adopted connections; commands may run them on Django's."""
    with connection_of(request.param) as kind:
        yield kind


@pytest.fixture
def lead(connection_kind: str) -> LeaderDuty:
    """A keeper that leads."""
    return keeper("keeper a")


def pruner(lead: LeaderDuty, **options: int) -> PrunerDuty:
    return PrunerDuty("default", Options(**options), lead)  # type: ignore[arg-type]


def test_the_pruner_makes_days_ahead_and_drops_old_ones(lead: LeaderDuty) -> None:
    history.ensure_partitions("default", 0)
    old = today() - timedelta(days=9)
    history._make_day("default", old)
    finished(days_ago(9), count=3)

    assert pruner(lead).tick() == housekeeping.PRUNE_SECONDS

    assert digits(old) not in partitions()
    assert digits(today() + timedelta(days=14)) in partitions()
    assert count() == 0


def test_the_pruner_drains_the_overflow(lead: LeaderDuty) -> None:
    finished(days_ago(0), count=3, table="djqueue_history_overflow")

    pruner(lead).tick()

    assert (count(), count("djqueue_history_overflow")) == (3, 0)


def test_the_pruner_comes_back_sooner_where_nothing_is_kept(lead: LeaderDuty) -> None:
    history.ensure_partitions("default", 0)
    finished(days_ago(0.01), count=3)
    finished(days_ago(0))

    assert pruner(lead, history_days=0).tick() == housekeeping.PRUNE_SOON_SECONDS
    assert count() == 1


def test_the_pruner_follows_the_days_of_a_queue_row(lead: LeaderDuty) -> None:
    history.ensure_partitions("default", 0)
    db.rows("default", "insert into djqueue_queue (name, history_days) values ('short', 0), ('long', 30)")
    for queue in ("short", "long", "default"):
        finished(days_ago(0.5), queue=queue, table="djqueue_history_overflow")
        finished(days_ago(20), queue=queue, table="djqueue_history_overflow")

    pruner(lead).tick()

    assert [count(queue=queue) for queue in ("short", "long", "default")] == [0, 2, 1]


def test_the_pruner_forgets_old_fires_statistics_and_workers(lead: LeaderDuty) -> None:
    db.rows(
        "default",
        "insert into djqueue_cron_fire (name, fire_at, fired_at) values ('a', now(), now() - interval '91 days')",
    )
    db.rows(
        "default",
        "insert into djqueue_stat (minute, queue_name, task_name, outcome) "
        "values (now() - interval '31 days', 'a', 'a', 'a')",
    )
    db.rows(
        "default", "insert into djqueue_worker (id, seen_at) values ('gone', now() - interval '25 h'), ('new', now())"
    )

    pruner(lead).tick()

    assert db.rows("default", "select * from djqueue_cron_fire") == []
    assert db.rows("default", "select * from djqueue_stat") == []
    assert db.rows("default", "select id from djqueue_worker") == [("new",)]


def test_a_step_that_is_refused_is_logged_once_and_stops_no_other(
    lead: LeaderDuty, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(history, "TRIES", 1)
    finished(days_ago(9), table="djqueue_history_overflow")
    db.rows("default", "drop table if exists djqueue_history_p20260101")
    for day in partitions():
        db.rows("default", f"drop table djqueue_history_p{day}")
    duty = pruner(lead)
    with raw_connection() as other, other.transaction(), caplog.at_level(logging.WARNING, "djqueue"):
        other.execute("lock table djqueue_history in share update exclusive mode")
        duty.tick()
        duty.tick()

    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "step=partitions ahead" in said[0] and "[55P03]" in said[0]
    assert count("djqueue_history_overflow") == 0


def test_a_lost_connection_goes_up_to_the_routine(lead: LeaderDuty) -> None:
    with raw_connection() as other:
        (pid,) = db.rows("default", "select pg_backend_pid()")[0]
        other.execute("select pg_terminate_backend(%s)", [pid])

    with pytest.raises(faults.ERRORS):
        SummaryDuty("default", lead).tick()


def test_the_summary_writes_queue_rows(lead: LeaderDuty) -> None:
    db.rows(
        "default",
        "insert into djqueue_job (id, queue_name, task_name) values (gen_random_uuid(), 'emails', 'noop')",
    )

    assert SummaryDuty("default", lead).tick() >= housekeeping.SUMMARY_SECONDS
    assert db.rows("default", "select name, ready from djqueue_queue") == [("emails", 1)]


def test_the_vacuum_says_once_that_it_is_not_allowed(
    lead: LeaderDuty, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(housekeeping, "vacuum_if_needed", lambda alias: vacuum.Vacuumed.REFUSED)
    duty = VacuumDuty("default", lead)
    with caplog.at_level(logging.WARNING, "djqueue"):
        duty.tick()
        duty.tick()

    assert len(caplog.records) == 1
    assert "MAINTAIN" in caplog.text


def test_followers_do_no_housekeeping(lead: LeaderDuty, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = keeper("keeper b")

    def refuse(*args: object) -> None:
        raise Error("touched the database")

    monkeypatch.setattr(db, "rows", refuse)
    for duty in (pruner(follower), SummaryDuty("default", follower), VacuumDuty("default", follower)):
        assert duty.tick() == 1.0
