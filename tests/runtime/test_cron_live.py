"""R17 with real supervisors: what the code declares is written at start and fires, whoever leads."""

import pytest

from tests.helpers import eventually
from tests.runtime.trial import Trial, rows

pytestmark = pytest.mark.slow

OPTIONS = {"task_modules": ["testproject.trials.recurring"]}
ENTRY = "select in_code, enabled, next_fire_at > now(), last_error from djqueue_cron_entry where name = 'recurring'"


def make_due() -> None:
    """Let this minute be a time of the entry's schedule, and its plan."""
    rows(
        "update djqueue_cron_entry set next_fire_at = date_trunc('minute', now()), "
        "schedule = extract(minute from now() at time zone 'UTC') || ' * * * *'"
    )


def forget() -> None:
    """Let nothing have fired, so that the same minute may fire again."""
    rows("delete from djqueue_cron_memory")
    rows("delete from djqueue_cron_fire")


def leads() -> object:
    found = rows("select holder from djqueue_leader where name = 'cron' and until > now()")
    return found[0][0] if found else ""


def test_r17_a_declared_entry_is_written_at_start_and_fires_under_the_next_leader_too(trial: Trial) -> None:
    first = trial.supervisor(options=OPTIONS)
    eventually(lambda: rows(ENTRY) == [(True, True, True, "")], within=20, message=first.output)
    make_due()
    trial.wait_for_starts("recurring")
    leader = leads()

    second = trial.supervisor(options=OPTIONS)
    second.wait_for_output("supervisor starts")
    first.kill_tree()
    eventually(lambda: leads() not in ("", leader), within=30, message=second.output)
    second.wait_for_output("entry of the code changed")
    forget()
    make_due()
    trial.wait_for_starts("recurring", times=2)

    trial.wait_until_done()
    assert rows("select outcome, job_id is not null from djqueue_cron_fire") == [("enqueued", True)]
    assert trial.events() == {"recurring": 2}
