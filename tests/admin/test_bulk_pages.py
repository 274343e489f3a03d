"""Acts on many jobs: asked before, guarded, followed to the end, and written down."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from djqueue.models import BulkAct, DeadLetter, History, Job
from djqueue.store import bulk
from tests.admin import rows
from tests.admin.conftest import Login
from tests.admin.pages import list_of, page_of, text_of, told

PLACES = ("view_job", "view_history", "view_deadletter", "view_bulkact")


def ask(client: Client, act: str, **more: Any) -> Any:
    """Send the list's form."""
    return client.post(reverse("admin:djqueue_job_bulk"), {"act": act, **more})


def do(client: Client, act: str, **more: Any) -> Any:
    """Send the page that asks."""
    return ask(client, act, confirmed="yes", **more)


def test_nothing_changes_before_it_was_asked_and_the_page_says_how_many_and_which(login: Login) -> None:
    client = login(*PLACES, "requeue_deadletter")
    letters = [rows.make_dead_letter() for _ in range(3)]
    rows.make_dead_letter(queue_name="images")

    page = text_of(ask(client, "requeue", all="1", q="queue:emails"))

    assert "Requeue: 3 jobs" in page
    assert "Requeue: 1 job<" in text_of(ask(client, "requeue", all="1", q="queue:images"))
    assert all(str(letter.pk) in page for letter in letters)
    assert (DeadLetter.objects.count(), BulkAct.objects.count(), LogEntry.objects.count()) == (4, 0, 0)


def test_all_that_match_are_requeued_with_who_and_why(login: Login) -> None:
    client = login(*PLACES, "requeue_deadletter")
    for _ in range(3):
        rows.make_dead_letter()

    response = do(client, "requeue", all="1", q="queue:emails", reason="the partner is back")

    act = BulkAct.objects.get()
    assert (act.state, act.done, act.created_by, act.reason) == ("finished", 3, "ada", "the partner is back")
    assert told(response) == ["Requeue: 3 of 3 done."]
    assert response.url == page_of(act)
    assert Job.objects.count() == 3
    entry = LogEntry.objects.get()
    assert (entry.object_id, str(entry.user)) == (str(act.pk), "ada")
    assert "3 jobs. All that match “queue:emails”. Reason: the partner is back" in entry.change_message


def test_who_may_not_follow_acts_is_led_back_to_the_list(login: Login) -> None:
    client = login("view_deadletter", "view_job", "requeue_deadletter")
    letter = rows.make_dead_letter()

    response = do(client, "requeue", _selected_action=[str(letter.pk)])

    assert (response.url, Job.objects.count()) == (list_of("job"), 1)
    assert "Requeue: 1 of 1 done." in text_of(client.get(response.url))


def test_chosen_jobs_are_each_in_the_log_as_well(login: Login) -> None:
    client = login(*PLACES, "cancel_job")
    chosen, other = rows.make_job(), rows.make_job()

    do(client, "cancel", _selected_action=[str(chosen.pk)])

    assert list(Job.objects.all()) == [other]
    assert History.objects.get().pk == chosen.pk
    assert set(LogEntry.objects.values_list("object_id", flat=True)) == {
        str(chosen.pk),
        str(BulkAct.objects.get().pk),
    }


def test_r20_a_running_job_is_refused_from_a_stale_page_and_named(login: Login) -> None:
    client = login(*PLACES, "edit_job")
    job, other = rows.make_job(), rows.make_job()
    rows.lease_behind_the_page(job.pk)

    response = do(client, "priority", _selected_action=[str(job.pk), str(other.pk)], to_priority="9")

    assert told(response) == [f"Change priority: 1 of 2 done. Refused: 1 running ({job.pk})."]
    job.refresh_from_db()
    other.refresh_from_db()
    assert (job.state, job.priority, other.priority) == ("leased", 0, 9)


def test_jobs_move_to_a_queue_that_there_is(login: Login) -> None:
    client = login(*PLACES, "edit_job")
    job = rows.make_job()

    refused = do(client, "queue", _selected_action=[str(job.pk)], to_queue="nowhere")
    assert "Select a valid choice" in text_of(refused)
    assert BulkAct.objects.count() == 0
    do(client, "queue", _selected_action=[str(job.pk)], to_queue="images")

    job.refresh_from_db()
    assert job.queue_name == "images"


def test_a_discard_needs_a_reason(login: Login) -> None:
    client = login(*PLACES, "discard_deadletter")
    letter = rows.make_dead_letter()

    page = text_of(do(client, "discard", _selected_action=[str(letter.pk)]))

    assert "This field is required" in page
    assert DeadLetter.objects.count() == 1


def test_what_was_enqueued_since_it_was_counted_is_left_alone(login: Login) -> None:
    client = login(*PLACES, "cancel_job")
    rows.make_job()
    until = ask(client, "cancel", all="1", q="queue:emails").context["until"]
    later = rows.make_job(created_at=rows.LAST_MOMENT)

    do(client, "cancel", all="1", q="queue:emails", until=until)

    assert list(Job.objects.all()) == [later]


def test_many_jobs_are_left_to_the_workers_and_the_page_shows_how_far_they_are(
    login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "BATCH", 2)
    client = login(*PLACES, "requeue_deadletter")
    for _ in range(5):
        rows.make_dead_letter()

    response = do(client, "requeue", all="1", state="dead")
    act = BulkAct.objects.get()

    assert told(response) == ["Requeue: 2 of 5 done. The workers go on with it."]
    assert "2 of 5" in text_of(client.get(page_of(act)))
    while bulk.step("default", act.pk):
        pass
    assert "5 of 5" in text_of(client.get(page_of(act)))


def test_a_running_act_is_stopped(login: Login) -> None:
    client = login(*PLACES, "requeue_deadletter")
    act = BulkAct.objects.get(pk=bulk.create("default", bulk.Wanted(act=bulk.Act.REQUEUE)))

    client.post(list_of("bulkact"), {"action": "stop", "index": "0", "_selected_action": [str(act.pk)]})

    act.refresh_from_db()
    assert (act.state, act.error) == ("stopped", "stopped by ada")
    assert LogEntry.objects.get().change_message == "Stopped."


@pytest.mark.parametrize("act", bulk.Act)
def test_r20_an_act_needs_its_own_permission(login: Login, act: bulk.Act) -> None:
    from djqueue.admin.bulk import KINDS

    others = {kind.permission for each, kind in KINDS.items() if each is not act} - {KINDS[act].permission}
    client = login(*PLACES, *others)
    jobs = [rows.make_scheduled_job(), rows.make_dead_letter()]
    form = {"_selected_action": [str(job.pk) for job in jobs], "reason": "x", "to_queue": "images", "to_priority": "9"}

    assert do(client, str(act), **form).status_code == 403
    assert f'value="{act}"' not in text_of(client.get(list_of("job")))
    assert BulkAct.objects.count() == 0


@pytest.mark.parametrize("query", [{"act": "cancel", "all": "1", "confirmed": "yes"}])
def test_nothing_changes_on_get(login: Login, query: dict[str, str]) -> None:
    client = login("*")
    rows.make_job()

    assert client.get(reverse("admin:djqueue_job_bulk"), query).status_code == 403
    assert Job.objects.count() == 1


@pytest.mark.parametrize("form", [{"act": "explode"}, {"act": "cancel"}, {"act": "cancel", "all": "1", "q": "x:y"}])
def test_a_form_that_means_nothing_leads_back_with_words(login: Login, form: dict[str, str]) -> None:
    client = login("*")
    rows.make_job()

    response = client.post(reverse("admin:djqueue_job_bulk"), {**form, "confirmed": "yes"})

    assert response.status_code == 302
    assert told(response)
    assert BulkAct.objects.count() == 0
