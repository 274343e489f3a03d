"""A walk through the admin beside real workers: what one does there happens, and what happens can be seen there."""

import re
from datetime import timedelta

import pytest

from djqueue.models import CronEntry, ErrorGroup, Queue, Replay, Worker
from testproject.shop import tasks as shop
from testproject.trials import tasks
from tests.browser.conftest import Look
from tests.helpers import eventually
from tests.runtime.trial import Trial, dead, live, rows

pytestmark = pytest.mark.browser

OPTIONS = {"lease_seconds": 3, "heartbeat_seconds": 0.3, "code_version": "2026.1"}


def worker_ids() -> set[str]:
    return set(Worker.objects.values_list("id", flat=True))


def test_from_enqueue_to_replay(trial: Trial, look: Look) -> None:
    """Enqueue, see it run, see it done; see others fail, find their cause, mend it, replay them."""
    trial.supervisor("--processes", "1", "--threads", "2", options=OPTIONS)
    eventually(worker_ids, 20)
    one = look()
    one.overview()
    one.sees("Healthy")

    held = tasks.hold.enqueue("long", trial.file("go"))
    one.go("djqueue_job_changelist")
    one.sees("running")
    one.page.click(f"a[href*='{held.id}']")
    one.sees("testproject.trials.tasks.hold")
    trial.make("go")
    one.go("djqueue_job_changelist", query="?state=succeeded")
    one.sees(held.id)

    for number in range(12):
        tasks.need.enqueue(f"n{number}", trial.file("mended"))
    eventually(lambda: len(dead()) == 12, 20)
    eventually(ErrorGroup.objects.exists)
    one.overview()
    one.sees("New cause of death")
    one.page.click(".djq-alarms a:has-text('New cause of death')")
    one.sees("the partner is away")

    trial.make("mended")
    one.go("djqueue_errorgroup_changelist")
    one.act("Replay at a rate…")
    one.page.fill("#id_per_second", "100")
    one.page.fill("#id_canary", "2")
    one.page.click("[name=_save]")
    eventually(Replay.objects.exists)
    one.go("djqueue_replay_change", Replay.objects.get().pk)
    one.sees("12 succeeded, 0 failed")
    one.sees("finished")
    assert dead() == []


def test_a_paused_queue_holds_its_jobs_and_a_resumed_one_lets_them_go(trial: Trial, look: Look) -> None:
    trial.supervisor("--processes", "1", "--threads", "2", options=OPTIONS)
    eventually(worker_ids, 20)
    Queue.objects.get_or_create(name="images")
    one = look()
    one.go("djqueue_queue_changelist", query="?q=")
    one.page.check("tr:has(a:text-is('images')) input[name=_selected_action]")
    one.page.select_option("select[name=action]", label="Pause")
    one.page.fill("#changelist-form [name=reason]", "the partner moves")
    one.page.click("#changelist-form button[name=index]")
    one.sees("1 paused for an hour")
    one.sees("the partner moves")
    eventually(lambda: rows("select 1 from djqueue_queue where paused_until > now() and name = 'images'"))

    # A job of the paused queue, then one of an open queue: when that is done, the workers have passed the first one by.
    shop.make_thumbnail.enqueue("held", 3)
    tasks.note.enqueue("passes")
    trial.wait_for_starts("passes")
    one.go("djqueue_job_changelist", query="?q=queue%3Aimages")
    one.sees("make_thumbnail")
    assert [state for _, state, *_ in live()] == ["ready"]

    one.go("djqueue_queue_changelist")
    one.page.check("tr:has(a:text-is('images')) input[name=_selected_action]")
    one.page.select_option("select[name=action]", label="Resume")
    one.page.click("#changelist-form button[name=index]")
    one.sees("1 resumed")
    trial.wait_until_done()
    one.go("djqueue_job_changelist", query="?state=succeeded&q=queue%3Aimages")
    one.sees("make_thumbnail")


def test_acts_on_workers_entries_orphans_and_whole_queues(trial: Trial, look: Look) -> None:
    trial.supervisor("--processes", "1", "--threads", "2", options=OPTIONS)
    [old] = eventually(worker_ids, 20)
    one = look()

    entry = CronEntry.objects.create(name="nightly", schedule="30 2 * * *", task_name="testproject.shop.tasks.noop")
    one.go("djqueue_cronentry_changelist")
    one.act("Run now")
    one.sees("1 enqueued")
    one.act("Pause")
    one.sees("1 paused")
    entry.refresh_from_db()
    assert not entry.enabled
    trial.wait_until_done()

    tasks.hold.enqueue("long", trial.file("go"))
    trial.wait_for_starts("long")
    one.go("djqueue_worker_changelist")
    one.sees("1 of 2")
    one.act("Ask to restart")
    one.sees("1 worker asked to end after what they run")
    one.sees("asked to restart")
    trial.make("go")
    eventually(lambda: worker_ids() and old not in worker_ids(), 20)

    job = tasks.note.using(run_after=timedelta(hours=1)).enqueue("never")
    one.go("djqueue_queue_purge", "default")
    one.page.fill("#id_name", "default")
    one.page.fill("#id_reason", "a wrong campaign")
    one.page.click("text=Empty the queue >> nth=-1")
    one.sees("is being emptied")
    eventually(lambda: not live())
    one.go("djqueue_job_changelist", query=f"?q=id%3A{job.id}")
    one.sees("cancelled")

    with_orphan = (
        "insert into djqueue_job (id, queue_name, task_name) values (gen_random_uuid(), 'default', 'old.gone')"
    )
    rows(with_orphan)
    one.go("djqueue_orphans")
    one.sees("old.gone")
    one.page.reload()
    one.page.fill("[name=reason]", "it was replaced")
    one.page.click("text=Cancel them")
    one.sees("1 job of old.gone cancelled")
    assert not live()


def test_keys_lead_everywhere_and_refreshing_can_be_paused(trial: Trial, look: Look) -> None:
    Queue.objects.create(name="emails")
    one = look()
    one.overview()

    one.page.keyboard.press("?")
    one.sees("these keys")
    one.page.keyboard.press("Escape")
    one.page.keyboard.press("g")
    one.page.keyboard.press("q")
    one.page.wait_for_url(re.compile("/djqueue/queue/$"))
    one.page.keyboard.press("g")
    one.page.keyboard.press("j")
    one.page.wait_for_url(re.compile("/djqueue/job/$"))
    one.page.keyboard.press("/")
    assert one.page.evaluate("document.activeElement.name") == "q"
    one.page.keyboard.type("g q")
    assert one.page.url.endswith("/djqueue/job/")

    one.go("djqueue_queue_changelist")
    one.page.click(".djq-live-pause")
    one.sees("paused")
    one.page.locator("body").click(position={"x": 5, "y": 5})
    Queue.objects.update(ready=777)
    with one.page.expect_response(lambda answer: answer.status == 200):
        one.page.keyboard.press("r")
    one.sees("777")
    with one.page.expect_response(lambda answer: answer.status == 304):
        one.page.keyboard.press("r")


def test_times_stand_in_the_reader_s_zone_with_utc_in_the_title(trial: Trial, look: Look) -> None:
    rows("insert into djqueue_worker (id, started_at) values ('w1', '2026-07-01 12:00:00+00')")
    one = look(zone="Asia/Tokyo")

    one.go("djqueue_worker_changelist")

    one.sees("2026-07-01 21:00:00")
    assert one.page.get_attribute("time.djqueue-moment", "title") == "2026-07-01 12:00:00+00:00"


def test_all_of_it_works_without_scripts(trial: Trial, look: Look) -> None:
    queue = Queue.objects.create(name="emails", ready=7)
    one = look(scripts=False)

    one.overview()
    one.sees("No worker is running: 7 ready jobs can't start")
    assert not one.page.is_visible(".djq-live-bar")
    one.page.click(".djq-nav >> text=Queues")
    one.page.check("input[name=_selected_action]")
    one.page.select_option("select[name=action]", label="Pause")
    one.page.click("#changelist-form button[name=index]")
    one.sees("1 paused for an hour")

    queue.refresh_from_db()
    assert queue.paused_by == "ada"
