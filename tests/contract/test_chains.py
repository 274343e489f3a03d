"""Chains: what is refused, what is written, and what becomes of the rest when a step does not succeed."""

import uuid
from typing import Any

import pytest
from django.db import connection, transaction

from djqueue import EnqueueError, chain
from djqueue.store import operate
from djqueue.testing import run_jobs
from testproject.shop.tasks import send_receipt
from testproject.trials import ledger, long

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def path(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv(ledger.VARIABLE, str(tmp_path / "ledger"))
    return tmp_path / "ledger"


def done(path: Any) -> list[str]:
    return [line.label for line in ledger.read(path) if line.event == "link"]


def states() -> list[str]:
    sql = "select state from djqueue_job union all select outcome from djqueue_history union all select 'dead' from "
    with connection.cursor() as cursor:
        cursor.execute(sql + "djqueue_dead_letter order by 1")
        return [row[0] for row in cursor.fetchall()]


def three(how: str = "") -> list[Any]:
    return chain(long.link.s("a"), long.link.s("b", how), long.link.s("c")).enqueue()


def test_each_step_starts_after_the_one_before(path: Any) -> None:
    three()
    assert states() == ["parked", "parked", "ready"]

    assert run_jobs().succeeded == 3

    assert done(path) == ["a", "b", "c"]


def test_a_dead_step_holds_the_rest_until_it_is_requeued(path: Any) -> None:
    _, middle, _ = three("die once")
    run_jobs()
    assert (done(path), states()) == (["a"], ["dead", "parked", "succeeded"])

    operate.requeue("default", [uuid.UUID(middle.id)])
    run_jobs()

    assert done(path) == ["a", "b", "c"]


def test_a_step_that_cancels_itself_cancels_the_rest(path: Any) -> None:
    three("cancel")

    run_jobs()

    assert (done(path), states()) == (["a"], ["cancelled", "cancelled", "succeeded"])


def test_a_cancelled_waiting_step_cancels_those_after_it(path: Any) -> None:
    _, middle, _ = three()
    operate.cancel("default", [uuid.UUID(middle.id)])

    run_jobs()

    assert (done(path), states()) == (["a"], ["cancelled", "cancelled", "succeeded"])


def test_a_chain_is_rolled_back_with_the_transaction() -> None:
    with transaction.atomic():
        three()
        transaction.set_rollback(True)

    assert states() == []


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((), "expected 1 to 1,000 steps"),
        ((long.link,), "expected signatures"),
        ((long.link.s("a"), send_receipt.s(1)), "expected the queue of the first step"),
        ((long.link.using(dedupe_key="x").s("a"),), "expected a step without dedupe_key"),
        ((long.link.using(expires_after=3).s("a"),), "expected a step without expires_after"),
    ],
)
def test_steps_that_cannot_follow_one_another_are_refused(steps: Any, words: str) -> None:
    with pytest.raises(EnqueueError, match=words):
        chain(*steps)


def test_a_signature_is_validated_when_it_is_made() -> None:
    with pytest.raises(EnqueueError, match="too many"):
        long.link.s("a", "", 3, 4)  # type: ignore[call-arg]
