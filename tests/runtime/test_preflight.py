"""What a look at the database tells before the first worker starts."""

import logging

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import override_settings

from djqueue.runtime import preflight
from djqueue.runtime.start import Wishes, make_plan
from testproject.trials import tasks
from tests.runtime.trial import Trial, history, live, rows

pytestmark = pytest.mark.slow

ANY_QUEUE = {"default": {**settings.TASKS["default"], "QUEUES": []}}


@pytest.mark.parametrize("args", [(), ("--drain",)])
def test_without_tables_the_command_says_the_remedy_once_and_ends_at_once(trial: Trial, args: tuple[str, ...]) -> None:
    rows("drop table djqueue_job, djqueue_queue cascade")

    supervisor = trial.supervisor(*args)

    assert supervisor.wait(within=10) == 78
    assert supervisor.output().count("the tables are missing: run manage.py migrate") == 1
    assert "database trouble" not in supervisor.output()


def test_a_database_that_is_away_is_no_reason_to_end(trial: Trial) -> None:
    supervisor = trial.supervisor(env={"DATABASE_URL": "postgres://nobody@127.0.0.1:1/none"})

    supervisor.wait_for_output("database trouble", within=20)

    assert supervisor.is_running()


def test_a_queue_that_nobody_has_heard_of_is_warned_about_with_the_nearest_name(
    trial: Trial, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows("insert into djqueue_queue (name) values ('paused-once')")
    with override_settings(TASKS=ANY_QUEUE):
        tasks.note.using(queue_name="emails").enqueue("x")
        plan = make_plan(Wishes(queues="email,emails,paused-once"))
    monkeypatch.setattr(logging.getLogger("djqueue"), "propagate", True)

    assert preflight.run(plan) == 0

    (said,) = [each.getMessage() for each in caplog.records if "misspelt" in each.getMessage()]
    assert said.endswith("queue=email (did you mean 'emails'?)")


def test_a_queue_that_is_not_listed_is_refused() -> None:
    with pytest.raises(CommandError, match=r"expected queues of .*got 'email' \(did you mean 'emails'\?\)") as refused:
        call_command("runworker", queues="email:3")

    assert refused.value.returncode == 2


def test_drain_does_not_wait_for_paused_queues(trial: Trial) -> None:
    rows("insert into djqueue_queue (name, paused_until) values ('emails', 'infinity')")
    tasks.note.using(queue_name="emails").enqueue("paused")
    tasks.note.enqueue("open")

    supervisor = trial.supervisor("--drain")

    assert supervisor.wait(within=20) == 0
    assert "paused queues are not drained, their jobs stay queues=emails" in supervisor.output()
    assert history() == {"succeeded": 1}
    assert [state for _, state, *_ in live()] == ["ready"]


@pytest.mark.parametrize(
    ("args", "options", "code"),
    [
        (["--processes", "0"], "{}", 2),
        (["--processes", "two"], "{}", 2),
        (["--queues", "a,,b"], "{}", 2),
        (["--backend", "nosuch"], "{}", 2),
        (["--nosuch"], "{}", 2),
        ([], '{"poll_seconds": 0}', 1),
        ([], '{"database": "nosuch"}', 1),
    ],
)
def test_what_is_refused_leaves_with_the_documented_code(
    trial: Trial, args: list[str], options: str, code: int
) -> None:
    assert trial.supervisor(*args, env={"DJQUEUE_OPTIONS": options}).wait(within=20) == code
