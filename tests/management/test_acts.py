"""`manage.py djqueue retry`, `cancel`, `requeue`, `prune`: what they change, what they leave, what they refuse."""

from uuid import uuid4

import pytest
from django.core.management import CommandError

from djqueue.models import DeadLetter, History, Job
from tests.management.saying import answer, partly, run
from tests.store.factories import PARTITION_FOR_ALL, add, add_one, fail, row, take, take_one

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def partition(db: None) -> None:
    from tests.store.factories import db as road

    road.rows("default", PARTITION_FOR_ALL)


def died(count: int = 1, **fields: object) -> list[str]:
    add(count, max_attempts=1, **fields)
    jobs = take(count, queue=str(fields.get("queue_name", "q")))
    fail(*jobs)
    return [str(job.id) for job in jobs]


def test_retry_starts_what_waits_and_says_what_it_left() -> None:
    later = add_one(delay_seconds=60)
    ready = add_one()

    code, found = partly("retry", str(later), str(ready), str(uuid4()))

    assert code == 3
    assert found == {"act": "retry", "done": 1, "refused": {"ready already": 1, "ended or moved meanwhile": 1}}
    assert row(later) == "ready"


def test_cancel_by_ids_and_by_search() -> None:
    one, *others = add(3)
    kept = add_one(queue_name="kept")

    assert run("cancel", str(one)) == "1 cancelled, or asked to stop.\n"
    assert partly("cancel", "--matching", "queue:q") == (0, {"act": "cancel", "done": 2, "refused": {}})

    assert [job.id for job in Job.objects.all()] == [kept]
    assert History.objects.filter(outcome="cancelled").count() == 3
    assert len(others) == 2


def test_requeue_by_id_and_by_search() -> None:
    one, *_ = died(3)
    [other] = died(queue_name="r")

    assert run("requeue", one) == "1 queued again.\n"
    assert answer("requeue", "--matching", "queue:q")["done"] == 2

    assert [str(letter.id) for letter in DeadLetter.objects.all()] == [other]
    assert Job.objects.filter(state="ready").count() == 3


def test_a_dead_letter_whose_key_is_taken_is_left() -> None:
    add_one(dedupe_key="k", max_attempts=1)
    job = take_one()
    fail(job)
    add_one(dedupe_key="k")

    code, found = partly("requeue", str(job.id))

    assert (code, found["done"], list(found["refused"].values())) == (3, 0, [1])


@pytest.mark.parametrize("act", ["retry", "cancel", "requeue"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "expected ids of jobs or --matching, got none"),
        (["x"], "expected the id of a job"),
        (["--matching", ""], "expected a search"),
        (["--matching", "colour:red"], "colour: is no field"),
        ([str(uuid4()), "--matching", "queue:q"], "got both"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_changed(act: str, words: list[str], said: str) -> None:
    add(2)

    with pytest.raises(CommandError, match=said):
        run(act, *words)
    assert Job.objects.filter(state="ready").count() == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["prune", "--history-days", "-1"], "--history-days: expected a whole number from 0"),
        (["prune", "--dead-letter-days", "0"], "--dead-letter-days: expected a whole number from 1"),
        (["prune", "--history-days", "all"], "--history-days: expected a whole number"),
    ],
)
def test_days_out_of_their_limits_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        run(*words)
