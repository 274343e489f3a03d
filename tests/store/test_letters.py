"""What people do with dead letters, and what time does to them."""

from uuid import uuid4

from django.db import transaction

from djqueue.store import db, letters, operate
from djqueue.store.letters import EditAnswer, Letters
from djqueue.store.operate import Requeued
from tests.store.factories import ALIAS, NO_PARTITIONS, Party, add, add_one, count, fail, read, row, take
from tests.store.test_deaths import cause, die


def all_of(**wanted: str) -> tuple[int, int]:
    """Requeue what matches; return how many were and how many were refused."""
    answers: list[Requeued] = list(letters.requeue_matching(ALIAS, Letters(**wanted)))  # type: ignore[arg-type]
    return sum(len(each.ids) for each in answers), sum(len(each.refused) for each in answers)


def test_all_letters_of_a_cause_are_requeued_and_no_others(store: str) -> None:
    die(3)
    die(2, of=cause("paper"))

    assert all_of(fingerprint=cause().fingerprint) == (3, 0)
    assert (count("job", "state = 'ready' and attempts = 0"), count("dead_letter")) == (3, 2)


def test_letters_are_requeued_by_queue_and_task_and_all(store: str) -> None:
    for task in ("a", "b"):
        die(2, task_name=task)
    add(1, queue_name="other", task_name="a")
    fail(*take(1, queue="other"), final=True, cause=cause())

    assert all_of(queue_name="q", task_name="a") == (2, 0)
    assert all_of(task_name="a") == (1, 0)
    assert all_of() == (2, 0)


def test_a_letter_whose_key_is_taken_is_refused_alone(store: str) -> None:
    """R8."""
    die(1, dedupe_key="k")
    die(2)
    add_one(dedupe_key="k")

    assert all_of(fingerprint=cause().fingerprint) == (2, 1)
    assert count("dead_letter") == 1


def test_more_letters_than_one_batch_are_all_requeued(store: str, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(letters, "BATCH", 7)
    die(20)

    assert [len(each.ids) for each in letters.requeue_matching(ALIAS, Letters())] == [7, 7, 6]


def test_at_most_so_many_are_requeued_when_asked(store: str) -> None:
    die(5)

    assert sum(len(each.ids) for each in letters.requeue_matching(ALIAS, Letters(), most=3)) == 3
    assert count("dead_letter") == 2


def test_a_job_that_dies_again_meanwhile_is_not_taken_twice(committed: None, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(letters, "BATCH", 2)
    die(4)
    taken = []

    for answer in letters.requeue_matching(ALIAS, Letters()):
        taken += answer.ids
        fail(*take(9), final=True, cause=cause())

    assert len(taken) == len(set(taken)) == 4


def test_a_letter_is_requeued_with_other_arguments_and_the_old_ones_stay_with_the_job(store: str) -> None:
    [id_] = die(args='{"args": [1], "kwargs": {}}', options='{"tags": ["x"]}')

    assert letters.requeue_edited(ALIAS, id_, '{"args": [2], "kwargs": {}}', by="ada") is EditAnswer.REQUEUED

    args, options = map(read, row(id_, "args, options"))
    assert args == {"args": [2], "kwargs": {}}
    assert options["tags"] == ["x"]
    [former] = options["former_args"]
    assert (former["args"], former["by"]) == ({"args": [1], "kwargs": {}}, "ada")


def test_the_last_three_arguments_are_kept(store: str) -> None:
    [id_] = die(args="0")
    for number in range(1, 6):
        assert letters.requeue_edited(ALIAS, id_, str(number)) is EditAnswer.REQUEUED
        fail(*take(1), final=True, cause=cause())

    former = read(row(id_, "options", "dead_letter"))["former_args"]
    assert [each["args"] for each in former] == [4, 3, 2]


def test_an_edit_whose_key_is_taken_changes_nothing(store: str) -> None:
    [id_] = die(args="1", dedupe_key="k")
    add_one(dedupe_key="k")
    before = row(id_, "d.*", "dead_letter d")

    assert letters.requeue_edited(ALIAS, id_, "2") is EditAnswer.KEY_TAKEN
    assert row(id_, "d.*", "dead_letter d") == before


def test_an_edit_of_what_is_no_letter_is_answered_so(store: str) -> None:
    assert letters.requeue_edited(ALIAS, uuid4(), "2") is EditAnswer.GONE


def test_a_discarded_letter_is_history_with_its_reason(store: str) -> None:
    [id_] = die(dedupe_key="k")

    assert letters.discard(ALIAS, [id_, uuid4()], reason="the order is void", by="ada") == {id_}

    outcome, errors = row(id_, "outcome, errors", "history")
    assert (outcome, count("dead_letter")) == ("cancelled", 0)
    last = read(errors)[1]
    assert [entry.get("message") for entry in read(errors)] == ["boom", "the order is void"]
    assert (last["kind"], last["by"]) == ("discarded", "ada")


def test_a_discard_on_a_day_without_a_partition_goes_to_the_overflow(store: str) -> None:
    ids = die(2)
    db.rows(ALIAS, NO_PARTITIONS)

    assert letters.discard(ALIAS, ids, reason="x") == set(ids)
    assert count("history_overflow") == 2


def test_a_letter_that_blocked_its_ordering_key_lets_it_go_when_it_is_discarded(store: str) -> None:
    [id_] = die()
    db.rows(ALIAS, "update djqueue_dead_letter set ordering_key = 'o'")
    db.rows(
        ALIAS, "insert into djqueue_key_block (queue_name, ordering_key, job_id) values ('q', 'o', %(id)s)", {"id": id_}
    )

    letters.discard(ALIAS, [id_], reason="x")

    assert (count("key_block"), count("wake")) == (0, 1)


def test_of_two_who_want_a_letter_only_the_first_gets_it(committed: None, other: Party) -> None:
    [id_] = die()
    with transaction.atomic():
        assert letters.discard(ALIAS, [id_], reason="x") == {id_}
        theirs = other.start(operate.requeue, ALIAS, [id_])
        other.wait_until_blocked()

    assert theirs.result(20) == Requeued(ids=[], refused=[])
    assert (count("job"), count("history")) == (0, 1)


def test_letters_are_kept_until_an_option_says_otherwise_then_pruned_by_age(store: str) -> None:
    old, young = die(2)
    db.rows(ALIAS, "update djqueue_dead_letter set died_at = died_at - interval '31 d' where id = %(id)s", {"id": old})

    assert letters.prune(ALIAS, 30) == 1
    assert row(young, "id", "dead_letter") == young


def test_letters_are_counted(store: str) -> None:
    die(3)
    die(2, of=cause("paper"))

    assert letters.count(ALIAS, Letters()) == 5
    assert letters.count(ALIAS, Letters(fingerprint=cause("paper").fingerprint)) == 2


def test_the_entry_of_a_failed_attempt_says_when_it_began_and_ended(store: str) -> None:
    add_one()

    fail(*take(1), final=True, began_ago=2.0)

    [(entry, seconds)] = db.rows(
        ALIAS,
        "select errors->0, extract(epoch from (errors->0->>'at')::timestamptz - "
        "(errors->0->>'started_at')::timestamptz)::float8 from djqueue_dead_letter",
    )
    assert read(entry)["message"] == "boom"
    assert abs(seconds - 2.0) < 0.01
