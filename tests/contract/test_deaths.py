"""Deaths, expiry and redaction through the whole road, in one process."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from djqueue import signals
from djqueue.compat import task_backends
from djqueue.conf import Options
from djqueue.models import DeadLetter, ErrorGroup, History, Job
from djqueue.testing import run_jobs
from testproject.trials import mortal

pytestmark = pytest.mark.django_db


@pytest.fixture
def told() -> Iterator[list[dict[str, Any]]]:
    """What receivers are told, each with the signal's name."""
    found: list[dict[str, Any]] = []

    def hear_died(**given: Any) -> None:
        found.append({"what": "died", **given})

    def hear_digest(**given: Any) -> None:
        found.append({"what": "digest", **given})

    signals.job_died.connect(hear_died)
    signals.deaths_digest.connect(hear_digest)
    yield found
    signals.job_died.disconnect(hear_died)
    signals.deaths_digest.disconnect(hear_digest)


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set options of the backend: `options(redact=…)`."""

    def set_to(**given: Any) -> None:
        parsed, problems = Options.parse(given)
        assert problems == []
        monkeypatch.setitem(task_backends["default"].__dict__, "djqueue_options", parsed)

    return set_to


def test_a_job_that_dies_is_told_with_its_cause_and_one_digest_tells_of_all(told: list[dict[str, Any]]) -> None:
    for number in (1, 6, 11):
        mortal.die_of_one_of_five.enqueue(number, "/nowhere")

    run_jobs()

    died = [each for each in told if each["what"] == "died"]
    [digest] = [each for each in told if each["what"] == "digest"]
    assert sorted(each["message"] for each in died) == ["no account '1'", "no account '11'", "no account '6'"]
    assert {each["task_name"] for each in died} == {"testproject.trials.mortal.die_of_one_of_five"}
    assert {each["job_id"] for each in died} == set(DeadLetter.objects.values_list("pk", flat=True))
    assert {each["fingerprint"] for each in died} == {digest["fingerprint"]}
    assert (digest["count"], digest["total"], digest["message"]) == (3, 3, "no account '…'")
    assert digest["frame"] == "trials/mortal.py:die_of_one_of_five"


def test_a_second_digest_of_a_cause_waits_its_time(told: list[dict[str, Any]]) -> None:
    for _ in range(2):
        mortal.die_saying.enqueue("boom")
        run_jobs()

    assert [each["count"] for each in told if each["what"] == "digest"] == [1]
    assert ErrorGroup.objects.get().count == 2


def test_a_receiver_that_fails_stops_nothing(told: list[dict[str, Any]]) -> None:
    def fail(**given: Any) -> None:
        raise RuntimeError("no")

    signals.job_died.connect(fail)
    try:
        mortal.die_saying.enqueue("boom")
        run_jobs()
    finally:
        signals.job_died.disconnect(fail)

    assert len(told) == 2


def test_five_causes_are_told_apart_by_class_frame_and_message() -> None:
    for number in range(20):
        mortal.die_of_one_of_five.enqueue(number, "/nowhere")

    run_jobs()

    assert sorted(ErrorGroup.objects.values_list("count", flat=True)) == [4] * 5
    assert set(DeadLetter.objects.values_list("fingerprint", flat=True)) == set(
        ErrorGroup.objects.values_list("pk", flat=True)
    )


def test_r29_messages_tracebacks_and_reasons_are_redacted_before_they_are_recorded(options: Any) -> None:
    options(redact="testproject.trials.mortal.without_card_numbers")
    mortal.die_saying.enqueue("card 4111111111111111")

    run_jobs()

    letter = DeadLetter.objects.get()
    assert letter.errors[0]["message"] == "card [card]"
    assert "4111111111111111" not in str(letter.errors) + letter.reason + str(ErrorGroup.objects.values().get())


def test_r29_a_failing_hook_leaves_a_placeholder(options: Any, caplog: pytest.LogCaptureFixture) -> None:
    options(redact="testproject.trials.mortal.broken_hook")
    mortal.die_saying.enqueue("the password is swordfish")

    run_jobs()

    letter = DeadLetter.objects.get()
    assert letter.errors[0]["message"] == "[redacted: the redact hook failed with RuntimeError]"
    recorded = str(letter.errors) + letter.reason + str(ErrorGroup.objects.values().get()) + caplog.text
    assert "swordfish" not in recorded


@pytest.mark.parametrize("path", ["no.such.module.hook", "testproject.trials.mortal.CAUSES"])
def test_r29_a_hook_that_is_none_is_a_failing_one(options: Any, path: str) -> None:
    options(redact=path)
    mortal.die_saying.enqueue("swordfish")

    run_jobs()

    assert "swordfish" not in str(DeadLetter.objects.get().errors)


def test_the_entry_of_an_attempt_has_its_history(options: Any) -> None:
    options(code_version="abc123")
    mortal.die_saying.enqueue("boom")

    run_jobs()

    [entry] = DeadLetter.objects.get().errors
    assert entry["exception"] == "builtins.ValueError"
    assert (entry["message"], entry["version"], entry["attempt"]) == ("boom", "abc123", 1)
    assert entry["started_at"] <= entry["at"]
    assert entry["seconds"] >= 0
    assert entry["worker"]
    assert "die_saying" in entry["traceback"]
    assert ErrorGroup.objects.get().versions == ["abc123"]


def test_a_job_that_was_not_started_in_time_ends_as_cancelled_and_is_not_run() -> None:
    result = mortal.briefly.using(expires_after=timedelta(seconds=60)).enqueue("late")
    with connection.cursor() as cursor:
        cursor.execute("update djqueue_job set expires_at = clock_timestamp()")

    assert run_jobs().states == {"cancelled": 1}

    row = History.objects.get(pk=result.id)
    assert (row.outcome, row.attempts, row.errors[-1]["kind"]) == ("cancelled", 0, "expired")
    assert "expired: not started by" in row.errors[-1]["message"]


def test_expires_after_belongs_to_the_task_or_the_call_and_counts_from_when_the_job_is_due() -> None:
    mortal.briefly.using(run_after=timedelta(hours=2)).enqueue("x")
    mortal.briefly.using(expires_after=5).enqueue("y")

    waits = [round((job.expires_at - job.created_at).total_seconds()) for job in Job.objects.order_by("seq")]
    assert waits == [3 * 3600, 5]


def test_a_job_within_its_time_runs() -> None:
    mortal.briefly.enqueue("soon")

    assert run_jobs().succeeded == 1


@pytest.mark.parametrize("wrong", [0, -1, "soon", True, timedelta(0)])
def test_a_wrong_expires_after_is_refused(wrong: Any) -> None:
    with pytest.raises(Exception, match="expires_after"):
        mortal.briefly.using(expires_after=wrong).enqueue("x")
    assert Job.objects.count() == 0


def test_r10_hostile_exceptions_are_recorded_counted_and_told(told: list[dict[str, Any]]) -> None:
    """NUL, lone surrogates, 50 MB, `__str__` that raises, groups 500 deep: each a dead letter with a cause."""
    for kind in mortal.HOSTILE:
        mortal.die_hostile.enqueue(kind)

    assert run_jobs().states == {"dead": len(mortal.HOSTILE)}

    letters = list(DeadLetter.objects.all())
    assert all(letter.fingerprint and len(letter.errors[0]["message"].encode()) <= 64_000 for letter in letters)
    assert ErrorGroup.objects.count() == len(mortal.HOSTILE)
    assert all(len(sample) <= 1_000 for group in ErrorGroup.objects.all() for sample in group.samples)
    assert len([each for each in told if each["what"] == "died"]) == len(mortal.HOSTILE)


def test_r10_neither_locals_nor_arguments_are_recorded_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    mortal.die_with_a_local.enqueue("swordfish")

    with caplog.at_level("DEBUG"):
        run_jobs()

    letter = DeadLetter.objects.get()
    assert "swordfish" in str(letter.args)
    assert "swordfish" not in str(letter.errors) + letter.reason + caplog.text


def test_r14_jobs_that_fail_together_come_back_spread_out_and_never_in_the_past() -> None:
    mortal.fail_and_wait.enqueue_many([(n,) for n in range(200)])

    run_jobs(limit=200)

    with connection.cursor() as cursor:
        cursor.execute(
            "select extract(epoch from run_at - (errors->0->>'at')::timestamptz)::float8 from djqueue_job "
            "where state = 'scheduled' order by 1"
        )
        waits = [row[0] for row in cursor.fetchall()]
    assert len(waits) >= 190, "a few may have come back at once"
    assert waits[0] >= 0
    assert waits[-1] <= 120
    assert len({int(wait // 12) for wait in waits}) == 10
