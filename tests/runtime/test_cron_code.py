"""The entries of the code: made, changed, removed and brought back by the leader, and nothing fires because of it."""

import logging
from collections.abc import Iterator

import pytest

from djqueue import cron
from djqueue.api import cron as declarations
from djqueue.api import registry
from djqueue.runtime import cron_code
from djqueue.runtime.cron import CronDuty
from djqueue.runtime.cron_code import CronCode
from djqueue.runtime.cron_jobs import CronJobs
from djqueue.runtime.leader import LeaderDuty
from djqueue.store import db
from testproject.shop.tasks import call_partner, noop
from tests.helpers import raw_connection
from tests.live import LiveDatabase
from tests.runtime.keepers import connection_of, end_lease, keeper

PARTNER = "testproject.shop.tasks.call_partner"


@pytest.fixture(autouse=True, params=["django", "adopted"])
def connection_kind(request: pytest.FixtureRequest, live_database: LiveDatabase) -> Iterator[str]:
    """Duties run on adopted connections; commands may run them on Django's."""
    registry.load()
    with connection_of(request.param) as kind:
        yield kind


@pytest.fixture
def lead(connection_kind: str) -> LeaderDuty:
    """A keeper that leads."""
    return keeper("keeper a")


@pytest.fixture(autouse=True)
def code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code declares what the test says, and nothing else."""
    monkeypatch.setattr(declarations, "_declared", {})


def declares(schedule: str = "30 2 * * *", *, name: str = "nightly", args: tuple[object, ...] = ()) -> None:
    """From now on the code declares this entry so."""
    declarations._declared.pop(name, None)
    cron(schedule, name=name, args=args, tz="Europe/Paris")(noop)


def sync(lead: LeaderDuty) -> None:
    CronCode("default", lead).tick()


def tick(lead: LeaderDuty) -> None:
    CronDuty("default", lead, CronJobs("default")).tick()


def look(*columns: str, name: str = "nightly") -> tuple[object, ...]:
    found = db.rows(
        "default", f"select {', '.join(columns)} from djqueue_cron_entry where name = %(name)s", {"name": name}
    )
    return found[0]


def change(assignments: str) -> None:
    db.rows("default", f"update djqueue_cron_entry set {assignments}")


def jobs() -> int:
    return int(db.rows("default", "select count(*) from djqueue_job")[0][0])


def test_a_declared_entry_is_made_and_fires_nothing(lead: LeaderDuty) -> None:
    declares(args=(7,))
    cron("@hourly", kwargs={"order_id": 1}, overlap="skip", missed="run_all(3)", jitter_seconds=5)(call_partner)

    sync(lead)
    tick(lead)

    assert look("in_code", "enabled", "schedule", "timezone", "args::text", "next_fire_at > now()", "last_error") == (
        True, True, "30 2 * * *", "Europe/Paris", "[7]", True, "",
    )  # fmt: skip
    assert look("overlap", "missed", "missed_max", "jitter_seconds", "kwargs->>'order_id'", name=PARTNER) == (
        "skip", "run_all", 3, 5, "1",
    )  # fmt: skip
    assert jobs() == 0


def test_an_entry_that_agrees_is_not_written(lead: LeaderDuty) -> None:
    declares()
    sync(lead)
    tick(lead)
    before = look("xmin::text", "next_fire_at")

    sync(lead)

    assert look("xmin::text", "next_fire_at") == before


@pytest.mark.parametrize(("schedule", "args", "replanned"), [("30 3 * * *", (), True), ("30 2 * * *", (1,), False)])
def test_r17_a_change_in_the_code_is_written_and_fires_nothing(
    lead: LeaderDuty, schedule: str, args: tuple[object, ...], replanned: bool
) -> None:
    declares()
    sync(lead)
    tick(lead)
    (plan,) = look("next_fire_at")
    declares(schedule, args=args)

    sync(lead)

    assert look("schedule", "args::text", "next_fire_at") == (schedule, str(list(args)), None if replanned else plan)
    tick(lead)
    assert jobs() == 0


def test_an_entry_that_is_no_longer_declared_is_off_and_stays_to_be_seen(lead: LeaderDuty) -> None:
    declares()
    sync(lead)
    declarations._declared.clear()

    sync(lead)
    change("next_fire_at = date_trunc('minute', now())")
    tick(lead)

    assert look("removed_at is not null", "enabled", "next_fire_at") == (True, True, None)
    assert jobs() == 0


def test_r17_an_entry_that_comes_back_is_on_again_and_fires_nothing_of_the_time_between(lead: LeaderDuty) -> None:
    declares()
    sync(lead)
    declarations._declared.clear()
    sync(lead)
    change("next_fire_at = now() - interval '6 hours'")
    declares()

    sync(lead)
    tick(lead)

    assert look("removed_at", "next_fire_at > now()") == (None, True)
    assert jobs() == 0


def test_an_entry_that_operators_paused_stays_paused(lead: LeaderDuty) -> None:
    declares()
    sync(lead)
    change("enabled = false")

    declares("30 3 * * *")
    sync(lead)
    declarations._declared.clear()
    sync(lead)
    declares()
    sync(lead)

    assert look("enabled", "removed_at") == (False, None)


def test_an_entry_of_the_admin_is_left_alone_and_told_once(lead: LeaderDuty, caplog: pytest.LogCaptureFixture) -> None:
    db.rows(
        "default",
        "insert into djqueue_cron_entry (name, schedule, task_name, changed_at) "
        "values ('nightly', '@daily', 'x', now())",
    )
    declares()
    code = CronCode("default", lead)
    with caplog.at_level(logging.WARNING, "djqueue"):
        for _ in range(2):
            code._synced = (0, 0.0)
            code.tick()

    assert look("schedule", "in_code") == ("@daily", False)
    assert len(caplog.records) == 1


def test_only_the_leader_says_what_is_in_the_code(lead: LeaderDuty) -> None:
    declares()
    sync(keeper("keeper b"))
    assert db.rows("default", "select 1 from djqueue_cron_entry") == []

    end_lease()
    second = keeper("keeper b")
    sync(second)
    assert look("in_code") == (True,)


def test_the_leader_syncs_once_per_term_and_minute(lead: LeaderDuty, monkeypatch: pytest.MonkeyPatch) -> None:
    declares()
    code = CronCode("default", lead)
    code.tick()
    change("schedule = '@daily'")

    code.tick()
    assert look("schedule") == ("@daily",)
    monkeypatch.setattr(cron_code, "AGAIN_SECONDS", 0.0)
    code.tick()
    assert look("schedule") == ("30 2 * * *",)


def test_an_entry_that_somebody_edits_holds_the_leader_up_no_longer_than_said(
    lead: LeaderDuty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cron_code.cronsync, "LOCK_TIMEOUT", "50ms")
    declares()
    sync(lead)
    declares("30 3 * * *")
    code = CronCode("default", lead)
    with raw_connection() as other, other.transaction():
        other.execute("select from djqueue_cron_entry for update")
        code.tick()

    assert look("schedule") == ("30 2 * * *",)
    code.tick()
    assert look("schedule") == ("30 3 * * *",)
