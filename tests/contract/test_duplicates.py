"""What a call does where its dedupe key is held: on_conflict, unique_for and debounce; many at once, and in races."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import override_settings
from django.utils import timezone
from pytest_django.asserts import assertNumQueries

from djqueue import DuplicateJob
from djqueue.compat import InvalidTask, task_backends
from djqueue.exceptions import ArgumentsError
from djqueue.store import db, operate, recover, windows
from djqueue.testing import run_jobs
from tests.contract.examples import SEEN, add, receipt, say
from tests.store.factories import Party, ack, all_at_once, bend, count, everything, fail, parties, row, take, take_one

once = add.using(dedupe_key="k")
replace = once.using(on_conflict="replace")
reschedule = once.using(on_conflict="reschedule")
refuse = once.using(on_conflict="raise")
daily = once.using(unique_for=timedelta(days=1))
settle = once.using(debounce=60)

FIRST_ARGUMENT = "args -> 'args' ->> 0"
COPIES = "args -> 'kwargs' ->> 'copies'"
SECONDS_TO_RUN = "round(extract(epoch from run_at - now()))"


def of(result: Any, columns: str = "state") -> Any:
    return row(UUID(result.id), columns)


def copies(number: int, of_it: int) -> dict[str, int]:
    return {"order_id": number, "copies": of_it}


def said(result: Any) -> tuple[bool, bool]:
    return result.created, result.changed


@pytest.fixture
def other(committed: None) -> Iterator[Party]:
    with parties(1) as [party]:
        yield party


# ------------------------------------------------------------------------------------------------ replace


def test_a_waiting_job_gets_the_arguments_the_priority_and_the_time_of_the_call(db: None) -> None:
    first = once.using(run_after=timedelta(hours=1)).enqueue(1)

    second = replace.using(priority=7).enqueue(2)

    assert (second.id, said(second), said(first)) == (first.id, (False, True), (True, False))
    assert of(first, f"state, priority, {FIRST_ARGUMENT}, {SECONDS_TO_RUN}") == ("ready", 7, "2", 0)
    assert count() == 1


def test_a_job_that_was_due_may_be_put_off(db: None) -> None:
    first = replace.enqueue(1)

    replace.using(run_after=timedelta(hours=1)).enqueue(2)

    assert of(first, f"state, {SECONDS_TO_RUN}") == ("scheduled", 3600)


def test_the_last_of_many_calls_counts(db: None) -> None:
    replacing = receipt.using(on_conflict="replace")

    results = replacing.enqueue_many([copies(1, 1), copies(2, 2), copies(1, 3), copies(1, 4)])

    assert [said(r) for r in results] == [(True, False), (True, False), (False, True), (False, True)]
    assert of(results[0], COPIES) == "4"
    assert of(results[1], COPIES) == "2"


def test_a_running_job_is_never_changed(db: None) -> None:
    first = once.enqueue(1)
    take(queue="default")
    before = everything(UUID(first.id))

    for again in (replace, reschedule, settle):
        assert said(again.enqueue(2)) == (False, False)

    assert everything(UUID(first.id)) == before


def test_a_retry_gets_the_arguments_but_is_not_brought_forward(db: None) -> None:
    first = once.enqueue(1)
    fail(take_one(queue="default"), delay_seconds=600)

    assert said(replace.enqueue(2)) == (False, True)

    assert of(first, f"state, {FIRST_ARGUMENT}, {SECONDS_TO_RUN}, attempts") == ("scheduled", "2", 600, 1)


def test_a_job_of_another_task_with_the_same_key_is_left_alone(db: None) -> None:
    first = once.enqueue(1)

    second = say.using(dedupe_key="k", on_conflict="replace").enqueue("a")

    assert (second.id, said(second)) == (first.id, (False, False))
    assert of(first, FIRST_ARGUMENT) == "1"


def test_a_parked_job_keeps_its_place_behind_its_ordering_key(db: None) -> None:
    SEEN.clear()
    ordered = say.using(ordering_key="o", on_conflict="replace")
    ordered.using(dedupe_key="a").enqueue("first")
    parked = ordered.using(dedupe_key="b").enqueue("second")

    assert said(ordered.using(dedupe_key="b", ordering_key="elsewhere").enqueue("changed")) == (False, True)
    assert of(parked, "state, ordering_key") == ("parked", "o")

    run_jobs()
    assert SEEN == ["first", "changed"]


def test_the_expiry_moves_with_the_time(db: None) -> None:
    first = once.enqueue(1)

    reschedule.using(run_after=timedelta(hours=1), expires_after=60).enqueue(2)

    assert of(first, "round(extract(epoch from expires_at - run_at))") == 60


def test_what_is_created_costs_one_statement_inside_a_transaction(db: None) -> None:
    with assertNumQueries(1):
        replace.enqueue(1)


# ------------------------------------------------------------------------------------------------ reschedule, raise


def test_a_waiting_job_gets_the_time_only(db: None) -> None:
    first = once.enqueue(1)

    second = reschedule.using(run_after=timedelta(hours=1), priority=9).enqueue(2)

    assert said(second) == (False, True)
    assert of(first, f"state, priority, {FIRST_ARGUMENT}, {SECONDS_TO_RUN}") == ("scheduled", 0, "1", 3600)


def test_a_call_that_refuses_duplicates_says_which_job_holds_the_key(db: None) -> None:
    first = refuse.enqueue(1)

    with pytest.raises(DuplicateJob, match=r"expected a free dedupe key, but job .* holds 'k'; nothing was") as caught:
        refuse.enqueue(2)

    assert (caught.value.holder, caught.value.dedupe_key) == (first.id, "k")


def test_a_refused_call_leaves_the_transaction_usable_and_writes_none_of_many(committed: None) -> None:
    refusing = receipt.using(on_conflict="raise")
    refusing.enqueue(1)

    with transaction.atomic():
        with pytest.raises(DuplicateJob):
            refusing.enqueue_many([(2,), (3,), (1,)])
        add.enqueue(1)

    assert count() == 2


# ------------------------------------------------------------------------------------------------ unique_for


def test_a_key_stays_taken_after_its_job_has_ended(db: None) -> None:
    first = daily.enqueue(1)
    run_jobs()

    second = daily.enqueue(2)

    assert (second.id, said(second)) == (first.id, (False, False))
    assert count() == 0


def test_after_the_window_the_key_is_free_unless_a_job_still_holds_it(db: None) -> None:
    first = daily.enqueue(1)
    close_windows()

    assert daily.enqueue(2).id == first.id
    run_jobs()
    third = daily.enqueue(3)

    assert third.created
    assert daily.enqueue(4).id == third.id


def close_windows() -> None:
    db.rows("default", "update djqueue_dedupe_window set until = now() - interval '1 s'")


def test_a_window_counts_within_its_queue(db: None) -> None:
    daily.enqueue(1)

    assert daily.using(queue_name="emails").enqueue(1).created


def test_many_calls_open_a_window_for_each_key(db: None) -> None:
    windowed = receipt.using(unique_for=3600)

    results = windowed.enqueue_many([(1,), (2,), (1,)])
    run_jobs()
    again = windowed.enqueue_many([(3,), (2,), (1,)])

    assert [r.created for r in results] == [True, True, False]
    assert [r.created for r in again] == [True, False, False]
    assert [r.id for r in again[1:]] == [results[1].id, results[0].id]
    assert count("dedupe_window") == 3


def test_a_window_goes_with_its_transaction(committed: None) -> None:
    with transaction.atomic():
        daily.enqueue(1)
        transaction.set_rollback(True)

    assert daily.enqueue(2).created


def test_a_window_may_replace_what_still_waits(db: None) -> None:
    first = daily.using(on_conflict="replace").enqueue(1)

    assert said(daily.using(on_conflict="replace").enqueue(2)) == (False, True)
    assert of(first, FIRST_ARGUMENT) == "2"
    run_jobs()
    assert said(daily.using(on_conflict="replace").enqueue(3)) == (False, False)


def test_a_window_may_refuse(db: None) -> None:
    first = daily.enqueue(1)
    run_jobs()

    with pytest.raises(DuplicateJob, match=first.id):
        daily.using(on_conflict="raise").enqueue(2)


def test_windows_that_are_over_are_pruned(db: None) -> None:
    daily.enqueue(1)
    assert (windows.prune("default"), count("dedupe_window")) == (0, 1)

    close_windows()

    assert (windows.prune("default"), count("dedupe_window")) == (1, 0)


def test_eight_threads_at_once_open_one_window(committed: None) -> None:
    results = all_at_once([lambda n=n: daily.enqueue(n) for n in range(8)])  # type: ignore[misc]

    assert len({result.id for result in results}) == 1
    assert sorted(result.created for result in results) == [False] * 7 + [True]
    assert (count(), count("dedupe_window")) == (1, 1)


def test_when_the_opener_rolls_back_the_second_one_opens_the_window(committed: None) -> None:
    with parties(2) as [first, second]:
        first.begin()
        first.do(daily.enqueue, 1)
        answer = second.start(daily.enqueue, 2)
        second.wait_until_blocked()
        first.rollback()
        result = answer.result(timeout=20)

    assert result.created
    assert row(UUID(result.id), FIRST_ARGUMENT) == "2"


def test_duplicates_in_an_open_window_wait_for_nobody(committed: None, other: Party) -> None:
    daily.enqueue(1)
    run_jobs()
    other.begin()
    assert not other.do(daily.enqueue, 2).created

    assert not daily.enqueue(3).created

    other.commit()


# ------------------------------------------------------------------------------------------------ debounce


def test_each_further_call_moves_the_job(db: None) -> None:
    first = settle.enqueue(1)
    assert of(first, f"state, {SECONDS_TO_RUN}") == ("scheduled", 60)
    bend("run_at = run_at - interval '50 s', created_at = created_at - interval '50 s'", UUID(first.id))

    second = settle.enqueue(2)

    assert (second.id, said(second)) == (first.id, (False, True))
    assert of(first, f"state, {SECONDS_TO_RUN}, {FIRST_ARGUMENT}") == ("scheduled", 60, "1")


def test_the_last_call_s_arguments_count_where_it_replaces(db: None) -> None:
    first = settle.using(on_conflict="replace").enqueue(1)

    settle.using(on_conflict="replace").enqueue(2)

    assert of(first, FIRST_ARGUMENT) == "2"


def test_a_job_is_due_after_the_longest_wait_however_long_the_calls_go_on(db: None) -> None:
    capped = settle.using(debounce_max=100)
    first = capped.enqueue(1)
    bend("created_at = created_at - interval '70 s'", UUID(first.id))

    capped.enqueue(2)
    assert of(first, SECONDS_TO_RUN) == 30

    bend("created_at = created_at - interval '70 s'", UUID(first.id))
    capped.enqueue(3)
    assert of(first) == "ready"


def test_a_longest_wait_below_the_wait_holds_from_the_first_call_on(db: None) -> None:
    assert of(settle.using(debounce_max=10).enqueue(1), SECONDS_TO_RUN) == 10


def test_many_calls_make_one_job(db: None) -> None:
    results = settle.enqueue_many([(n,) for n in range(5)])

    assert [r.created for r in results] == [True] + [False] * 4
    assert count() == 1


# ------------------------------------------------------------------------------------------------ async, tests, others


def test_async_callers_have_the_same_terms(db: None) -> None:
    first = async_to_sync(replace.aenqueue)(1)
    second = async_to_sync(replace.aenqueue)(2)
    [third] = async_to_sync(replace.aenqueue_many)([(3,)])

    assert [said(r) for r in (first, second, third)] == [(True, False), (False, True), (False, True)]


@pytest.mark.parametrize("backend", ["dummy.DummyBackend", "immediate.ImmediateBackend"])
def test_other_backends_take_tasks_with_these_options_and_make_the_same_demands(backend: str) -> None:
    other = {"default": {"BACKEND": f"{type(task_backends).__module__}.backends.{backend}", "QUEUES": []}}
    with override_settings(TASKS=other):
        for each in (replace, reschedule, refuse, daily, settle):
            assert each.enqueue(1, 2).args == [1, 2]
        with pytest.raises(ArgumentsError, match="debounce: expected a dedupe_key"):
            add.using(debounce=3).enqueue(1)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"on_conflict": "update"}, "on_conflict: expected 'ignore', 'replace', 'reschedule' or 'raise', got 'update'"),
    ({"unique_for": 0}, "unique_for: expected more than 0 seconds, got 0"),
    ({"unique_for": "3"}, r"unique_for: expected seconds \(int or float\) or a timedelta, got str"),
    ({"debounce": -1}, "debounce: expected between 0 and"),
    ({"debounce_max": 3}, "debounce_max: expected debounce beside it, got none"),
    ({"debounce": 3, "debounce_max": 0}, "debounce_max: expected more than 0 seconds"),
    ({"debounce": 3, "run_after": timedelta(1)}, "debounce: expected no run_after beside it"),
    ({"debounce": 3, "run_after": timezone.now()}, "debounce: expected no run_after beside it"),
    ({"debounce": 3, "on_conflict": "raise"}, "debounce: expected an on_conflict other than 'raise'"),
]


@pytest.mark.parametrize(("options", "words"), BAD)
def test_wrong_values_are_refused_with_what_was_expected(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidTask, match=words):
        once.using(**options)


@pytest.mark.parametrize("options", [{"on_conflict": "replace"}, {"unique_for": 3}, {"debounce": 3}])
def test_what_speaks_of_a_key_is_refused_without_one(db: None, options: dict[str, Any]) -> None:
    task = add.using(**options)

    with pytest.raises(ArgumentsError, match=f"{next(iter(options))}: expected a dedupe_key"):
        task.enqueue(1)
    with pytest.raises(ArgumentsError, match=f"{next(iter(options))}: expected a dedupe_key"):
        task.enqueue_many([(1,)])
    assert task.using(dedupe_key=lambda *_args, **_kwargs: None).enqueue(1).created


# ------------------------------------------------------------------------------------------------ races


def test_a_replace_beside_another_waits_for_it_and_wins(committed: None) -> None:
    first = once.enqueue(0)
    with parties(2) as [one, two]:
        one.begin()
        one.do(replace.enqueue, 1)
        answer = two.start(replace.enqueue, 2)
        two.wait_until_blocked()
        one.commit()
        assert said(answer.result(timeout=20)) == (False, True)

    assert of(first, FIRST_ARGUMENT) == "2"


def test_a_job_that_is_being_claimed_is_left_alone_and_its_ack_waits_for_nobody(committed: None, other: Party) -> None:
    """The enqueuer waits for the claim, finds the job running, and keeps no lock though its transaction goes on."""
    first = once.enqueue(1)
    other.begin()
    job = other.do(lambda: take_one(queue="default"))
    with parties(1) as [enqueuer]:
        enqueuer.begin()
        answer = enqueuer.start(replace.enqueue, 2)
        enqueuer.wait_until_blocked()
        other.commit()
        assert said(answer.result(timeout=20)) == (False, False)

        db.rows("default", "set lock_timeout to '2s'")
        assert ack(job) == {UUID(first.id)}
        enqueuer.commit()

    assert count() == 0


def test_a_job_under_change_is_claimed_after_the_change_only(committed: None, other: Party) -> None:
    once.enqueue(1)
    other.begin()
    other.do(replace.enqueue, 2)

    assert take(queue="default") == []
    other.commit()

    assert '"args": [2]' in take_one(queue="default").args


@pytest.mark.parametrize("change", [replace, reschedule, settle], ids=["replace", "reschedule", "debounce"])
def test_when_the_holder_ends_meanwhile_the_job_is_created(committed: None, change: Any) -> None:
    first = once.enqueue(1)
    with parties(2) as [person, second]:
        person.begin()
        person.do(operate.cancel, "default", [UUID(first.id)])
        answer = second.start(change.enqueue, 2)
        second.wait_until_blocked()
        person.commit()
        result = answer.result(timeout=20)

    assert said(result) == (True, False)
    assert of(result, FIRST_ARGUMENT) == "2"


def test_one_of_many_that_is_claimed_meanwhile_costs_the_others_nothing(committed: None, other: Party) -> None:
    holders = receipt.enqueue_many([(n,) for n in range(4)])
    other.begin()
    job = other.do(lambda: take_one(queue="default"))
    with parties(1) as [enqueuer]:
        enqueuer.begin()
        answer = enqueuer.start(receipt.using(on_conflict="replace").enqueue_many, [copies(n, 9) for n in range(4)])
        enqueuer.wait_until_blocked()
        other.commit()
        results = answer.result(timeout=20)
        db.rows("default", "set lock_timeout to '2s'")
        assert ack(job) == {UUID(holders[0].id)}
        enqueuer.commit()

    assert [said(r) for r in results] == [(False, False), (False, True), (False, True), (False, True)]


def test_eight_threads_at_once_replace_one_job(committed: None) -> None:
    results = all_at_once([lambda n=n: replace.enqueue(n) for n in range(8)])  # type: ignore[misc]

    assert len({result.id for result in results}) == 1
    assert sorted(said(result) for result in results) == [(False, True)] * 7 + [(True, False)]


def test_two_large_calls_with_the_same_keys_in_opposite_orders_do_not_deadlock(committed: None) -> None:
    changing: Callable[[Any], Any] = receipt.using(on_conflict="replace", unique_for=60).enqueue_many
    rows = [copies(n, 1) for n in range(1_050)]

    one, other = all_at_once([lambda: changing(rows), lambda: changing(rows[::-1])])

    assert [r.id for r in one] == [r.id for r in other[::-1]]
    assert count() == len(rows)


def test_a_locked_change_holds_up_no_promoter(committed: None, other: Party) -> None:
    first = once.using(run_after=timedelta(hours=1)).enqueue(1)
    bend("run_at = now() - interval '1 s'", UUID(first.id))
    other.begin()
    other.do(reschedule.using(run_after=timedelta(hours=2)).enqueue, 2)

    assert recover.promote("default") == 0
    other.commit()

    assert recover.promote("default") == 0
