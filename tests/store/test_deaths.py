"""Causes of death: noted by whoever ends the job, counted once, told at most so often."""

from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from djqueue.policy.causes import GroupState
from djqueue.policy.fingerprint import fingerprint
from djqueue.store import db, deaths
from djqueue.store.finish import Cause
from tests.store.factories import ALIAS, Party, add, count, fail, read, row, take


def cause(message: str = "no account 7", frame: str = "shop/partner.py:fetch", version: str = "") -> Cause:
    """A cause as a worker makes it."""
    mark = fingerprint("shop.Down", frame, message)
    return Cause(fingerprint=mark, exception="shop.Down", frame=frame, message=message, version=version)


def die(number: int = 1, *, of: Cause | None = None, **fields: Any) -> list[UUID]:
    """So many jobs that die of one cause."""
    ids = add(number, **fields)
    fail(*take(number), final=True, cause=of or cause())
    return ids


def groups(columns: str = "fingerprint, count") -> list[Any]:
    return db.rows(ALIAS, f"select {columns} from djqueue_error_group order by first_seen_at, fingerprint")


def test_a_dead_letter_has_its_fingerprint_and_the_death_is_noted(store: str) -> None:
    [id_] = die(task_name="shop.fetch")

    assert row(id_, "fingerprint", "dead_letter") == cause().fingerprint
    assert db.rows(ALIAS, "select job_id, task_name, exception, frame, message from djqueue_death") == [
        (id_, "shop.fetch", "shop.Down", "shop/partner.py:fetch", "no account 7")
    ]


def test_only_deaths_are_noted(store: str) -> None:
    add(2)
    first, second = take(2)

    fail(first, delay_seconds=5, cause=cause())
    fail(second, cancel=True, final=True, cause=cause())

    assert count("death") == 0


def test_deaths_of_one_cause_make_one_group_whatever_differs_from_job_to_job(store: str) -> None:
    for number in (7, 8, 9):
        die(of=cause(f"no account {number}", version=f"v{number}"), task_name=f"t{number}")
    die(of=cause("out of paper"))

    assert len(deaths.fold(ALIAS)) == 4

    columns = "masked, count::text, (tasks->>0) || (tasks->>1) || (tasks->>2), versions::text, samples->>2, state"
    assert groups(columns) == [
        ("no account #", "3", "t7t8t9", '["v7", "v8", "v9"]', "no account 9", "open"),
        ("out of paper", "1", None, "[]", None, "open"),
    ]


def test_a_death_is_counted_once(store: str) -> None:
    die(3)

    assert [len(deaths.fold(ALIAS)), len(deaths.fold(ALIAS))] == [3, 0]
    assert groups("count") == [(3,)]
    assert count("death") == 0


def test_a_death_without_a_fingerprint_is_told_but_has_no_group(store: str) -> None:
    """As workers of an older version, or tests, leave it."""
    die(of=Cause(message="?"))

    assert [death.message for death in deaths.fold(ALIAS)] == ["?"]
    assert groups() == []


def test_a_resolved_group_is_open_again_with_the_next_death_and_a_muted_one_is_not(store: str) -> None:
    die()
    die(of=cause("paper"))
    deaths.fold(ALIAS)
    mended, quiet = cause().fingerprint, cause("paper").fingerprint
    assert deaths.set_state(ALIAS, [mended], GroupState.RESOLVED) == {mended}
    assert deaths.set_state(ALIAS, [quiet], GroupState.MUTED) == {quiet}
    assert deaths.set_state(ALIAS, [quiet], GroupState.MUTED) == set()

    die()
    die(of=cause("paper"))
    deaths.fold(ALIAS)

    found = dict(
        db.rows(ALIAS, "select fingerprint, state || ' ' || reopened || ' ' || count from djqueue_error_group")
    )
    assert found == {mended: "open 1 2", quiet: "muted 0 2"}


def test_news_of_a_cause_come_at_once_and_then_at_most_so_often(store: str) -> None:
    die(2)
    deaths.fold(ALIAS)
    assert [(news.count, news.group.count) for news in deaths.take_news(ALIAS, 900)] == [(2, 2)]
    assert deaths.take_news(ALIAS, 900) == []

    die(3)
    deaths.fold(ALIAS)
    assert deaths.take_news(ALIAS, 900) == []
    db.rows(ALIAS, "update djqueue_error_group set announced_at = announced_at - interval '901 s'")

    assert [(news.count, news.group.count) for news in deaths.take_news(ALIAS, 900)] == [(3, 5)]


def test_nothing_is_told_of_a_muted_group_not_even_when_it_is_opened_again(store: str) -> None:
    die(2)
    deaths.fold(ALIAS)
    deaths.set_state(ALIAS, [cause().fingerprint], GroupState.MUTED)
    assert deaths.take_news(ALIAS, 0) == []
    deaths.set_state(ALIAS, [cause().fingerprint], GroupState.OPEN)

    assert deaths.take_news(ALIAS, 0) == []


def test_dying_of_a_cause_waits_for_nobody_who_dies_of_the_same(committed: None, other: Party) -> None:
    """An open transaction with a death in it, and a fold in another one, hold nobody up."""
    die()
    add(2)
    mine, theirs = take(2)
    other.begin()
    other.do(lambda: deaths.fold(ALIAS))
    other.do(lambda: fail(theirs, final=True, cause=cause()))

    with transaction.atomic():
        db.rows(ALIAS, "set local lock_timeout = '1s'")
        assert list(fail(mine, final=True, cause=cause()).values()) == ["dead"]
    other.commit()

    assert len(deaths.fold(ALIAS)) == 2
    assert groups("count") == [(3,)]


@pytest.mark.parametrize("message", ["", "'", "%s %(x)s {}", "…" * 1_000])
def test_any_message_can_be_counted(store: str, message: str) -> None:
    die(of=cause(message))

    deaths.fold(ALIAS)

    [(samples,)] = groups("samples")
    assert read(samples) == [message]
