"""Pauses of queues, tasks and tenants: what they stop, what is set aside for them, and that all of it comes back."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from djqueue.policy import aside
from djqueue.store import db, lease, operate, pauses, recover
from djqueue.store.pauses import Kind
from tests.store.factories import ALIAS, add, bend, count, lease_of, row, take, take_one, told

SOON = datetime.now(UTC) + timedelta(hours=1)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def pause(kind: Kind, name: str, until: datetime = SOON) -> None:
    pauses.pause(ALIAS, kind, name, until, reason="moving", by="ada")


def test_all_three_kinds_are_read_with_who_why_and_until(store: str) -> None:
    operate.pause(ALIAS, "q", SOON, reason="full", by="bob")
    pause(Kind.TASK, "t")
    pause(Kind.TENANT, "acme")

    found = pauses.in_force(ALIAS)

    assert [(p.kind, p.name, p.until, p.reason, p.by) for p in found] == [
        (Kind.QUEUE, "q", SOON, "full", "bob"),
        (Kind.TASK, "t", SOON, "moving", "ada"),
        (Kind.TENANT, "acme", SOON, "moving", "ada"),
    ]
    stopped = pauses.stopped(ALIAS)
    assert (stopped.queues, stopped.tasks, stopped.tenants) == ({"q"}, {"t": "t"}, {"acme"})


def test_a_pause_whose_moment_has_come_stops_nothing(store: str) -> None:
    for kind in (Kind.TASK, Kind.TENANT):
        pause(kind, "x", LONG_AGO)
    operate.pause(ALIAS, "q", LONG_AGO)

    assert pauses.in_force(ALIAS) == []
    assert pauses.stopped(ALIAS) == pauses.Stopped()
    pauses.forget(ALIAS)
    assert count("pause") == 0


def test_a_second_pause_replaces_the_first_and_a_resume_says_whether_there_was_one(store: str) -> None:
    pause(Kind.TASK, "t", LONG_AGO)
    assert pauses.resume(ALIAS, Kind.TASK, "t") is False
    pause(Kind.TASK, "t", LONG_AGO)
    pause(Kind.TASK, "t")

    assert count("pause") == 1
    assert pauses.resume(ALIAS, Kind.TENANT, "t") is False
    assert pauses.resume(ALIAS, Kind.TASK, "t") is True
    assert pauses.resume(ALIAS, Kind.TASK, "t") is False


@pytest.mark.parametrize("kind", [Kind.TASK, Kind.TENANT])
def test_a_sweep_sets_aside_what_is_ready_of_the_paused_one_only(store: str, kind: Kind) -> None:
    [mine] = add(task_name="slow")
    [other] = add(task_name="quick")
    bend("tenant_id = 'acme'", mine)
    name, reason = ("slow", "paused:slow") if kind is Kind.TASK else ("acme", "tenant:acme")
    pause(kind, name)

    assert pauses.unswept(ALIAS) == [(kind, name)]
    assert pauses.sweep(ALIAS, kind, name) == 1
    pauses.swept(ALIAS, kind, name)

    assert row(mine, "state, parked_for, attempts") == ("parked", reason, 0)
    assert row(other) == "ready"
    assert pauses.unswept(ALIAS) == []


def test_what_is_running_scheduled_or_parked_already_is_left_alone_by_a_sweep(store: str) -> None:
    add(3)
    running = take_one()
    [later, parked] = [
        id_ for (id_,) in db.rows(ALIAS, "select id from djqueue_job where state = 'ready' order by seq")
    ]
    bend("state = 'scheduled', run_at = now() + interval '1 h'", later)
    bend("state = 'parked', parked_for = 'task:t'", parked)
    pause(Kind.TASK, "t")

    assert pauses.sweep(ALIAS, Kind.TASK, "t") == 0
    assert [row(id_) for id_ in (running.id, later, parked)] == ["leased", "scheduled", "parked"]


def test_a_claimed_job_is_set_aside_by_token_uncharged_with_its_reason(store: str) -> None:
    [one, two] = add(2)
    jobs = take(2)

    done = lease.set_aside(ALIAS, [lease_of(job) for job in jobs], ["paused:t", "tenant:acme"])

    assert done == {one, two}
    assert sorted(row(id_, "parked_for, attempts") for id_ in done) == [("paused:t", 0), ("tenant:acme", 0)]


def test_what_was_set_aside_is_let_back_when_no_pause_in_force_is_the_reason(store: str) -> None:
    [task, tenant, orphan] = add(3)
    bend("state = 'parked', parked_for = 'paused:slow'", task)
    bend("state = 'parked', parked_for = 'tenant:acme'", tenant)
    bend("state = 'parked', parked_for = 'task:gone'", orphan)
    pause(Kind.TASK, "slow")
    pause(Kind.TENANT, "slow")

    assert pauses.lifted(ALIAS, recover.aside_reasons(ALIAS)) == ["tenant:acme"]
    pauses.resume(ALIAS, Kind.TASK, "slow")
    assert sorted(pauses.lifted(ALIAS, recover.aside_reasons(ALIAS))) == ["paused:slow", "tenant:acme"]

    recover.bring_back(ALIAS, ["paused:slow", "tenant:acme"])
    assert [row(id_) for id_ in (task, tenant, orphan)] == ["ready", "ready", "parked"]


def test_stopped_tells_of_each_job_whether_and_why(store: str) -> None:
    stopped = pauses.Stopped(queues=frozenset({"q"}), tasks={"t": "t"}, tenants=frozenset({"acme"}))

    assert stopped.reason("t", "acme") == aside.paused_task("t")
    assert stopped.reason("u", "acme") == aside.paused_tenant("acme")
    assert stopped.reason("u", "") == ""
    assert stopped.stops("q", "u", "") and stopped.stops("r", "u", "acme") and not stopped.stops("r", "u", "")


def test_workers_that_wait_are_told_of_every_pause_and_resume(listener: psycopg.Connection) -> None:
    pause(Kind.TASK, "t")
    pauses.resume(ALIAS, Kind.TASK, "t")
    operate.pause(ALIAS, "q", SOON)
    operate.pause(ALIAS, "q", None)

    assert told(listener) == ["*"] * 4


@pytest.mark.slow
def test_a_sweep_of_many_goes_on_in_batches(committed: None) -> None:
    add(pauses.BATCH + 10)
    pause(Kind.TASK, "t")

    assert [pauses.sweep(ALIAS, Kind.TASK, "t") for _ in range(3)] == [pauses.BATCH, 10, 0]
    assert recover.bring_back(ALIAS, ["paused:t"]) == pauses.BATCH


def test_a_sweep_sets_aside_the_jobs_of_all_names_for_the_paused_one(store: str) -> None:
    [[first], [second], [other]] = [add(1, task_name=name) for name in ("t", "former.t", "another")]

    assert pauses.sweep(ALIAS, Kind.TASK, "t", ["t", "former.t"]) == 2

    assert [row(id_, "state, parked_for") for id_ in (first, second)] == [("parked", "paused:t")] * 2
    assert row(other) == "ready"


def test_all_names_of_a_task_stop_and_each_says_under_which_it_is_paused() -> None:
    names = {"t": ["t", "former.t"], "u": ["u"]}
    stopped = pauses.Stopped(tasks={"t": "t", "u": "u"}).under_all_names(lambda name: names[name])

    assert [stopped.reason(name, "") for name in ("t", "former.t", "u", "v")] == [
        "paused:t",
        "paused:t",
        "paused:u",
        "",
    ]
