"""The leader lease: one holder by the database's clock, a term that grows with every new one."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections, transaction

from djqueue.store import db, leader
from tests.helpers import BLOCKED, eventually, raw_connection

pytestmark = pytest.mark.usefixtures("live_database")


def let_it_end() -> None:
    db.rows("default", "update djqueue_leader set until = clock_timestamp() - interval '1 ms'")


def test_the_first_to_ask_leads() -> None:
    assert leader.acquire("default", "cron", "a", 10) == leader.Lead(term=1)
    assert leader.acquire("default", "cron", "b", 10) is None


def test_the_holder_renews_without_a_new_term() -> None:
    leader.acquire("default", "cron", "a", 10)

    assert leader.acquire("default", "cron", "a", 500) == leader.Lead(term=1)
    assert db.rows("default", "select until > clock_timestamp() + interval '400 s' from djqueue_leader") == [(True,)]


def test_the_holder_renews_after_its_end_when_nobody_came() -> None:
    leader.acquire("default", "cron", "a", 10)
    let_it_end()

    assert leader.acquire("default", "cron", "a", 10) == leader.Lead(term=1)


def test_the_term_grows_with_every_new_holder() -> None:
    leader.acquire("default", "cron", "a", 10)
    let_it_end()
    assert leader.acquire("default", "cron", "b", 10) == leader.Lead(term=2)
    let_it_end()

    assert leader.acquire("default", "cron", "a", 10) == leader.Lead(term=3)


def test_a_released_lease_is_free_at_once_and_keeps_its_term() -> None:
    leader.acquire("default", "cron", "a", 10)

    assert leader.release("default", "cron", "a")
    assert leader.acquire("default", "cron", "b", 10) == leader.Lead(term=2)


def test_only_the_holder_can_release() -> None:
    leader.acquire("default", "cron", "a", 10)

    assert not leader.release("default", "cron", "b")
    assert leader.acquire("default", "cron", "b", 10) is None


def test_duties_have_leases_of_their_own() -> None:
    leader.acquire("default", "cron", "a", 10)

    assert leader.acquire("default", "other", "b", 10) == leader.Lead(term=1)


def test_of_many_that_ask_at_once_one_leads() -> None:
    start = threading.Barrier(6)

    def ask(holder: int) -> leader.Lead | None:
        try:
            start.wait()
            return leader.acquire("default", "cron", str(holder), 10)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(ask, range(6)))

    assert [answer for answer in answers if answer] == [leader.Lead(term=1)]


def test_who_waited_for_the_row_looks_at_the_lease_as_it_is_then() -> None:
    leader.acquire("default", "cron", "a", 10)
    let_it_end()
    answers: list[leader.Lead | None] = []

    def ask() -> None:
        try:
            answers.append(leader.acquire("default", "cron", "c", 10))
        finally:
            connections.close_all()

    with raw_connection() as other, transaction.atomic():
        assert leader.acquire("default", "cron", "b", 10) == leader.Lead(term=2)
        waiter = threading.Thread(target=ask)
        waiter.start()
        eventually(lambda: other.execute(BLOCKED).fetchall())
    waiter.join()

    assert answers == [None]
