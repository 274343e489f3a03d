"""Cron entries planned and fired by the leader: never twice, never for the past, never stopped by a bad row (R17)."""

import ast
import inspect
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import ModuleType
from uuid import UUID

import pytest

from djqueue.policy.cronhash import jitter
from djqueue.policy.ids import uuid7
from djqueue.runtime import cron as cron_duty
from djqueue.runtime import cron_entry
from djqueue.runtime import leader as leader_duty
from djqueue.runtime.cron import CronDuty
from djqueue.runtime.leader import LeaderDuty
from djqueue.store import cron, cronfire, db, history, leader, stats
from djqueue.store.cron import Entry
from djqueue.store.enqueue import NewJob, enqueue
from tests.helpers import raw_connection
from tests.live import LiveDatabase
from tests.runtime.keepers import connection_of, end_lease, keeper


@pytest.fixture(autouse=True, params=["django", "adopted"])
def connection_kind(request: pytest.FixtureRequest, live_database: LiveDatabase) -> Iterator[str]:
    """Duties run on adopted connections; commands may run them on Django's."""
    with connection_of(request.param) as kind:
        yield kind


@pytest.fixture
def lead(connection_kind: str) -> LeaderDuty:
    """A keeper that leads."""
    return keeper("keeper a")


class Jobs:
    """Knows every task but `missing`."""

    def prepare(self, entry: Entry) -> NewJob:
        if entry.task_name == "missing":
            raise ValueError("task: expected a task that this project has, got 'missing'")
        return NewJob(
            id=uuid7(),
            queue_name=entry.queue_name or "default",
            task_name=entry.task_name,
            args=f'{{"args": {entry.args}, "kwargs": {entry.kwargs}}}',
        )

    def enqueue(self, wanted: Sequence[tuple[NewJob, int]]) -> list[UUID]:
        new = [replace(job, id=uuid7(), delay_seconds=delay) for job, delay in wanted]
        return [enqueue("default", job).id for job in new]


def cron_of(lead: LeaderDuty, jobs: cron_duty.Jobs | None = None) -> CronDuty:
    return CronDuty("default", lead, jobs or Jobs())


def database_now() -> datetime:
    found: datetime = db.rows("default", "select clock_timestamp()")[0][0]
    return found


def minutes_ago(minutes: int) -> datetime:
    return database_now().replace(second=0, microsecond=0) - timedelta(minutes=minutes)


INSERT = """
insert into djqueue_cron_entry (name, next_fire_at, changed_at, schedule, timezone, task_name, queue_name, args)
values (%(name)s, %(planned)s, now(), %(schedule)s, %(timezone)s, %(task_name)s, %(queue_name)s, %(args)s::jsonb)
"""


def create(name: str = "entry", planned: datetime | None = None, **values: object) -> None:
    """An entry as SQL may put it in: for every day at the time of its plan, or for every minute."""
    schedule = f"{planned.minute} {planned.hour} * * *" if planned else "* * * * *"
    columns = {"timezone": "UTC", "task_name": "noop", "queue_name": "", "args": "[]"}
    db.rows("default", INSERT, {"name": name, "planned": planned, "schedule": schedule, **columns, **values})


def change(name: str = "entry", **values: object) -> None:
    for column, value in values.items():
        db.rows(
            "default",
            f"update djqueue_cron_entry set {column} = %(value)s where name = %(name)s",
            {"value": value, "name": name},
        )


def plan(name: str = "entry") -> tuple[datetime | None, str]:
    found = db.rows(
        "default", "select next_fire_at, last_error from djqueue_cron_entry where name = %(name)s", {"name": name}
    )
    return found[0]  # type: ignore[return-value]


def a_minute_passes(duty: CronDuty) -> None:
    """Tick as if a minute had passed: plans and memories move back by one."""
    back = {"back": timedelta(seconds=60)}
    db.rows("default", "update djqueue_cron_memory set last_fire_at = last_fire_at - %(back)s::interval", back)
    db.rows("default", "update djqueue_cron_fire set fire_at = fire_at - %(back)s::interval", back)
    db.rows("default", "update djqueue_cron_entry set next_fire_at = next_fire_at - %(back)s::interval", back)
    db.rows("default", "update djqueue_cron_entry set queued_fire_at = queued_fire_at - %(back)s::interval", back)
    duty.tick()


def jobs() -> list[UUID]:
    return [id_ for (id_,) in db.rows("default", "select id from djqueue_job")]


def fired(name: str = "entry") -> list[datetime]:
    found = db.rows(
        "default", "select fire_at from djqueue_cron_fire where name = %(name)s order by fire_at", {"name": name}
    )
    return [at for (at,) in found]


def test_r17_creating_an_entry_plans_it_and_fires_nothing(lead: LeaderDuty) -> None:
    create()

    cron_of(lead).tick()

    at, error = plan()
    assert at is not None
    assert timedelta(0) < at - database_now() <= timedelta(minutes=1)
    assert (error, jobs()) == ("", [])


def test_a_due_entry_fires_once_and_is_planned_again(lead: LeaderDuty) -> None:
    due = minutes_ago(0)
    create(planned=due, args="[7]")
    duty = cron_of(lead)

    duty.tick()
    duty.tick()

    assert fired() == [due]
    assert db.rows("default", "select task_name, args->'args' = '[7]' from djqueue_job") == [("noop", True)]
    assert plan() == (due + timedelta(days=1), "")


def test_r17_six_hours_down_gives_one_job_for_the_latest_missed_minute(lead: LeaderDuty) -> None:
    create(planned=minutes_ago(360), schedule="* * * * *")

    cron_of(lead).tick()

    assert len(jobs()) == 1
    assert fired() in ([minutes_ago(0)], [minutes_ago(1)])
    assert plan()[0] in (minutes_ago(-1), minutes_ago(0))


@pytest.mark.parametrize(
    ("schedule", "minutes", "policy", "jobs_expected", "outcome"),
    [
        ("* * * * *", 360, {"missed": "run_once"}, 1, "enqueued"),
        ("{minute} * * * *", 362, {"missed": "run_once"}, 1, "enqueued"),
        ("{minute} {hour} * * *", 362, {"missed": "run_once"}, 1, "enqueued"),
        ("* * * * *", 360, {"missed": "run_all", "missed_max": 5}, 5, "enqueued"),
        ("{minute} * * * *", 362, {"missed": "run_all"}, 7, "enqueued"),
        ("{minute} {hour} * * *", 362, {"missed": "run_all"}, 1, "enqueued"),
        ("* * * * *", 360, {"missed": "skip"}, 1, "enqueued"),
        ("{minute} * * * *", 362, {"missed": "skip"}, 0, "missed"),
        ("{minute} {hour} * * *", 362, {"missed": "skip"}, 0, "missed"),
        ("{minute} * * * *", 362, {"missed": "skip", "grace_seconds": 600}, 1, "enqueued"),
    ],
)
def test_r17_six_hours_down_gives_what_each_policy_says(
    lead: LeaderDuty, schedule: str, minutes: int, policy: dict[str, object], jobs_expected: int, outcome: str
) -> None:
    planned = minutes_ago(minutes)
    create(planned=planned, schedule=schedule.format(minute=planned.minute, hour=planned.hour))
    change(**policy)
    duty = cron_of(lead)

    duty.tick()
    duty.tick()

    assert len(jobs()) == jobs_expected
    assert set(db.rows("default", "select outcome from djqueue_cron_fire")) == {(outcome,)}
    at = plan()[0]
    assert at is not None
    assert at > database_now() - timedelta(seconds=2)


def test_overlap_skip_fires_again_when_the_last_job_has_ended(lead: LeaderDuty) -> None:
    create(planned=minutes_ago(0), schedule="* * * * *")
    change(overlap="skip")
    duty = cron_of(lead)
    duty.tick()

    a_minute_passes(duty)
    db.rows("default", "delete from djqueue_job")
    a_minute_passes(duty)

    assert db.rows("default", "select outcome from djqueue_cron_fire order by fire_at") == [
        ("enqueued",),
        ("overlapped",),
        ("enqueued",),
    ]


def test_overlap_queue_one_enqueues_within_a_look_of_the_end_of_the_last_job(lead: LeaderDuty) -> None:
    create(planned=minutes_ago(0), schedule="* * * * *")
    change(overlap="queue_one")
    duty = cron_of(lead)
    duty.tick()
    (first,) = jobs()
    a_minute_passes(duty)
    assert jobs() == [first]

    db.rows("default", "delete from djqueue_job")
    duty.tick()

    (second,) = jobs()
    assert db.rows("default", "select outcome, job_id from djqueue_cron_fire order by fire_at") == [
        ("enqueued", first),
        ("enqueued", second),
    ]
    duty.tick()
    assert jobs() == [second]


def test_jitter_delays_the_job_and_not_the_fire(lead: LeaderDuty) -> None:
    due = minutes_ago(0)
    create(planned=due)
    change(jitter_seconds=3_600)

    cron_of(lead).tick()

    delay = jitter("entry", due, 3_600)
    assert fired() == [due]
    assert db.rows("default", "select extract(epoch from run_at - created_at)::int from djqueue_job") == [(delay,)]


def test_an_entry_that_is_fired_on_time_is_planned_from_its_nominal_time(lead: LeaderDuty) -> None:
    """However late the plan is computed, no minute between is lost."""
    create(planned=minutes_ago(0), schedule="* * * * *")
    duty = cron_of(lead)

    duty.tick()

    assert plan()[0] == fired()[0] + timedelta(minutes=1)


def test_r17_a_leader_that_died_between_firing_and_planning_is_followed_by_one_that_plans(
    lead: LeaderDuty, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = minutes_ago(0)
    create(planned=due, schedule="* * * * *")
    with monkeypatch.context() as patch:
        patch.setattr(CronDuty, "_plan", lambda *args: None)
        cron_of(lead).tick()
    assert plan()[0] == due

    second = cron_of(lead)
    second.tick()
    second.tick()

    assert fired()[0] == due
    assert len(jobs()) == len(fired()) <= 2
    assert plan()[0] == fired()[-1] + timedelta(minutes=1)


@pytest.mark.parametrize("moment", ["infinity", "-infinity", "9999-12-31 23:59:59Z", "0001-01-01Z", "20000-01-01Z"])
@pytest.mark.parametrize("place", ["plan", "memory"])
def test_r18_moments_at_the_ends_of_time_harm_nobody_else(lead: LeaderDuty, moment: str, place: str) -> None:
    due = minutes_ago(0)
    create("good", planned=due)
    create("odd", planned=due, schedule="* * * * *")
    if place == "plan":
        db.rows(
            "default",
            "update djqueue_cron_entry set (next_fire_at, queued_fire_at) = (%(moment)s::timestamptz, "
            "%(moment)s::timestamptz) where name = 'odd'",
            {"moment": moment},
        )
    else:
        db.rows("default", "insert into djqueue_cron_memory values ('odd', %(moment)s)", {"moment": moment})
    duty = cron_of(lead)

    for _ in range(3):
        duty.tick()

    assert fired("good") == [due]
    at, error = plan("odd")
    assert (at is None) is bool(error)


def test_one_bad_entry_among_many_that_are_due_together_harms_only_itself(
    lead: LeaderDuty, caplog: pytest.LogCaptureFixture
) -> None:
    due = minutes_ago(0)
    for number in range(20):
        create(f"entry {number}", planned=due, queue_name="x" * 101 if number == 7 else "")
    duty = cron_of(lead)

    with caplog.at_level(logging.WARNING, "djqueue"):
        for _ in range(3):
            duty.tick()

    assert len(jobs()) == 19
    assert "can't be written" in plan("entry 7")[1]
    assert len(caplog.records) == 1


def test_an_entry_that_could_not_be_fired_fires_when_it_can(lead: LeaderDuty) -> None:
    create(planned=minutes_ago(0), queue_name="x" * 101)
    duty = cron_of(lead)
    duty.tick()

    change(queue_name="default")
    duty.tick()
    duty.tick()

    assert len(jobs()) == 1
    assert plan()[1] == ""


def test_a_plan_set_back_by_sql_fires_nothing_again(lead: LeaderDuty) -> None:
    due = minutes_ago(0)
    create(planned=due)
    duty = cron_of(lead)
    duty.tick()

    for days in (0, 1, 30):
        change(next_fire_at=due - timedelta(days=days))
        duty.tick()

    assert len(jobs()) == 1
    assert plan()[0] == due + timedelta(days=1)


def test_r17_a_leader_was_killed_and_another_with_a_stale_view_comes(
    lead: LeaderDuty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both believe that they lead, and the second read the entries before the first fired."""
    due = minutes_ago(0)
    create(planned=due)
    stale = cron.read("default", [each.id for each in cron.look("default")])
    cron_of(lead).tick()
    end_lease()
    second = keeper("keeper b")
    with monkeypatch.context() as patch:
        patch.setattr(cron, "read", lambda alias, ids: stale)
        cron_of(second).tick()
    cron_of(second).tick()
    cron_of(lead).tick()

    assert lead.leads and second.leads
    assert fired() == [due]
    assert len(jobs()) == 1


def test_r17_delete_and_create_again_fires_nothing_twice_also_after_pruning(lead: LeaderDuty) -> None:
    due = minutes_ago(0)
    create(planned=due)
    duty = cron_of(lead)
    duty.tick()
    db.rows("default", "delete from djqueue_cron_entry")
    db.rows("default", "update djqueue_cron_fire set fired_at = now() - interval '91 days'")
    assert cron.prune_fires("default") == 1

    create(planned=due)
    duty.tick()

    assert len(jobs()) == 1
    assert fired() == []
    assert plan() == (due + timedelta(days=1), "")


def test_r17_a_follower_fires_nothing(lead: LeaderDuty) -> None:
    create(planned=minutes_ago(1))

    cron_of(keeper("keeper b")).tick()

    assert jobs() == []


def test_r17_enabling_fires_nothing_that_was_missed_while_off(lead: LeaderDuty) -> None:
    due = minutes_ago(30)
    create(planned=due)
    change(enabled=False)
    duty = cron_of(lead)
    duty.tick()

    change(enabled=True)
    duty.tick()

    assert jobs() == []
    assert plan() == (due + timedelta(days=1), "")


def test_r17_editing_fires_nothing_and_plans_anew_although_a_plan_is_there(lead: LeaderDuty) -> None:
    """Also where SQL changed the schedule and left the plan of the old one."""
    create("sooner", schedule="0 0 1 1 *")
    create("later", planned=minutes_ago(0))
    duty = cron_of(lead)
    change("later", schedule="59 23 31 12 *")
    duty.tick()
    change("sooner", schedule="* * * * *")
    duty.tick()

    assert jobs() == []
    assert plan("sooner")[0] in (minutes_ago(-1), minutes_ago(0))
    at = plan("later")[0]
    assert at is not None
    assert (at.month, at.day, at.hour, at.minute) == (12, 31, 23, 59)


def test_r17_a_zone_that_was_edited_counts_at_the_next_look(lead: LeaderDuty) -> None:
    create(schedule="0 12 * * *")
    duty = cron_of(lead)
    duty.tick()
    change(timezone="Asia/Kathmandu")

    duty.tick()

    at = plan()[0]
    assert at is not None
    assert (at.hour, at.minute) == (6, 15)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"schedule": "61 * * * *"}, "minute"),
        ({"schedule": ""}, "five fields"),
        ({"schedule": "0 0 31 2 *"}, "fires some day"),
        ({"timezone": "Mars/Olympus"}, "got 'Mars/Olympus'"),
        ({"timezone": "Europe"}, "got 'Europe'"),
        ({"timezone": "/etc/passwd"}, "got '/etc/passwd'"),
        ({"timezone": ""}, "timezone: expected"),
        ({"task_name": "missing"}, "got 'missing'"),
        ({"queue_name": "x" * 101}, "can't be written"),
    ],
)
def test_r17_a_bad_row_shows_its_error_and_stops_nobody_else(
    lead: LeaderDuty, bad: dict[str, object], said: str
) -> None:
    due = minutes_ago(0)
    create("first", planned=due)
    create("bad", planned=due, **bad)
    create("last", planned=due)
    duty = cron_of(lead)

    duty.tick()
    duty.tick()

    assert said in plan("bad")[1]
    assert (fired("first"), fired("bad"), fired("last")) == ([due], [], [due])
    assert len(jobs()) == 2


def test_an_error_is_logged_when_it_appears_and_not_at_every_look(
    lead: LeaderDuty, caplog: pytest.LogCaptureFixture
) -> None:
    create(schedule="never")
    duty = cron_of(lead)
    with caplog.at_level(logging.WARNING, "djqueue"):
        for _ in range(3):
            duty.tick()

    assert len(caplog.records) == 1
    assert "name=entry" in caplog.records[0].getMessage()


def test_an_entry_that_was_mended_is_planned_and_its_error_goes(lead: LeaderDuty) -> None:
    create(planned=minutes_ago(9), schedule="never")
    duty = cron_of(lead)
    duty.tick()

    change(schedule="* * * * *")
    duty.tick()

    assert jobs() == []
    assert plan()[0] is not None
    assert plan()[1] == ""


def test_r22_an_entry_whose_task_comes_with_the_next_release_fires_then(lead: LeaderDuty) -> None:
    create(planned=minutes_ago(5), task_name="missing")
    cron_of(lead).tick()
    assert plan()[0] == minutes_ago(5)

    class Release(Jobs):
        def prepare(self, entry: Entry) -> NewJob:
            return super().prepare(replace(entry, task_name="noop"))

    cron_of(lead, Release()).tick()

    assert len(jobs()) == 1
    assert plan()[1] == ""


def test_what_goes_wrong_while_the_job_is_written_is_the_entrys_own_error(lead: LeaderDuty) -> None:
    """A receiver of `task_enqueued` may raise anything."""
    due = minutes_ago(0)
    create("bad", planned=due)
    create("good", planned=due)

    class Failing(Jobs):
        def prepare(self, entry: Entry) -> NewJob:
            return replace(super().prepare(entry), priority=1 if entry.name == "bad" else 0)

        def enqueue(self, wanted: Sequence[tuple[NewJob, int]]) -> list[UUID]:
            ids = super().enqueue(wanted)
            if any(job.priority for job, _ in wanted):
                raise RuntimeError("the receiver fell over")
            return ids

    cron_of(lead, Failing()).tick()

    assert plan("bad") == (due, "the receiver fell over")
    assert (fired("bad"), fired("good"), len(jobs())) == ([], [due], 1)


def test_an_unknown_task_is_told_before_the_entry_is_due(lead: LeaderDuty) -> None:
    create(task_name="missing")
    cron_of(lead).tick()

    assert plan()[0] is not None
    assert "got 'missing'" in plan()[1]


def test_an_entry_that_somebody_edits_holds_up_no_other(lead: LeaderDuty) -> None:
    due = minutes_ago(0)
    create("edited", planned=due)
    create("free", planned=due)
    with raw_connection() as other, other.transaction():
        other.execute("select from djqueue_cron_entry where name = 'edited' for update")
        cron_of(lead).tick()
        assert (fired("edited"), fired("free")) == ([], [due])


def test_the_duty_sleeps_until_the_next_entry_is_due_and_at_most_a_second(lead: LeaderDuty) -> None:
    create("far", schedule="0 0 1 1 *")
    duty = cron_of(lead)
    duty.tick()
    assert duty.tick() == cron_duty.LOOK_SECONDS

    create("near")
    duty.tick()
    at = plan("near")[0]
    assert at is not None
    waited = duty.tick()

    assert waited == cron_duty.LOOK_SECONDS or waited <= (at - database_now()).total_seconds() + 1


def test_an_entry_that_was_found_right_is_not_computed_again(lead: LeaderDuty, monkeypatch: pytest.MonkeyPatch) -> None:
    create(schedule="0 0 1 1 *")
    duty = cron_of(lead)
    duty.tick()
    duty.tick()
    monkeypatch.setattr(cron_entry, "next_fire", lambda *args: pytest.fail("computed again"))

    duty.tick()


@pytest.mark.parametrize("module", [cron_duty, cron_entry, cron, cronfire, leader_duty, leader, history, stats])
def test_r16_nothing_of_the_leader_reads_a_wall_clock_of_its_own(module: ModuleType) -> None:
    tree = ast.parse(inspect.getsource(module))
    calls = {node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and hasattr(node.func, "attr")}

    assert not calls & {"now", "time", "utcnow", "today", "localtime"}
