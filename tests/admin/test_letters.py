"""Dead letters by cause: groups, replays, discards with a reason, edits (R20, R29)."""

import json
from typing import Any

import pytest
from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.test import Client
from django.urls import reverse

from djqueue.compat import task_backends
from djqueue.conf import Options
from djqueue.models import DeadLetter, ErrorGroup, History, Job, KeyBlock, Replay
from tests.admin import rows
from tests.admin.conftest import Login
from tests.admin.pages import act, add_to, list_of, page_of, text_of, told

LABEL = "testproject.shop.tasks.send_receipt"


def logged(flag: int = CHANGE) -> list[str]:
    """What the log says."""
    return [entry.get_change_message() for entry in LogEntry.objects.filter(action_flag=flag)]


def edit_of(letter: Any) -> str:
    """The address where a letter's arguments are edited."""
    return reverse("admin:djqueue_deadletter_edit", args=[letter.pk])


@pytest.fixture
def redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook that takes the secret out."""
    parsed, _ = Options.parse({"redact": "tests.admin.test_letters.hide"})
    monkeypatch.setitem(task_backends["default"].__dict__, "djqueue_options", parsed)


def hide(kind: str, task_name: str, text: str) -> str:
    """The hook."""
    return text.replace(rows.SECRET, f"[{kind} of {task_name.rpartition('.')[2]}]")


# ------------------------------------------------------------------------------------------------ groups


def test_a_list_of_causes_shows_what_where_and_how_often(login: Login) -> None:
    rows.make_group(count=1_234)

    text = text_of(login("view_errorgroup").get(list_of("errorgroup")))

    for part in ("shop.PartnerDown", "no account &#x27;…&#x27; in shop/partner.py:fetch", "1,234", LABEL):
        assert part in text
    assert rows.SECRET not in text


def test_samples_are_for_those_who_may_see_payloads(login: Login) -> None:
    group = rows.make_group()

    assert rows.SECRET not in text_of(login("view_errorgroup").get(page_of(group)))


def test_samples_are_shown_to_those_who_may_see_payloads(login: Login) -> None:
    group = rows.make_group()

    assert rows.SECRET in text_of(login("view_errorgroup", "view_payload").get(page_of(group)))


def test_a_group_leads_to_its_dead_letters(login: Login) -> None:
    group = rows.make_group()
    mine, other = rows.make_dead_letter(fingerprint=group.pk), rows.make_dead_letter(fingerprint="other")
    client = login("view_errorgroup", "view_deadletter")

    assert f"?cause={group.pk}" in text_of(client.get(page_of(group)))
    found = text_of(client.get(list_of("deadletter"), {"cause": group.pk}))

    assert str(mine.pk) in found
    assert str(other.pk) not in found


def test_r20_all_letters_of_a_cause_are_requeued_and_logged(login: Login) -> None:
    group = rows.make_group()
    for number in range(3):
        rows.make_dead_letter(fingerprint=group.pk, dedupe_key=f"k{number}")
    rows.make_dead_letter(fingerprint="other")
    rows.make_job(dedupe_key="k1")

    [message] = act(login("view_errorgroup", "requeue_deadletter"), "requeue_all", [group])

    assert message == (
        "Requeue: 2 queued again, with all their attempts. Refused: 1 whose dedupe key an unfinished job holds."
    )
    assert (DeadLetter.objects.count(), Job.objects.count()) == (2, 3)
    assert logged() == ["Requeue: 2 queued again, 1 refused."]


@pytest.mark.parametrize(
    ("action", "before", "after"),
    [("mute", "open", "muted"), ("resolve", "open", "resolved"), ("reopen", "muted", "open")],
)
def test_r20_groups_are_triaged_and_logged(login: Login, action: str, before: str, after: str) -> None:
    group, already = rows.make_group(state=before), rows.make_group(state=after)

    [message] = act(login("view_errorgroup", "triage_errorgroup"), action, [group, already])

    assert message == f"1 now {after}. Refused: 1 {after} already."
    assert set(ErrorGroup.objects.values_list("state", flat=True)) == {after}
    assert logged() == [f"Now {after}."]


@pytest.mark.parametrize("action", ["requeue_all", "replay", "mute", "resolve", "reopen"])
def test_r20_who_may_only_look_at_groups_changes_none(login: Login, action: str) -> None:
    group = rows.make_group()
    rows.make_dead_letter(fingerprint=group.pk)

    act(login("view_errorgroup"), action, [group])

    assert (ErrorGroup.objects.get().state, DeadLetter.objects.count(), logged()) == ("open", 1, [])


# ------------------------------------------------------------------------------------------------ replays


def test_a_replay_of_a_cause_starts_from_its_group(login: Login) -> None:
    group = rows.make_group()
    for _ in range(3):
        rows.make_dead_letter(fingerprint=group.pk)
    client = login("view_errorgroup", "view_replay", "run_replay")
    form = client.post(list_of("errorgroup"), {"action": "replay", "_selected_action": [group.pk]}).headers["Location"]
    assert group.pk in text_of(client.get(form))

    wishes = {"fingerprint": group.pk, "queue_name": "", "task_name": "", "per_second": "100", "canary": "5"}
    client.post(form, {**wishes, "stop_ratio": "0.2"})

    run = Replay.objects.get()
    assert (run.state, run.total, run.per_second, run.canary, run.created_by) == ("running", 3, 100, 5, "ada")
    assert len(logged(ADDITION)) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("per_second", "0"), ("per_second", "nan"), ("canary", "-1"), ("stop_ratio", "2"), ("stop_ratio", "x")],
)
def test_a_replay_out_of_bounds_is_refused_by_the_form(login: Login, field: str, value: str) -> None:
    wishes = {"per_second": "100", "canary": "5", "stop_ratio": "0.2", field: value}

    answer = login("view_replay", "run_replay").post(add_to("replay"), wishes)

    assert "errorlist" in text_of(answer)
    assert not Replay.objects.exists()


def test_r20_replays_are_paused_resumed_and_stopped_by_state(login: Login) -> None:
    client = login("view_replay", "run_replay")
    run, over = rows.make_replay(), rows.make_replay(state="finished")

    assert act(client, "pause", [run, over]) == [
        f"1 paused. Refused, for the state that they are in: replay {over.pk}."
    ]
    assert act(client, "resume", [run])[-1] == "1 resumed."
    assert act(client, "stop", [run])[-1] == "1 stopped."

    found = Replay.objects.get(pk=run.pk)
    assert (found.state, found.reason) == ("stopped", "stopped by ada")
    assert sorted(logged()) == ["Replay paused.", "Replay resumed.", "Replay stopped."]


def test_a_replay_shows_its_progress(login: Login) -> None:
    run = rows.make_replay(total=2_000, requeued=400, refused=100, succeeded=380, failed=3)
    client = login("view_replay")

    for address in (list_of("replay"), page_of(run)):
        assert "500 of 2,000 (25 %)" in text_of(client.get(address))


def test_r20_who_may_only_look_at_replays_starts_and_stops_none(login: Login) -> None:
    client = login("view_replay")
    run = rows.make_replay()

    act(client, "stop", [run])

    assert client.get(add_to("replay")).status_code == 403
    assert Replay.objects.get().state == "running"


# ------------------------------------------------------------------------------------------------ discard


def test_a_letter_that_blocks_its_ordering_key_says_so_and_can_be_found(login: Login) -> None:
    blocking = rows.make_dead_letter(ordering_key="account:1", on_dead="block")
    other = rows.make_dead_letter(ordering_key="account:2")
    KeyBlock.objects.create(queue_name="emails", ordering_key="account:1", job_id=blocking.pk)
    client = login("view_deadletter")

    found = text_of(client.get(list_of("deadletter"), {"blocks": "yes"}))

    assert "yes, until it is requeued or discarded" in text_of(client.get(page_of(blocking)))
    assert "yes, until it is requeued" not in text_of(client.get(page_of(other)))
    assert (str(blocking.pk) in found, str(other.pk) in found) == (True, False)


def test_r20_letters_are_discarded_with_a_reason_and_logged(login: Login) -> None:
    letters = [rows.make_dead_letter(), rows.make_dead_letter()]
    client = login("view_deadletter", "discard_deadletter")

    assert act(client, "discard", letters) == ["Discard: nothing changed. Expected a reason, got none."]
    message = act(client, "discard", letters, reason="order void")[-1]

    assert message == "Discard: 2 discarded: order void."
    assert set(History.objects.values_list("outcome", flat=True)) == {"cancelled"}
    assert History.objects.first().errors[-1]["by"] == "ada"  # type: ignore[union-attr]
    assert logged() == ["Discard: discarded: order void."] * 2


def test_the_reason_can_be_given_in_the_list_and_on_the_page(login: Login) -> None:
    letter = rows.make_dead_letter()
    client = login("view_deadletter", "discard_deadletter")

    assert 'name="reason"' in text_of(client.get(list_of("deadletter")))
    assert 'name="reason"' in text_of(client.get(page_of(letter)))


# ------------------------------------------------------------------------------------------------ edit


def post_edit(client: Client, letter: Any, args: object) -> Any:
    text = args if isinstance(args, str) else json.dumps(args)
    return client.post(edit_of(letter), {"arguments": text})


def test_r20_arguments_are_edited_and_the_job_queued_again(login: Login) -> None:
    letter = rows.make_dead_letter(args={"args": ["no number"], "kwargs": {}})
    client = login("view_deadletter", "view_payload", "edit_deadletter")
    assert "no number" in text_of(client.get(edit_of(letter)))
    assert edit_of(letter) in text_of(client.get(page_of(letter)))

    answer = post_edit(client, letter, {"args": [7], "kwargs": {}})

    assert told(answer) == ["Edit and requeue: queued again with other arguments."]
    job = Job.objects.get()
    assert job.args == {"args": [7], "kwargs": {}}
    assert job.options["former_args"][0]["args"] == {"args": ["no number"], "kwargs": {}}
    assert logged() == ["Edit and requeue: queued again with other arguments."]


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ("{", "Expected JSON"),
        ("[" * 100_000, "Expected JSON"),
        ([1], "Expected an object"),
        ({"args": [1]}, "kwargs"),
        ({"args": [], "kwargs": {}}, "missing a required argument"),
        ({"args": [1, 2, 3, 4], "kwargs": {}}, "too many positional arguments"),
        ({"args": ["\0"], "kwargs": {}}, "NUL"),
    ],
)
def test_r9_arguments_that_do_not_fit_the_task_are_refused(login: Login, args: object, why: str) -> None:
    letter = rows.make_dead_letter()

    answer = post_edit(login("view_deadletter", "view_payload", "edit_deadletter"), letter, args)

    assert why in text_of(answer)
    assert (Job.objects.count(), DeadLetter.objects.count()) == (0, 1)


def test_an_edit_of_a_task_that_nobody_knows_is_refused(login: Login) -> None:
    letter = rows.make_dead_letter(task_name="gone.task")

    answer = post_edit(login("view_deadletter", "view_payload", "edit_deadletter"), letter, rows.ARGS)

    assert "No task is called gone.task" in text_of(answer)


def test_an_edit_whose_key_is_taken_is_refused(login: Login) -> None:
    letter = rows.make_dead_letter(dedupe_key="k")
    rows.make_job(dedupe_key="k")

    answer = post_edit(login("view_deadletter", "view_payload", "edit_deadletter"), letter, {"args": [7], "kwargs": {}})

    assert told(answer) == ["Edit and requeue: refused, an unfinished job holds the same dedupe key."]
    assert DeadLetter.objects.get().args == rows.ARGS


def test_an_edit_of_a_letter_that_was_requeued_meanwhile_leads_to_the_job(login: Login) -> None:
    letter = rows.make_dead_letter()
    client = login("view_deadletter", "view_job", "view_payload", "edit_deadletter")
    DeadLetter.objects.all().delete()
    rows.make_job(id=letter.pk)

    assert told(client.get(edit_of(letter))) == ["The job is live again."]


@pytest.mark.parametrize("missing", ["edit_deadletter", "view_payload"])
def test_r20_who_may_not_see_or_not_edit_edits_nothing(login: Login, missing: str) -> None:
    letter = rows.make_dead_letter()
    client = login(*({"view_deadletter", "view_payload", "edit_deadletter"} - {missing}))

    assert client.get(edit_of(letter)).status_code == 403
    assert post_edit(client, letter, {"args": [7], "kwargs": {}}).status_code == 403
    assert edit_of(letter) not in text_of(client.get(page_of(letter)))


# ------------------------------------------------------------------------------------------------ R29


def test_r29_arguments_and_errors_are_redacted_where_the_admin_shows_them(login: Login, redacted: None) -> None:
    client = login("*")
    group = rows.make_group()
    shown = [rows.make_dead_letter(), rows.make_scheduled_job(), rows.make_finished(), group]

    for obj in shown:
        text = text_of(client.get(page_of(obj)))
        assert rows.SECRET not in text
        assert "of send_receipt]" in text


def test_r29_the_editing_page_shows_no_redacted_arguments_and_stores_no_marks(login: Login, redacted: None) -> None:
    letter = rows.make_dead_letter()

    text = text_of(login("*").get(edit_of(letter)))

    assert rows.SECRET not in text
    assert "[arguments" not in text
    assert "give all of them anew" in text


def test_r29_what_is_too_large_to_be_redacted_is_not_shown(
    login: Login, redacted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from djqueue.admin import payload

    monkeypatch.setattr(payload, "MOST_REDACTED", 30)
    letter = rows.make_dead_letter(args={"args": ["x" * 20 + rows.SECRET], "kwargs": {}})

    text = text_of(login("*").get(page_of(letter)))

    assert "too large to be redacted" in text
    assert rows.SECRET[:10] not in text


def test_jobs_of_one_task_are_cancelled_by_filter(login: Login) -> None:
    for _ in range(3):
        rows.make_job()
    rows.make_job(task_name="testproject.shop.tasks.noop")
    client = login("view_job", "cancel_job")
    any_job = Job.objects.first()
    data = {"action": "cancel", "index": "0", "select_across": "1", "_selected_action": [str(any_job.pk)]}  # type: ignore[union-attr]

    answer = client.post(f"{list_of('job')}?task={rows.TASK}", data)

    assert told(answer) == ["Cancel: 3 cancelled."]
    assert Job.objects.count() == 1
