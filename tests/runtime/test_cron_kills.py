"""R17: leaders killed at more than two hundred moments around a minute boundary: a job for each time, and only one.

The database's clock is a table here, so that minutes pass when the test says so. A kill is an exception that nothing
catches, before or after a statement or a commit, and then the connection is gone, as the server sees it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from djqueue.api import registry
from djqueue.runtime.cron import CronDuty
from djqueue.runtime.cron_jobs import CronJobs
from djqueue.runtime.leader import LeaderDuty
from djqueue.store import cron, db
from tests.live import LiveDatabase
from tests.runtime.keepers import end_lease, keeper

pytestmark = pytest.mark.slow

FIRST = datetime(2026, 3, 1, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
OFFSETS = [-2.0, -0.01, 0.0, 0.01, 0.1, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0]
"""Seconds from the boundary at which the leader that will be killed looks."""
STEPS = range(1, 19)
"""At which step of its tick it is killed; a tick that fires has so many, one that does not has two."""


class Killed(BaseException):
    """The process is no more."""


class Killer:
    """Counts the moments at which a process may die, and dies at one of them."""

    def __init__(self) -> None:
        self.left = 0
        self.kills = 0

    def step(self) -> None:
        if self.left:
            self.left -= 1
            if not self.left:
                self.kills += 1
                raise Killed


@pytest.fixture
def killer(live_database: LiveDatabase, monkeypatch: pytest.MonkeyPatch) -> Iterator[Killer]:
    """Statements and commits at which a leader may die, and a clock that stands still."""
    registry.load()
    found = Killer()
    rows, one_transaction = db.rows, db.one_transaction

    def killing_rows(*args: Any) -> list[db.Row]:
        found.step()
        answer = rows(*args)
        found.step()
        return answer

    @contextmanager
    def killing_transaction(alias: str) -> Iterator[None]:
        with one_transaction(alias):
            yield
            found.step()
        found.step()

    monkeypatch.setattr(db, "rows", killing_rows)
    monkeypatch.setattr(db, "one_transaction", killing_transaction)
    for name in ("LOOK", "READ"):
        told = getattr(cron, name).replace("statement_timestamp()", "(select now from test_clock)")
        monkeypatch.setattr(cron, name, told)
    db.adopt("default", prepared=False)
    rows("default", "create table test_clock (now timestamptz)")
    rows("default", "insert into test_clock values (now())")
    yield found
    db.drop("default")


def set_clock(now: datetime) -> None:
    db.rows("default", "update test_clock set now = %(now)s", {"now": now})


def create(planned: datetime | None = None) -> None:
    db.rows(
        "default",
        "insert into djqueue_cron_entry (name, schedule, task_name, next_fire_at, overlap, changed_at) "
        "values ('entry', '* * * * *', 'testproject.shop.tasks.noop', %(planned)s, 'allow', now())",
        {"planned": planned},
    )


def duty_of(lead: LeaderDuty) -> CronDuty:
    return CronDuty("default", lead, CronJobs("default"))


def dies(killer: Killer, duty: CronDuty, step: int) -> bool:
    """Tick, and die at a step if the tick has so many; return whether it has."""
    killer.left = step
    try:
        duty.tick()
    except Killed:
        db.drop("default")
        db.adopt("default", prepared=False)
        return True
    finally:
        killer.left = 0
    return False


def finish_jobs() -> int:
    """Let all jobs end; return how many there were."""
    return len(db.rows("default", "delete from djqueue_job returning id"))


def test_r17_leaders_killed_around_a_minute_boundary_make_one_job_for_each_time(
    killer: Killer, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock(FIRST - MINUTE)
    create()
    minute = FIRST
    kills = 0
    for number, (offset, step) in enumerate(product(OFFSETS, STEPS)):
        end_lease()
        first = duty_of(keeper(f"first {number}"))
        set_clock(minute - timedelta(seconds=10))
        first.tick()
        set_clock(minute + timedelta(seconds=6))
        stale = cron.read("default", [each.id for each in cron.look("default")])

        set_clock(minute + timedelta(seconds=offset))
        kills += dies(killer, first, step)
        if number % 3 == 0:
            db.rows("default", "update djqueue_cron_entry set next_fire_at = next_fire_at - interval '1 min'")
        if number % 3 == 1:
            db.rows("default", "update djqueue_cron_fire set fired_at = now() - interval '91 days'")
            cron.prune_fires("default")

        end_lease()
        second = duty_of(keeper(f"second {number}"))
        set_clock(minute + timedelta(seconds=7))
        with monkeypatch.context() as patch:
            patch.setattr(cron, "read", lambda alias, ids, stale=stale: stale)
            second.tick()
        for _ in range(3):
            second.tick()
        jobs = finish_jobs()
        if number % 5 == 0:
            db.rows("default", "delete from djqueue_cron_entry")
            create(planned=minute)
            second.tick()
        first.tick()

        assert (jobs, finish_jobs()) == (1, 0), f"moment {offset} s, step {step}"
        assert db.rows("default", "select last_fire_at from djqueue_cron_memory") == [(minute,)]
        minute += MINUTE
    assert kills >= 200


def test_r17_a_leader_killed_while_it_lets_a_waiting_fire_go_leaves_one_job(killer: Killer) -> None:
    set_clock(FIRST)
    create(planned=FIRST)
    db.rows("default", "update djqueue_cron_entry set overlap = 'queue_one'")
    lead = keeper("first")
    minute = FIRST
    duty_of(lead).tick()
    for step in range(1, 30):
        minute += MINUTE
        set_clock(minute)
        duty_of(lead).tick()
        assert db.rows("default", "select queued_fire_at from djqueue_cron_entry") == [(minute,)]
        assert finish_jobs() == 1

        dies(killer, duty_of(lead), step)
        end_lease()
        lead = keeper(f"after {step}")
        duty_of(lead).tick()

        assert db.rows("default", "select count(*) from djqueue_job") == [(1,)], f"step {step}"
    assert killer.kills >= 15
    assert db.rows("default", "select distinct outcome from djqueue_cron_fire") == [("enqueued",)]
