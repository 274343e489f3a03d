"""`manage.py djqueue list`, `show`, `enqueue`: what they find, make and refuse."""

import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError
from django.utils import timezone

from djqueue.models import Job
from tests.management.saying import answer, run
from tests.store.factories import PARTITION_FOR_ALL, ack, add_one, bend, fail, take_one

NOOP = "testproject.shop.tasks.noop"
THUMBNAIL = "testproject.shop.tasks.make_thumbnail"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def partition(db: None) -> None:
    from tests.store.factories import db as road

    road.rows("default", PARTITION_FOR_ALL)


def one_of_each() -> dict[str, str]:
    add_one(task_name="done", queue_name="a")
    done = take_one(queue="a")
    ack(done)
    add_one(task_name="lost", queue_name="a", max_attempts=1)
    dead = take_one(queue="a")
    fail(dead, reason="it broke")
    ready = add_one(task_name="next", queue_name="b")
    return {"done": str(done.id), "dead": str(dead.id), "ready": str(ready)}


def test_a_list_shows_jobs_wherever_they_stand_newest_first() -> None:
    ids = one_of_each()

    found = answer("list")

    assert [each["id"] for each in found["jobs"]] == [ids["ready"], ids["dead"], ids["done"]]
    assert [each["state"] for each in found["jobs"]] == ["ready", "dead", "succeeded"]
    assert found["next"] is None
    assert set(found["jobs"][0]) == {
        "id", "state", "task_name", "queue_name", "tenant_id", "priority", "attempts", "max_attempts", "created_at",
        "run_at", "started_at", "ended_at", "note",
    }  # fmt: skip
    assert f"{ids['dead']}  dead " in run("list", "state:dead", "queue:a") and "(it broke)" in run("list", "state:dead")
    assert run("list", "queue:none") == "No jobs.\n"


def test_a_list_goes_on_where_the_page_before_ended() -> None:
    ids = one_of_each()

    first = answer("list", "--limit", "2")
    second = answer("list", "--limit", "2", "--before", first["next"])

    assert [each["id"] for each in second["jobs"]] == [ids["done"]]
    assert f"--before {first['next']}" in run("list", "--limit", "2")


def test_show_gives_every_column_of_the_row_with_its_payload() -> None:
    ids = one_of_each()

    ready, dead, done = (answer("show", ids[name]) for name in ("ready", "dead", "done"))

    assert [each["table"] for each in (ready, dead, done)] == ["job", "dead_letter", "history"]
    assert ready["task_name"] == "next" and ready["args"] == {}
    assert dead["errors"][0]["message"] == "boom" and dead["reason"] == "it broke"
    assert "task_name:           lost\n" in run("show", ids["dead"])


def test_show_leaves_the_payload_out_when_asked_and_redacts_it_when_the_project_says_so(settings: Any) -> None:
    one = str(add_one(args='{"args": ["4111111111111111"], "kwargs": {}}'))
    assert "args" not in answer("show", one, "--no-payload")

    settings.TASKS = {
        "default": {
            "BACKEND": "djqueue.backend.DjqueueBackend",
            "OPTIONS": {"redact": "testproject.trials.mortal.without_card_numbers"},
        }
    }
    assert answer("show", one)["args"] == '{"args": ["[card]"], "kwargs": {}}'


def test_enqueue_writes_a_job_with_the_options_given() -> None:
    found = answer(
        "enqueue", THUMBNAIL, "--args", '["a.png"]', "--kwargs", '{"width": 5}', "--queue", "emails", "--priority", "7",
        "--in", "2h", "--dedupe-key", "k",
    )  # fmt: skip

    job = Job.objects.get()
    assert found == {"id": str(job.id), "created": True, "task": THUMBNAIL, "queue": "emails"}
    assert (job.args, job.priority, job.dedupe_key) == ({"args": ["a.png"], "kwargs": {"width": 5}}, 7, "k")
    assert abs(job.run_at - timezone.now() - timedelta(hours=2)) < timedelta(minutes=1)

    assert "holds the dedupe key already" in run(
        "enqueue", THUMBNAIL, "--args", '["b"]', "--queue", "emails", "--dedupe-key", "k"
    )
    assert Job.objects.count() == 1


def test_enqueue_at_a_moment() -> None:
    run("enqueue", NOOP, "--at", "2040-01-01T00:00+00:00")

    assert Job.objects.get().run_at.isoformat() == "2040-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list", "colour:red"], "colour: is no field"),
        (["list", "--limit", "0"], "--limit: expected a whole number from 1"),
        (["list", "--limit", "many"], "--limit: expected a whole number"),
        (["list", "--before", "x"], "expected the id of a job"),
        (["show"], "required: ID"),
        (["show", "x"], "expected the id of a job"),
        (["show", str(uuid4())], "in no table"),
        (["enqueue"], "required: TASK"),
        (["enqueue", "testproject.shop.tasks.nop"], "did you mean 'testproject.shop.tasks.noop'"),
        (["enqueue", NOOP, "--args", "{}"], "--args: expected a JSON list"),
        (["enqueue", NOOP, "--args", "["], "--args: expected JSON"),
        (["enqueue", NOOP, "--args", "[" * 100_000], "--args: expected JSON, got lists or objects too deep"),
        (["enqueue", NOOP, "--args", "[1, 2]"], "enqueue: .*expected noop"),
        (["enqueue", NOOP, "--queue", "nowhere"], "enqueue: .*nowhere"),
        (["enqueue", NOOP, "--priority", "101"], "--priority: expected a whole number from -100 to 100"),
        (["enqueue", NOOP, "--in", "soon"], "--in: expected a duration"),
        (["enqueue", NOOP, "--at", "soon"], "--at: expected a date"),
        (["enqueue", NOOP, "--in", "1h", "--at", "2040-01-01"], "--in or --at, got both"),
        (["list", "--backend", "none"], "--backend: expected"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(words: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        run(*words)
    assert not Job.objects.exists()


def test_a_parked_job_says_why_in_the_list() -> None:
    add_one()
    bend("state = 'parked', parked_for = 'paused:t'")

    assert "(paused:t)" in run("list")
    assert json.loads(json.dumps(answer("list")))["jobs"][0]["state"] == "parked"
