"""The scheduler itself: it finds what it must find, goes through every order, and goes on past those who wait."""

from math import comb
from typing import Any

import pytest
from django.db import transaction

from djqueue.store import db
from tests.interleavings.orders import Answers, Stage
from tests.store.factories import ALIAS, add_one, row

RAISE = "update djqueue_job set priority = priority + 1 where id = %(id)s"
READ = "select priority from djqueue_job where id = %(id)s"
WRITE = "update djqueue_job set priority = %(to)s where id = %(id)s"


def test_two_parties_of_three_steps_are_played_in_twenty_orders(stage: Stage) -> None:
    orders = set()

    def act(name: str) -> Any:
        def three(log: list[str]) -> None:
            for _ in range(3):
                db.rows(ALIAS, "select 1")
                log.append(name)

        return three

    def judge(log: list[str], _: Answers) -> None:
        orders.add("".join(log))

    assert stage.in_every_order({"a": act("a"), "b": act("b")}, list, judge) == comb(6, 3)
    assert len(orders) == comb(6, 3)


def test_an_update_lost_in_some_orders_is_found(stage: Stage) -> None:
    def read_and_write(id_: Any) -> None:
        [(priority,)] = db.rows(ALIAS, READ, {"id": id_})
        db.rows(ALIAS, WRITE, {"id": id_, "to": priority + 1})

    found: list[int] = []
    two = {"a": read_and_write, "b": read_and_write}
    assert stage.in_every_order(two, add_one, lambda id_, _: found.append(row(id_, "priority"))) == 6
    assert sorted(found) == [1, 1, 1, 1, 2, 2]

    def judge(id_: Any, _: Answers) -> None:
        assert row(id_, "priority") == 2

    with pytest.raises(AssertionError) as caught:
        stage.in_every_order(two, add_one, judge)
    assert "in this order:\n  a: select priority" in caught.value.__notes__[0]


def test_who_waits_for_a_lock_is_passed_over_until_he_has_it(stage: Stage) -> None:
    def raise_it(id_: Any) -> None:
        with transaction.atomic():
            db.rows(ALIAS, RAISE, {"id": id_})

    def judge(id_: Any, _: Answers) -> None:
        assert row(id_, "priority") == 2

    assert stage.in_every_order({"a": raise_it, "b": raise_it}, add_one, judge) >= 4
