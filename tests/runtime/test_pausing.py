"""Pauses of tasks and tenants: the leader sweeps and lets back; a worker sets aside what it claims."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from djqueue.runtime.leader import LeaderDuty
from djqueue.runtime.pausing import PausesDuty
from djqueue.runtime.stops import Stops
from djqueue.store import operate, pauses
from djqueue.store.pauses import Kind
from tests.live import LiveDatabase
from tests.runtime.keepers import connection_of, keeper
from tests.store.factories import ALIAS, add, bend, count, row, take

SOON = datetime.now(UTC) + timedelta(hours=1)


@pytest.fixture(autouse=True, params=["django", "adopted"])
def connection_kind(request: pytest.FixtureRequest, live_database: LiveDatabase) -> Iterator[str]:
    """Duties and workers use adopted connections; commands Django's."""
    with connection_of(request.param) as kind:
        yield kind


@pytest.fixture
def lead(connection_kind: str) -> LeaderDuty:
    """A keeper that leads."""
    return keeper("keeper a")


def test_the_leader_sets_aside_what_was_ready_and_lets_it_back_when_it_is_resumed(lead: LeaderDuty) -> None:
    [slow], [other] = add(task_name="slow"), add(task_name="quick")
    pauses.pause(ALIAS, Kind.TASK, "slow", SOON)
    duty = PausesDuty(ALIAS, lead)

    assert duty.tick() == 1.0
    assert [row(id_, "state, parked_for") for id_ in (slow, other)] == [("parked", "paused:slow"), ("ready", None)]

    pauses.resume(ALIAS, Kind.TASK, "slow")
    duty.tick()
    assert row(slow, "state, parked_for") == ("ready", None)


def test_a_pause_that_is_over_is_forgotten_and_its_jobs_come_back(lead: LeaderDuty) -> None:
    [one] = add()
    bend("state = 'parked', parked_for = 'tenant:acme'", one)
    pauses.pause(ALIAS, Kind.TENANT, "acme", datetime(2020, 1, 1, tzinfo=UTC))

    PausesDuty(ALIAS, lead).tick()

    assert row(one) == "ready"
    assert count("pause") == 0


def test_a_keeper_that_does_not_lead_leaves_pauses_alone(lead: LeaderDuty) -> None:
    [one] = add()
    pauses.pause(ALIAS, Kind.TASK, "t", SOON)

    PausesDuty(ALIAS, keeper("keeper b")).tick()

    assert row(one) == "ready"


def test_a_worker_sets_aside_what_it_claims_of_a_paused_task_or_tenant_uncharged(connection_kind: str) -> None:
    [task], [tenant], [free] = add(task_name="slow"), add(), add()
    bend("tenant_id = 'acme'", tenant)
    stops = Stops(ALIAS)
    pauses.pause(ALIAS, Kind.TASK, "slow", SOON)
    pauses.pause(ALIAS, Kind.TENANT, "acme", SOON)
    assert stops.look() is True

    jobs = take(3)
    stops.set_aside([job for job in jobs if stops.sets_aside(job)])

    assert [job.id for job in jobs if not stops.sets_aside(job)] == [free]
    assert row(task, "state, parked_for, attempts") == ("parked", "paused:slow", 0)
    assert row(tenant, "state, parked_for, attempts") == ("parked", "tenant:acme", 0)
    assert row(free) == "leased"


def test_a_worker_reads_pauses_twice_a_second_or_when_it_is_told(connection_kind: str) -> None:
    stops = Stops(ALIAS)
    stops.look()
    operate.pause(ALIAS, "q", SOON)

    assert (stops.look(), stops.queues) == (False, frozenset())
    stops.look_again()
    assert (stops.look(), stops.queues) == (True, frozenset({"q"}))
