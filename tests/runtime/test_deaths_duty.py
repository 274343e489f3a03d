"""The leader counts deaths and tells of them, whatever receivers do; old letters go where an option says so."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from djqueue import signals
from djqueue.conf import Options
from djqueue.runtime import deaths as duty
from djqueue.runtime.deaths import DeathsDuty
from djqueue.runtime.housekeeping import PrunerDuty
from djqueue.runtime.leader import LeaderDuty
from djqueue.runtime.replaying import STEP_SECONDS, ReplayDuty
from djqueue.store import db, replay
from djqueue.store.letters import Letters
from djqueue.store.replay import Wanted
from tests.helpers import eventually
from tests.live import LiveDatabase
from tests.runtime.keepers import connection_of, keeper
from tests.store.factories import count
from tests.store.test_deaths import cause, die, groups


@pytest.fixture(autouse=True)
def bookkeeping(live_database: LiveDatabase) -> Iterator[None]:
    """An adopted connection, as the keeper's threads have."""
    with connection_of("adopted"):
        yield


@pytest.fixture
def lead() -> LeaderDuty:
    return keeper("keeper a")


@pytest.fixture
def hear() -> Iterator[Any]:
    """Connect receivers of `job_died` for the test."""
    connected = []

    def connect(receiver: Any) -> None:
        connected.append(receiver)
        signals.job_died.connect(receiver)

    yield connect
    for receiver in connected:
        signals.job_died.disconnect(receiver)


def test_who_does_not_lead_counts_nothing() -> None:
    die()

    DeathsDuty("default", Options(), LeaderDuty("default", "nobody")).tick()

    assert count("death") == 1


def test_deaths_are_counted_while_a_receiver_takes_its_time(lead: LeaderDuty, hear: Any) -> None:
    heard, go_on = threading.Event(), threading.Event()

    def slow(**given: Any) -> None:
        heard.set()
        go_on.wait(20)

    hear(slow)
    deaths = DeathsDuty("default", Options(), lead)
    die()
    deaths.tick()
    assert heard.wait(10)

    die(2)
    deaths.tick()

    assert groups("count") == [(3,)]
    go_on.set()


def test_a_receiver_has_a_thread_and_a_connection_of_its_own(lead: LeaderDuty, hear: Any) -> None:
    seen: list[tuple[str, int]] = []

    def look(**given: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("select pg_backend_pid()")
            seen.append((threading.current_thread().name, cursor.fetchone()[0]))
            cursor.execute("select no_such_function()")

    hear(look)
    die(2)
    DeathsDuty("default", Options(), lead).tick()

    eventually(lambda: len(seen) == 2)
    [(mine,)] = db.rows("default", "select pg_backend_pid()")
    assert {name for name, _ in seen} == {"djqueue-teller"}
    assert mine not in {pid for _, pid in seen}


def test_receivers_that_are_far_behind_are_dropped_and_it_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duty, "MOST_WAITING", 1)
    go_on, begun, told = threading.Event(), threading.Event(), []
    teller = duty.Teller()
    teller.tell(lambda: (begun.set(), go_on.wait(20), None)[2])
    assert begun.wait(10)

    teller.tell(lambda: told.append("second"))
    teller.tell(lambda: told.append("third"))
    go_on.set()

    eventually(lambda: told == ["second"])
    assert "some are not told" in caplog.text


def test_a_full_batch_is_followed_at_once(lead: LeaderDuty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duty.deaths, "BATCH", 2)
    die(2)

    assert DeathsDuty("default", Options(), lead).tick() == 0.0
    assert DeathsDuty("default", Options(), lead).tick() == duty.IDLE_SECONDS


def test_the_leader_takes_the_steps_of_a_replay(lead: LeaderDuty) -> None:
    die(3)
    replay.create("default", Wanted(letters=Letters(fingerprint=cause().fingerprint), canary=0))

    assert ReplayDuty("default", LeaderDuty("default", "nobody")).tick() != STEP_SECONDS
    assert count("dead_letter") == 3
    assert ReplayDuty("default", lead).tick() == STEP_SECONDS
    assert count("dead_letter") == 0


@pytest.mark.parametrize(("days", "left"), [(None, 2), (30, 1)])
def test_old_dead_letters_go_only_where_an_option_says_so(lead: LeaderDuty, days: int | None, left: int) -> None:
    old, _ = die(2)
    db.rows(
        "default", "update djqueue_dead_letter set died_at = now() - interval '31 d' where id = %(id)s", {"id": old}
    )

    PrunerDuty("default", Options(dead_letter_days=days), lead).tick()

    assert count("dead_letter") == left
