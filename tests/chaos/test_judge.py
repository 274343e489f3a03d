"""The chaos bench's verdict finds what it is there to find: each figure, for a ledger that is wrong in that way."""

from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from benchmarks.chaos.judge import judge
from djqueue.store.claim import Claimed
from testproject.shop.models import PartnerCall
from tests.store.factories import PARTITION_FOR_ALL, ack, add, bend, fail, take


class Account:
    """A ledger that is written line by line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.committed: dict[str, str] = {}

    def job(self, label: str, job: Claimed, *words: str, token: int = 0, pid: int = 1, at: float = 0) -> None:
        """Lines of a run of a committed job: `begin`, `end`."""
        self.committed[str(job.id)] = label.split()[0]
        with self.path.open("a") as file:
            for word in words or ("begin", "end"):
                file.write(f"{label}\t{word} {job.id} {token or job.lease_token} {at}\t{pid}\t0\n")

    def figures(self, *kills: tuple[float, int]) -> dict[str, Any]:
        return judge(self.path, self.committed, kills)


@pytest.fixture
def account(db: None, tmp_path: Path) -> Account:
    with connection.cursor() as cursor:
        cursor.execute(PARTITION_FOR_ALL)
    return Account(tmp_path / "ledger")


def done(count: int = 1) -> list[Claimed]:
    """Jobs that have succeeded."""
    add(count)
    jobs = take(count)
    ack(*jobs)
    return jobs


def wrong(figures: dict[str, Any]) -> dict[str, Any]:
    """The figures that are not as they should be."""
    keys = ("lost", "doubled_atomic", "over_attempts", "order_broken", "limit_broken", "doubly_ended", "unfinished")
    keys += ("duplicates", "duplicates_unexplained")
    return {key: figures[key] for key in keys if figures[key]}


def test_a_good_account_has_nothing_wrong(account: Account) -> None:
    one, two, three, four = done(4)
    account.job("plain 1", one)
    account.job("ordered 7 2", two)
    account.job("ordered 7 3", three)
    account.job("atomic 4", four)
    PartnerCall.objects.create(order_id=4, attempt=1, succeeded=True)

    assert wrong(account.figures()) == {}
    assert account.figures()["succeeded"] == 4


def test_a_job_that_is_nowhere_is_lost_and_one_that_never_ended_is_unfinished(account: Account) -> None:
    [one] = done()
    account.job("plain 1", one)
    add(1)
    with connection.cursor() as cursor:
        cursor.execute("delete from djqueue_history")

    assert wrong(account.figures()) == {"lost": 1, "unfinished": 1}


@pytest.mark.parametrize("effects", [0, 2])
def test_an_atomic_job_without_its_effect_or_with_two_is_found(account: Account, effects: int) -> None:
    [one] = done()
    account.job("atomic 5", one)
    for _ in range(effects):
        PartnerCall.objects.create(order_id=5, attempt=1, succeeded=True)

    assert wrong(account.figures()) == {"doubled_atomic": 1}


def test_the_effect_of_an_atomic_job_that_died_is_found(account: Account) -> None:
    add(1)
    [one] = take(1)
    fail(one, final=True)
    account.job("atomic 6", one, "begin")
    PartnerCall.objects.create(order_id=6, attempt=1, succeeded=True)

    assert wrong(account.figures()) == {"doubled_atomic": 1}


def test_more_starts_than_attempts_and_interruptions_are_found(account: Account) -> None:
    [one] = done()
    account.job("failing 1", one)
    for token in range(1, 4):
        account.job("failing 1", one, "begin", token=token)

    assert wrong(account.figures()) == {"over_attempts": 1, "duplicates_unexplained": 1}


def test_a_second_end_is_a_duplicate_and_explained_by_a_charged_attempt(account: Account) -> None:
    add(1)
    bend("attempts = 1, worker_ids = '{w0}'")
    [one] = take(1)
    ack(one)
    account.job("plain 1", one, token=1)
    account.job("plain 1", one)

    assert wrong(account.figures()) == {"duplicates": 1}


def test_a_job_of_a_key_that_began_before_the_one_before_had_ended_is_found(account: Account) -> None:
    one, two = done(2)
    account.job("ordered 7 1", one, "begin")
    account.job("ordered 7 2", two)
    account.job("ordered 7 1", one, "end")

    assert wrong(account.figures()) == {"order_broken": 1}


def test_a_run_beyond_the_limit_is_found_and_one_that_lost_its_lease_does_not_count(account: Account) -> None:
    jobs = done(4)
    for number, job in enumerate(jobs):
        account.job(f"limited {number}", job, "begin", token=number + 1)  # frozen, for ever
    for number, job in enumerate(jobs):
        account.job(f"limited {number}", job, "begin")
    for number, job in enumerate(jobs):
        account.job(f"limited {number}", job, "end")

    assert wrong(account.figures()) == {"limit_broken": 1, "duplicates_unexplained": 4}


def test_recovery_is_the_time_from_the_death_of_a_process_to_the_next_start(account: Account) -> None:
    [one] = done()
    account.job("plain 1", one, "begin", token=1, pid=77, at=10)
    account.job("plain 1", one, at=14.5)

    assert account.figures((12.0, 77))["recovery_p99_seconds"] == 2.5
