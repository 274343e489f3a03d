"""A walk through the list of jobs, acts on all that match and a job's page, beside real workers."""

import json
from datetime import timedelta

import pytest

from djqueue.models import Job
from testproject.shop import tasks as shop
from testproject.trials import tasks
from tests.browser.conftest import Look
from tests.helpers import eventually
from tests.runtime.test_bulk_acts import FILL
from tests.runtime.trial import Trial, dead, history, rows

pytestmark = pytest.mark.browser

LETTERS = 3_000


def test_all_letters_that_match_are_requeued_and_followed_to_the_end(trial: Trial, look: Look) -> None:
    rows(FILL, "default", json.dumps({"args": [], "kwargs": {}}), LETTERS)
    one = look()

    one.go("djqueue_job_changelist", query="?state=dead&q=queue%3Adefault")
    one.sees(f"{LETTERS:,} match")
    assert one.faults() == []
    one.page.select_option("select[name=all]", "1")
    one.page.click("button[value=requeue]")
    one.sees(f"Requeue: {LETTERS:,} jobs")
    assert one.faults() == []
    assert len(dead()) == LETTERS, "it was only asked"
    one.page.fill("[name=reason]", "the partner is back")
    one.page.click("input[type=submit][value=Requeue]")
    one.sees(f"1,000 of {LETTERS:,}")
    assert one.faults() == []

    trial.supervisor("--processes", "1", "--threads", "4")
    one.sees(f"{LETTERS:,} of {LETTERS:,}", within=60)
    one.sees("finished")
    assert one.said == []
    assert dead() == []


def test_a_waiting_job_is_put_off_copied_and_cancelled_on_its_page(trial: Trial, look: Look) -> None:
    job = tasks.note.using(run_after=timedelta(hours=1)).enqueue("never")
    one = look()
    one.go("djqueue_job_change", job.id)
    one.sees("Timeline")
    assert one.faults() == []

    one.page.click("#djq-change-reschedule summary")
    one.page.fill("[name=reschedule-run_at]", "in 2h")
    one.page.fill("#djq-change-reschedule [name=reschedule-reason]", "not before noon")
    one.page.click("#djq-change-reschedule button")
    one.sees("Reschedule: changed to")

    one.page.click("text=Duplicate with edits")
    assert one.faults() == []
    one.page.fill("[name=arguments]", '{"args": ["copied"], "kwargs": {}}')
    one.page.click("input[type=submit][value='Enqueue a copy']")
    one.sees("Duplicate: enqueued as")
    assert Job.objects.filter(args__args=["copied"]).count() == 1

    one.page.click("button[value=cancel]")
    one.sees("Cancel: 1 cancelled")
    assert one.said == []


def test_who_enqueued_a_job_stands_on_its_page(trial: Trial, look: Look) -> None:
    shop.noop.enqueue()
    trial.supervisor("--processes", "1")
    eventually(lambda: history().get("succeeded") == 1, 30)
    parent = rows("select id from djqueue_history")[0][0]
    child = rows(
        "insert into djqueue_job (id, queue_name, task_name, run_at, state, options) values (gen_random_uuid(), "
        "'images', 'x', now() + interval '1 h', 'scheduled', jsonb_build_object('parent', %s::text)) returning id",
        str(parent),
    )[0][0]
    one = look()

    one.go("djqueue_job_change", child)
    one.page.click(f".djq-family a[href*='{parent}']")
    one.sees("Enqueued")
    assert one.page.url.endswith(f"/history/{parent}/change/")
    assert one.said == []
