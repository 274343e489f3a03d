"""Workers and orphans in the admin: how busy, how long, asked to stop; set aside, cancelled."""

from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from djqueue.models import History, Job, Leader, Worker
from tests.admin import rows
from tests.admin.conftest import Login
from tests.admin.pages import act, list_of, page_of, text_of, told


def make_worker(id_: str = "w1", **fields: object) -> Worker:
    base = {"host": "web-1", "pid": 4711, "slots": 8, "queues": ["*"], "supervisor_id": "s1", "version": "2026.1"}
    return Worker.objects.create(id=id_, **{**base, **fields})


def orphans() -> str:
    return reverse("admin:djqueue_orphans")


def test_the_list_tells_how_busy_a_worker_is_and_who_leads(login: Login) -> None:
    for id_ in ("w1", "w2"):
        make_worker(id_, memory_bytes=64 * 2**20, jobs_per_minute=41.6)
    make_worker("w3", supervisor_id="s2")
    Leader.objects.create(name="djqueue", holder="s1", until=timezone.now() + timedelta(minutes=1))
    Leader.objects.create(name="cron", holder="s2", until=timezone.now() - timedelta(minutes=1))
    for _ in range(3):
        rows.make_running_job(leased_by="w1")

    page = text_of(login("view_worker").get(list_of("worker")))

    assert "web-1:4711" in page
    assert "3 of 8" in page
    assert page.count("0 of 8</span>") == 2
    assert "64.0 MB" in page
    assert ">42<" in page
    assert page.count(">leader<") == 1


def test_a_worker_that_is_not_seen_is_silent(login: Login) -> None:
    make_worker(seen_at=timezone.now() - timedelta(minutes=2))

    assert ">silent<" in text_of(login("view_worker").get(list_of("worker")))


def test_a_worker_s_page_shows_its_jobs_and_for_how_long_they_have_run(login: Login) -> None:
    worker = make_worker()
    job = rows.make_running_job(leased_by="w1", started_at=timezone.now() - timedelta(seconds=252))
    rows.make_running_job(leased_by="w1", started_at=None)
    rows.make_running_job(leased_by="another")

    page = text_of(login("view_worker", "view_job").get(page_of(worker)))

    assert page_of(job) in page
    assert "4 m 12 s" in page or "4 m 13 s" in page
    assert page.count("about to start") == 1


@pytest.mark.parametrize(("action", "order"), [("restart", "restart"), ("stop", "stop")])
def test_a_worker_is_asked_by_its_row_and_once_only(login: Login, action: str, order: str) -> None:
    client = login("view_worker", "order_worker")
    worker = make_worker()

    [first] = act(client, action, [worker])
    [*_, second] = act(client, action, [worker])

    worker.refresh_from_db()
    assert (worker.ordered, worker.ordered_by) == (order, "ada")
    assert first.startswith("1 worker asked")
    assert "Refused: 1 asked before" in second
    assert [entry.change_message for entry in LogEntry.objects.all()] == [f"Asked to {order}."]
    assert f"asked to {order}" in text_of(client.get(list_of("worker")))


def test_who_may_only_look_asks_for_nothing(login: Login) -> None:
    client = login("view_worker", "view_job")
    worker = make_worker()
    rows.make_job(state="parked", parked_for="task:old.gone", task_name="old.gone")

    act(client, "stop", [worker])
    refused = client.post(orphans(), {"task": "old.gone", "reason": "x"})

    worker.refresh_from_db()
    assert worker.ordered == ""
    assert refused.status_code == 403
    assert Job.objects.count() == 1
    assert not LogEntry.objects.exists()
    assert "Cancel them" not in text_of(client.get(orphans()))


def test_orphans_are_listed_by_task(login: Login) -> None:
    for _ in range(3):
        rows.make_job(state="parked", parked_for="task:old.gone", task_name="old.gone")
    rows.make_job(state="parked", parked_for="tenant:x", task_name="other")

    page = text_of(login("view_job", "view_worker").get(orphans()))

    assert "old.<wbr>gone" in page
    assert ">3</a>" in page
    assert "other" not in page
    assert "task is known to some worker" not in page


def test_orphans_of_one_task_are_cancelled_with_a_reason(login: Login) -> None:
    client = login("view_job", "view_worker", "cancel_job")
    mine = rows.make_job(state="parked", parked_for="task:old.gone", task_name="old.gone")
    spared = rows.make_job(state="parked", parked_for="task:very.old.gone", task_name="very.old.gone")

    [without] = told(client.post(orphans(), {"task": "old.gone", "reason": " "}))
    [unknown] = told(client.post(orphans(), {"task": rows.TASK, "reason": "x"}))[-1:]
    [done] = told(client.post(orphans(), {"task": "old.gone", "reason": "it was replaced"}))[-1:]

    assert "expected a reason" in without
    assert "nothing of this task" in unknown
    assert done == "Cancel: 1 job of old.gone cancelled."
    assert [job.pk for job in Job.objects.all()] == [spared.pk]
    assert [row.pk for row in History.objects.all()] == [mine.pk]
    assert LogEntry.objects.get().change_message == "Cancelled 1 orphans: it was replaced"


def test_orphans_of_one_version_are_cancelled_and_others_of_the_task_are_spared(login: Login) -> None:
    client = login("view_job", "view_worker", "cancel_job")
    mine = rows.make_job(state="parked", parked_for="task:old.gone@3", task_name="old.gone", options={"version": 3})
    spared = rows.make_job(state="parked", parked_for="tenant:x", task_name="old.gone")

    [done] = told(client.post(orphans(), {"task": "old.gone@3", "reason": "no such version"}))[-1:]

    assert done == "Cancel: 1 job of old.gone@3 cancelled."
    assert [job.pk for job in Job.objects.all()] == [spared.pk]
    assert [row.pk for row in History.objects.all()] == [mine.pk]


def test_without_orphans_the_page_says_so(login: Login) -> None:
    assert "task is known to some worker" in text_of(login("view_job", "view_worker").get(orphans()))


def test_who_may_not_see_jobs_sees_no_orphans(login: Login) -> None:
    assert login("view_worker").get(orphans()).status_code == 403


def test_pages_take_few_queries(login: Login) -> None:
    client = login("view_worker", "view_job", "view_queue")
    worker = make_worker()
    for number in range(20):
        make_worker(f"x{number}")

    for address in (list_of("worker"), page_of(worker), orphans(), list_of("queue")):
        with CaptureQueriesContext(connection) as found:
            text_of(client.get(address))
        assert len(found) <= 12, address
