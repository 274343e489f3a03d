"""`manage.py djqueue why ID`: what it prints, and what it refuses."""

from uuid import uuid4

import pytest
from django.core.management import CommandError

from tests.management.saying import answer, run
from tests.store.factories import add_one, bend

pytestmark = pytest.mark.django_db


def test_every_condition_is_shown_in_order_and_the_first_in_the_way_at_the_end() -> None:
    one = add_one(delay_seconds=60)

    lines = run("why", str(one)).splitlines()

    assert lines[0] == f"t {one} in queue q: scheduled"
    assert lines[1] == "  yes  unfinished: it is scheduled"
    assert lines[3].startswith("  NO   due: was enqueued for later, due at 2")
    assert lines[-1].startswith("It does not run: was enqueued for later")


def test_the_answer_as_data_has_the_documented_shape() -> None:
    one = add_one()
    bend("state = 'parked', parked_for = 'task:t'")

    found = answer("why", str(one))

    assert set(found) == {
        "id", "state", "queue_name", "task_name", "runnable", "conditions", "ahead", "expected_seconds",
    }  # fmt: skip
    assert (found["id"], found["state"], found["runnable"], found["ahead"]) == (str(one), "parked", False, None)
    assert {frozenset(each) for each in found["conditions"]} == {frozenset({"name", "holds", "detail", "until"})}


def test_a_job_that_only_lacks_a_worker_says_so() -> None:
    assert "A claim would take it, but: 0 of 0 live workers serve queue q." in run("why", str(add_one()))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["why", "nonsense"], "expected the id of a job"),
        (["why", str(uuid4())], "which is in no table"),
        (["why"], "required: ID"),
        (["why", str(uuid4()), "--backend", "none"], "--backend: expected"),
    ],
)
def test_what_is_no_job_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        run(*words)
