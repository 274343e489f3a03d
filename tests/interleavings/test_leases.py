"""A lease and those who would end it: in every order the job is in one place, charged once, and only one of them says
that it was he (R1, R2, R3)."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from djqueue.store import claim as claims
from djqueue.store import db, expire, finish, lease, recover
from djqueue.store.claim import Claimed
from djqueue.store.lease import Beat
from tests.interleavings.orders import Answers, Stage
from tests.interleavings.sound import assert_sound, place
from tests.store.factories import (
    ALIAS,
    ack,
    add,
    add_one,
    bend,
    fail,
    failure,
    lease_of,
    read,
    request,
    row,
    take,
    take_one,
)


def expired(**fields: Any) -> Claimed:
    """A job in the hands of `w1` whose lease has run out."""
    add_one(**fields)
    job = take_one()
    bend("lease_until = clock_timestamp() - interval '1 s'")
    return job


def reap() -> int:
    """One turn of a keeper's reaper; how many leases it has ended."""
    with db.one_transaction(ALIAS):
        found = recover.overdue(ALIAS, 25)
        return len(finish.fail(ALIAS, [failure(row, crash=True) for row in found])) if found else 0  # type: ignore[arg-type]


def in_a_transaction(action: Callable[[], Any]) -> Any:
    """As a worker's exchange does: the end of the transaction is a step of its own."""
    with transaction.atomic():
        return action()


def charged_once(job: Claimed, ends: str) -> None:
    """It was reaped: one attempt, one entry, a higher token."""
    assert place(job.id) == ends
    table = "dead_letter" if ends == "dead" else "job"
    attempts, token, errors = row(job.id, "attempts, lease_token, errors", table)
    assert (attempts, len(read(errors))) == (1, 1)
    assert token > job.lease_token or ends == "dead"


@pytest.mark.parametrize(("most", "reaped"), [(8, "ready"), (1, "dead")])
def test_an_ack_and_the_reaper(stage: Stage, most: int, reaped: str) -> None:
    def judge(job: Claimed, said: Answers) -> None:
        assert_sound([job.id])
        assert bool(said["ack"]) + said["reap"] == 1
        if said["ack"]:
            assert place(job.id) == "succeeded"
        else:
            charged_once(job, reaped)

    actions = {"ack": lambda job: in_a_transaction(lambda: ack(job)), "reap": lambda _: reap()}
    assert stage.in_every_order(actions, lambda: expired(max_attempts=most), judge) >= 6


def test_a_failure_and_the_reaper_charge_once(stage: Stage) -> None:
    def judge(job: Claimed, said: Answers) -> None:
        assert_sound([job.id])
        assert bool(said["fail"]) + said["reap"] == 1
        charged_once(job, "scheduled" if said["fail"] else "ready")

    actions = {"fail": lambda job: in_a_transaction(lambda: fail(job, delay_seconds=60)), "reap": lambda _: reap()}
    assert stage.in_every_order(actions, expired, judge) >= 6


@pytest.mark.parametrize("way", ["release", "snooze", "set aside"])
def test_a_job_given_back_and_the_reaper(stage: Stage, way: str) -> None:
    def give_back(job: Claimed) -> Any:
        match way:
            case "release":
                return lease.release(ALIAS, [lease_of(job)], interrupted=True)
            case "snooze":
                return lease.snooze(ALIAS, [lease_of(job)], [60])
            case _:
                return lease.set_aside(ALIAS, [lease_of(job)])

    def judge(job: Claimed, said: Answers) -> None:
        assert_sound([job.id])
        assert bool(said["back"]) + said["reap"] == 1
        if said["back"]:
            assert row(job.id, "attempts, interruptions") == (0, int(way == "release"))
        else:
            charged_once(job, "ready")

    actions = {"back": lambda job: in_a_transaction(lambda: give_back(job)), "reap": lambda _: reap()}
    assert stage.in_every_order(actions, expired, judge) >= 6


def test_a_heartbeat_and_the_reaper(stage: Stage) -> None:
    """Either the lease goes on, or it is ended; a heartbeat that met the reaper's lock says neither, and asks again."""

    def judge(job: Claimed, said: Answers) -> None:
        assert_sound([job.id])
        if said["reap"]:
            charged_once(job, "ready")
        else:
            assert row(job.id, "state, lease_token, lease_until > clock_timestamp()") == (
                "leased",
                job.lease_token,
                True,
            )
            assert said["beat"].lost == set()
        assert said["beat"].lost <= {job.id}

    def beat(job: Claimed) -> Any:
        return in_a_transaction(lambda: lease.heartbeat(ALIAS, [Beat(job.id, job.lease_token, 1.0)], 30))

    assert stage.in_every_order({"beat": beat, "reap": lambda _: reap()}, expired, judge) >= 6


def test_two_reapers_charge_once(stage: Stage) -> None:
    def judge(job: Claimed, said: Answers) -> None:
        assert_sound([job.id])
        assert said["one"] + said["two"] == 1
        charged_once(job, "ready")

    assert stage.in_every_order({"one": lambda _: reap(), "two": lambda _: reap()}, expired, judge) >= 6


def test_a_late_ack_the_reaper_and_the_next_claim(stage: Stage) -> None:
    """The frozen worker's ack counts before the reaper has come, and never after."""

    def judge(job: Claimed, said: Answers) -> None:
        assert_sound([job.id])
        if said["ack"]:
            assert (place(job.id), said["reap"], said["claim"]) == ("succeeded", 0, [])
        else:
            assert said["reap"] == 1
            assert place(job.id) in ("ready", "leased")
            assert [each.attempts for each in said["claim"]] in ([], [2])
            assert all(each.lease_token > job.lease_token for each in said["claim"])

    def claim(_: Claimed) -> list[Claimed]:
        return claims.claim_suspect(ALIAS, request(1, worker_id="w2"), ["q"])  # what was reaped is a suspect

    actions = {"ack": lambda job: in_a_transaction(lambda: ack(job)), "reap": lambda _: reap(), "claim": claim}
    assert stage.in_every_order(actions, expired, judge) >= 30


def test_two_claims_never_take_the_same_job(stage: Stage) -> None:
    def judge(ids: list[Any], said: Answers) -> None:
        assert_sound(ids)
        one, two = ({job.id for job in said[name]} for name in ("one", "two"))
        assert not one & two
        assert {id_ for id_ in ids if place(id_) == "leased"} == one | two

    def claim_twice(_: Any) -> list[Claimed]:
        first: list[Claimed] = in_a_transaction(lambda: take(2, worker_id="w2"))
        return first + take(3, worker_id="w2")

    actions = {"one": lambda _: in_a_transaction(lambda: take(2)), "two": claim_twice}
    assert stage.in_every_order(actions, lambda: add(3), judge) >= 6


def test_two_promoters_make_a_job_ready_once_and_a_claim_takes_it_once(stage: Stage) -> None:
    def arrange() -> Any:
        id_ = add_one(delay_seconds=60)
        recover.make_due(ALIAS)
        return id_

    def judge(id_: Any, said: Answers) -> None:
        assert_sound([id_])
        assert said["one"] + said["two"] == 1
        assert place(id_) == ("leased" if said["claim"] else "ready")

    def promote(_: Any) -> Any:
        return in_a_transaction(lambda: recover.promote(ALIAS))

    actions = {"one": promote, "two": promote, "claim": lambda _: take(1)}
    assert stage.in_every_order(actions, arrange, judge) >= 20


def test_an_expiry_and_a_claim(stage: Stage) -> None:
    """Whichever comes first: claimed, and then refused at the start; or ended, and never claimed."""

    def arrange() -> Any:
        id_ = add_one(expires_seconds=1)
        bend("expires_at = clock_timestamp() - interval '1 s'")
        return id_

    def judge(id_: Any, said: Answers) -> None:
        assert_sound([id_])
        assert len(said["claim"]) + len(said["expire"]) == 1
        assert place(id_) == "cancelled"

    def claim(_: Any) -> list[Claimed]:
        jobs: list[Claimed] = in_a_transaction(lambda: take(1))
        assert all(job.expires_in is not None and job.expires_in < 0 for job in jobs)
        if jobs:
            assert expire.refuse(ALIAS, [lease_of(job) for job in jobs]) == {jobs[0].id}
        return jobs

    actions = {"claim": claim, "expire": lambda _: in_a_transaction(lambda: expire.end_overdue(ALIAS))}
    assert stage.in_every_order(actions, arrange, judge) >= 6
