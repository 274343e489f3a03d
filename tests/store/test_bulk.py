"""Acts on all that match: in batches, to the end, each job guarded by its state; R19, R20."""

from uuid import UUID

import pytest
from django.db import connection

from djqueue.models import BulkAct, DeadLetter, History, Job
from djqueue.policy.search import Search, parse
from djqueue.store import bulk, change, operate
from djqueue.store.bulk import Act, Wanted
from djqueue.store.change import ChangeAnswer
from tests.admin import rows
from tests.admin.conftest import tables  # noqa: F401
from tests.store.factories import ALIAS, YEAR_1, YEAR_9999

pytestmark = pytest.mark.usefixtures("tables")


def run(wanted: Wanted) -> BulkAct:
    """Start an act and drive it to its end; return its row."""
    id_ = bulk.create(ALIAS, wanted)
    while bulk.step(ALIAS, id_):
        pass
    return BulkAct.objects.get(pk=id_)


def test_all_letters_that_match_are_requeued_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "BATCH", 3)
    wanted = [rows.make_dead_letter(tenant_id="acme") for _ in range(10)]
    others = [rows.make_dead_letter(), rows.make_finished(tenant_id="acme")]

    act = run(Wanted(act=Act.REQUEUE, search=parse("tenant:acme")))

    assert (act.state, act.total, act.done, act.refused) == ("finished", 10, 10, {})
    assert set(Job.objects.values_list("pk", flat=True)) == {letter.pk for letter in wanted}
    assert list(DeadLetter.objects.all()) == [others[0]]


def test_each_step_is_a_batch_and_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "BATCH", 2)
    for _ in range(5):
        rows.make_dead_letter()
    id_ = bulk.create(ALIAS, Wanted(act=Act.DISCARD, reason="old"))

    steps = [bulk.step(ALIAS, id_) for _ in range(4)]

    assert [(step.state, step.done) for step in steps if step] == [("running", 2), ("running", 4), ("finished", 5)]
    assert steps[3] is None
    assert History.objects.filter(outcome="cancelled").count() == 5


def test_a_running_job_is_left_alone_and_named() -> None:
    running, waiting = rows.make_running_job(), rows.make_job()

    act = run(Wanted(act=Act.PRIORITY, priority=9))

    assert (act.done, act.refused) == (1, {"running": 1})
    assert act.refused_ids == [[str(running.pk), "running"]]
    running.refresh_from_db()
    waiting.refresh_from_db()
    assert (running.priority, waiting.priority) == (0, 9)


def test_retry_starts_scheduled_jobs_and_says_why_not_the_others() -> None:
    scheduled = rows.make_scheduled_job()
    jobs = [rows.make_job(), rows.make_running_job(), rows.make_job(state="parked", parked_for="task:x")]

    act = run(Wanted(act=Act.RETRY, ids=[scheduled.pk, *(job.pk for job in jobs), UUID(int=1)]))

    assert act.refused == {"ready": 1, "running": 1, "parked": 1, "gone": 1}
    scheduled.refresh_from_db()
    assert scheduled.state == "ready"


def test_cancel_ends_waiting_jobs_and_asks_running_ones() -> None:
    rows.make_job()
    running = rows.make_running_job()

    act = run(Wanted(act=Act.CANCEL, search=parse("queue:emails")))

    running.refresh_from_db()
    assert (act.done, History.objects.count()) == (2, 1)
    assert running.cancel_requested_at is not None


def test_chosen_ids_are_worked_off_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "BATCH", 2)
    chosen = [rows.make_dead_letter().pk for _ in range(5)]
    left = rows.make_dead_letter().pk

    act = run(Wanted(act=Act.REQUEUE, ids=chosen))

    assert (act.total, act.done) == (5, 5)
    assert [letter.pk for letter in DeadLetter.objects.all()] == [left]


def test_what_was_enqueued_after_the_act_is_left_alone() -> None:
    rows.make_job()
    id_ = bulk.create(ALIAS, Wanted(act=Act.CANCEL))
    later = rows.make_job(created_at=YEAR_9999)

    bulk.step(ALIAS, id_)

    assert list(Job.objects.all()) == [later]


def test_a_job_that_dies_again_meanwhile_is_not_requeued_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "BATCH", 1)
    ids = sorted(rows.make_dead_letter().pk for _ in range(3))
    id_ = bulk.create(ALIAS, Wanted(act=Act.REQUEUE))
    bulk.step(ALIAS, id_)
    Job.objects.all().delete()
    rows.make_dead_letter(id=ids[2])

    while bulk.step(ALIAS, id_):
        pass

    assert BulkAct.objects.get(pk=id_).done == 3
    assert [letter.pk for letter in DeadLetter.objects.all()] == [ids[2]]


def test_a_stopped_act_does_nothing_more() -> None:
    rows.make_job()
    id_ = bulk.create(ALIAS, Wanted(act=Act.CANCEL))

    assert bulk.stop(ALIAS, [id_]) == {id_}
    assert bulk.step(ALIAS, id_) is None
    assert Job.objects.count() == 1
    assert bulk.stop(ALIAS, [id_]) == set()


def test_a_batch_that_the_database_refuses_stops_the_act_with_its_words() -> None:
    rows.make_job()

    act = run(Wanted(act=Act.PRIORITY, priority=32_000))

    assert act.state == "stopped"
    assert "djqueue_job_priority" in act.error


def test_old_acts_are_forgotten_and_running_ones_are_not() -> None:
    done, running = run(Wanted(act=Act.CANCEL)), bulk.create(ALIAS, Wanted(act=Act.CANCEL))
    BulkAct.objects.update(finished_at=YEAR_1)

    assert bulk.prune(ALIAS, 90) == 2 - BulkAct.objects.filter(pk=running).count()
    assert not BulkAct.objects.filter(pk=done.pk).exists()


# ------------------------------------------------------------------------------------------------ changes


def test_a_job_moves_to_another_queue_unless_something_speaks_against_it() -> None:
    fits = rows.make_job(dedupe_key="a")
    taken = rows.make_job(dedupe_key="b")
    rows.make_job(queue_name="images", dedupe_key="b")
    ordered, running = rows.make_job(ordering_key="o"), rows.make_running_job()
    there = rows.make_job(queue_name="images")
    ids = [fits.pk, taken.pk, ordered.pk, running.pk, there.pk, UUID(int=1)]

    answers = change.queue(ALIAS, ids, "images")

    assert list(answers.values()) == ["changed", "key taken", "ordered", "running", "same", "gone"]
    assert set(Job.objects.filter(queue_name="images", pk__in=ids).values_list("pk", flat=True)) == {fits.pk, there.pk}


def test_of_two_jobs_with_one_key_from_two_queues_one_moves() -> None:
    first, second = sorted([rows.make_job(dedupe_key="k").pk, rows.make_job(queue_name="partner", dedupe_key="k").pk])

    assert change.queue(ALIAS, [first, second], "images") == {
        first: ChangeAnswer.CHANGED,
        second: ChangeAnswer.KEY_TAKEN,
    }


def test_a_ready_job_is_put_off_and_a_scheduled_one_brought_forward() -> None:
    ready, scheduled, running = rows.make_job(), rows.make_scheduled_job(), rows.make_running_job()

    assert change.reschedule(ALIAS, [ready.pk], YEAR_9999) == {ready.pk: ChangeAnswer.CHANGED}
    assert change.reschedule(ALIAS, [scheduled.pk, running.pk], YEAR_1) == {
        scheduled.pk: ChangeAnswer.CHANGED,
        running.pk: ChangeAnswer.RUNNING,
    }

    assert operate.states(ALIAS, [ready.pk, scheduled.pk, running.pk]) == {
        ready.pk: "scheduled",
        scheduled.pk: "ready",
        running.pk: "leased",
    }


# ------------------------------------------------------------------------------------------------ many


@pytest.mark.slow
def test_ten_thousand_letters_are_requeued_in_one_act_by_ten_batches() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """insert into djqueue_dead_letter (id, seq, died_at, created_at, lease_token, priority, attempts,
            max_attempts, interruptions, runs, reason, queue_name, lane, task_name, tenant_id, on_dead, worker_ids,
            args, errors, options)
            select gen_random_uuid(), n, now(), now(), n, 0, 8, 8, 0, 1, 'r', 'q', '', 't', '', 'skip', '{}',
            '{}', '[]', '{}' from generate_series(1, 10000) n"""
        )
    id_ = bulk.create(ALIAS, Wanted(act=Act.REQUEUE, search=Search(queue="q")))

    steps = 0
    while bulk.step(ALIAS, id_):
        steps += 1

    act = BulkAct.objects.get(pk=id_)
    assert (act.total, act.done, act.state) == (10_000, 10_000, "finished")
    assert steps <= 11
    assert Job.objects.filter(state="ready").count() == 10_000
