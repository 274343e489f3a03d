"""Who leads among the keepers, and how long it believes so."""

from collections.abc import Iterator
from itertools import count as numbers

import pytest

from djqueue.runtime import leader as leader_duty
from djqueue.runtime.duty import Routine
from djqueue.runtime.leader import LeaderDuty
from djqueue.store import db, leader
from tests.helpers import eventually
from tests.live import LiveDatabase
from tests.runtime.keepers import Clock, connection_of, end_lease, keeper


@pytest.fixture(autouse=True, params=["django", "adopted"])
def connection_kind(request: pytest.FixtureRequest, live_database: LiveDatabase) -> Iterator[str]:
    """Duties run on adopted connections; commands may run them on Django's."""
    with connection_of(request.param) as kind:
        yield kind


@pytest.fixture
def clock() -> Clock:
    """The clock of the keeper that leads."""
    return Clock()


@pytest.fixture
def lead(connection_kind: str, clock: Clock) -> LeaderDuty:
    """A keeper that leads."""
    return keeper("keeper a", clock)


@pytest.fixture
def follower(lead: LeaderDuty) -> LeaderDuty:
    """A keeper that does not lead."""
    return keeper("keeper b")


def test_a_keeper_leads_from_its_first_tick(lead: LeaderDuty, follower: LeaderDuty) -> None:
    assert lead.leads
    assert lead.term == 1
    assert not follower.leads


def test_a_keeper_stops_believing_before_its_lease_ends(lead: LeaderDuty, clock: Clock) -> None:
    clock.now += 8.9
    assert lead.leads
    clock.now += 0.2

    assert not lead.leads
    assert db.rows("default", "select until > clock_timestamp() from djqueue_leader") == [(True,)]


def test_trust_counts_from_before_the_lease_was_asked_for(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement that took long, or a process that was frozen inside it, brings no longer trust."""

    def slow(*args: object) -> leader.Lead:
        clock.now += 20
        return leader.Lead(term=1)

    monkeypatch.setattr(leader, "acquire", slow)
    duty = LeaderDuty("default", "keeper a", clock=clock)

    duty.tick()

    assert not duty.leads


def test_renewing_keeps_the_lead_and_the_term(lead: LeaderDuty, clock: Clock) -> None:
    for _ in range(5):
        clock.now += leader_duty.RENEW_SECONDS
        assert lead.tick() == leader_duty.RENEW_SECONDS
        assert lead.leads

    assert lead.term == 1


def test_a_keeper_that_was_killed_is_followed_by_another(lead: LeaderDuty, follower: LeaderDuty) -> None:
    end_lease()

    follower.tick()
    lead.tick()

    assert (lead.leads, follower.leads, follower.term) == (False, True, 2)


def test_a_keeper_that_ends_gives_the_lease_back(lead: LeaderDuty, follower: LeaderDuty) -> None:
    lead.end()

    follower.tick()

    assert not lead.leads
    assert follower.leads


def test_a_keeper_that_never_led_takes_nothing_from_the_leader(lead: LeaderDuty, follower: LeaderDuty) -> None:
    follower.end()
    follower.tick()

    assert lead.leads
    assert not follower.leads


def test_who_keeps_house_need_not_fire_cron_entries(lead: LeaderDuty) -> None:
    """A supervisor that was started without cron must not keep the others from it."""
    second = LeaderDuty("default", "keeper b", leader_duty.CRON)

    second.tick()

    assert lead.leads
    assert second.leads


def test_a_routine_that_stops_lets_its_duties_end(live_database: LiveDatabase) -> None:
    first = LeaderDuty("default", "keeper a")
    routine = Routine("leading", "default", [first], prepared=True, on_fatal=pytest.fail)
    routine.start()
    eventually(lambda: first.leads)
    routine.stop()
    assert routine.join(5)

    assert leader.acquire("default", leader_duty.HOUSE, "keeper b", 10) == leader.Lead(term=2)


def test_a_routine_survives_errors_of_psycopg_itself(live_database: LiveDatabase) -> None:
    """R19: an adopted connection raises psycopg's errors, not Django's."""
    attempts = numbers(1)
    results: list[int] = []

    class Flaky:
        name = "flaky"

        def tick(self) -> float:
            if (attempt := next(attempts)) == 1:
                db.rows("default", "select pg_terminate_backend(pg_backend_pid())")
            results.append(attempt)
            return 60.0

    routine = Routine("flaky", "default", [Flaky()], prepared=True, on_fatal=pytest.fail)
    routine.start()
    eventually(lambda: results == [2], within=10)
    routine.stop()

    assert routine.join(5)
