"""R20: actions change what the row's state at that moment allows, say all they did, and leave log entries."""

from typing import Any
from uuid import uuid4

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext

from djqueue.admin import actions
from djqueue.models import DeadLetter, History, Job
from tests.admin import rows
from tests.admin.conftest import Login
from tests.admin.pages import act, list_of, page_of, told


def logged() -> dict[str, str]:
    """What the log says, by object."""
    return {entry.object_id: entry.change_message for entry in LogEntry.objects.filter(action_flag=CHANGE)}


def state_of(job: Any) -> str:
    """The state of a live job."""
    return str(Job.objects.values_list("state", flat=True).get(pk=job.pk))


def test_r20_retry_now_starts_waiting_jobs_and_refuses_the_others_by_name(login: Login) -> None:
    client = login("view_job", "retry_job")
    waiting = [rows.make_scheduled_job(), rows.make_scheduled_job(attempts=0)]
    running, ready, parked = rows.make_running_job(), rows.make_job(), rows.make_job(state="parked")

    [message] = act(client, "retry_now", [*waiting, running, ready, parked])

    assert {state_of(job) for job in waiting} == {"ready"}
    assert [state_of(running), state_of(ready), state_of(parked)] == ["leased", "ready", "parked"]
    assert message.startswith("Retry now: 2 will start as soon as a worker is free. Refused: ")
    for job, why in ((running, "running"), (ready, "ready already"), (parked, "parked")):
        assert f"1 {why} ({job.pk})" in message


def test_r20_a_job_that_was_claimed_behind_the_page_is_not_queued_again(login: Login) -> None:
    client = login("view_job", "retry_job")
    job = rows.make_scheduled_job()
    client.get(list_of("job"))
    rows.lease_behind_the_page(job.pk)
    before = Job.objects.values().get(pk=job.pk)

    [message] = act(client, "retry_now", [job])

    assert Job.objects.values().get(pk=job.pk) == before
    assert message == f"Retry now: nothing changed. Refused: 1 running ({job.pk})."


def test_r20_a_row_that_left_the_list_s_filter_is_answered_by_what_it_is_now(login: Login) -> None:
    client = login("view_job", "retry_job")
    job = rows.make_scheduled_job()
    rows.lease_behind_the_page(job.pk)

    data = {"action": "retry_now", "index": "0", "_selected_action": [str(job.pk)]}
    [message] = told(client.post(list_of("job") + "?state=scheduled", data))

    assert "Refused: 1 running" in message


def test_r20_cancel_ends_waiting_jobs_and_asks_running_ones(login: Login) -> None:
    client = login("view_job", "cancel_job")
    ready, scheduled, running, gone = (
        rows.make_job(),
        rows.make_scheduled_job(),
        rows.make_running_job(),
        rows.make_job(),
    )
    Job.objects.filter(pk=gone.pk).delete()

    [message] = act(client, "cancel", [ready, scheduled, running, gone])

    assert {str(job.pk) for job in History.objects.filter(outcome="cancelled")} == {str(ready.pk), str(scheduled.pk)}
    assert Job.objects.get(pk=running.pk).state == "leased"
    assert Job.objects.get(pk=running.pk).cancel_requested_at is not None
    assert message == (
        f"Cancel: 2 cancelled; 1 running and asked to stop. Refused: 1 ended or moved meanwhile ({gone.pk})."
    )


def test_r20_requeue_makes_jobs_of_dead_letters_except_where_the_key_is_taken(login: Login) -> None:
    client = login("view_deadletter", "requeue_deadletter")
    free = rows.make_dead_letter()
    taken = rows.make_dead_letter(dedupe_key="receipt:1")
    rows.make_job(dedupe_key="receipt:1")

    [message] = act(client, "requeue", [free, taken])

    assert state_of(free) == "ready"
    assert [letter.pk for letter in DeadLetter.objects.all()] == [taken.pk]
    assert message == (
        "Requeue: 1 queued again, with all their attempts. "
        f"Refused: 1 an unfinished job holds the same dedupe key ({taken.pk})."
    )


def test_r20_a_dead_letter_requeued_behind_the_page_is_not_queued_twice(login: Login) -> None:
    client = login("view_deadletter", "requeue_deadletter")
    letter = rows.make_dead_letter()
    act(client, "requeue", [letter])
    rows.lease_behind_the_page(letter.pk)
    before = Job.objects.values().get(pk=letter.pk)

    [*_, message] = act(client, "requeue", [letter])

    assert Job.objects.values().get(pk=letter.pk) == before
    assert "nothing changed. Refused: 1 ended or moved meanwhile" in message


def test_r20_every_object_of_an_action_gets_one_log_entry_that_says_what_was_done(login: Login) -> None:
    client = login("view_job", "cancel_job", "retry_job")
    ready, running, scheduled = rows.make_job(), rows.make_running_job(), rows.make_scheduled_job()

    act(client, "cancel", [ready, running])
    act(client, "retry_now", [scheduled])

    assert LogEntry.objects.count() == 3
    assert logged() == {
        str(ready.pk): "Cancel: cancelled.",
        str(running.pk): "Cancel: running and asked to stop.",
        str(scheduled.pk): "Retry now: will start as soon as a worker is free.",
    }
    assert LogEntry.objects.filter(user__username="ada", object_repr__contains=rows.TASK).count() == 3


def test_a_refused_action_is_logged_as_refused(login: Login) -> None:
    client = login("view_job", "retry_job")
    running = rows.make_running_job()

    act(client, "retry_now", [running])

    assert logged() == {str(running.pk): "Retry now: refused, running."}


def test_an_action_takes_the_same_number_of_queries_for_two_rows_and_for_forty(login: Login) -> None:
    client = login("view_deadletter", "requeue_deadletter")

    def queries(count: int) -> int:
        letters = [rows.make_dead_letter() for _ in range(count)]
        with CaptureQueriesContext(connection) as found:
            act(client, "requeue", letters)
        return len(found)

    assert queries(2) == queries(40)


def test_all_rows_of_a_filter_can_be_chosen_at_once_up_to_a_limit(
    login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "MOST_AT_ONCE", 5)
    monkeypatch.setattr(actions, "BATCH", 2)
    client = login("view_job", "cancel_job")
    jobs = [rows.make_job() for _ in range(6)]
    elsewhere = rows.make_job(queue_name="images")

    data = {"action": "cancel", "index": "0", "select_across": "1", "_selected_action": [str(jobs[0].pk)]}
    [message] = told(client.post(list_of("job") + "?queue=emails", data))

    assert message == "Cancel: 5 cancelled. Only the newest 5 were taken: repeat it for the others."
    assert Job.objects.filter(queue_name="emails").count() == 1
    assert Job.objects.filter(pk=elsewhere.pk).exists()
    assert LogEntry.objects.count() == 5


def test_many_refused_rows_are_counted_and_some_are_named(login: Login) -> None:
    client = login("view_job", "retry_job")

    [message] = act(client, "retry_now", [rows.make_job() for _ in range(5)])

    assert "Refused: 5 ready already (" in message
    assert message.endswith(" and 2 more).")


def test_ids_that_never_were_are_answered_too(login: Login) -> None:
    client = login("view_job", "cancel_job")
    stranger = str(uuid4())

    data = {"action": "cancel", "index": "0", "_selected_action": [stranger]}
    [message] = told(client.post(list_of("job"), data))

    assert message == f"Cancel: nothing changed. Refused: 1 ended or moved meanwhile ({stranger})."


def test_the_button_on_a_job_s_page_leads_back_to_the_job_wherever_it_is(login: Login) -> None:
    client = login("*")
    job = rows.make_job()
    page = client.get(page_of(job)).content.decode()
    assert 'name="action" value="cancel"' in page

    data = {"action": "cancel", "index": "0", "_selected_action": [str(job.pk)], "_djqueue_object": str(job.pk)}
    response = client.post(list_of("job"), data, follow=True)

    assert [address for address, _ in response.redirect_chain] == [
        page_of(job),
        f"/admin/djqueue/history/{job.pk}/change/",
    ]


@pytest.mark.parametrize("model", ["job", "history", "deadletter"])
def test_jobs_can_not_be_deleted_by_django_s_own_action(login: Login, model: str) -> None:
    client = login("*")
    rows.make_job(), rows.make_finished(), rows.make_dead_letter()

    assert "delete_selected" not in client.get(list_of(model)).content.decode()
