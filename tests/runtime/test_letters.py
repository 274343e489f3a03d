"""Deaths from the handler to the group, and back: counted by cause, told, replayed at a rate by the leader."""

import signal
import time
from typing import Any

import pytest
from django.db import connection, transaction

from djqueue.store import letters, replay
from djqueue.store.letters import Letters
from djqueue.store.replay import Wanted
from testproject.trials import mortal
from tests.helpers import eventually
from tests.processes import Supervisor
from tests.runtime.trial import Trial, dead, rows

pytestmark = pytest.mark.slow

OPTIONS = {"task_modules": ["testproject.trials.mortal"], "poll_seconds": 0.2}
LETTERS = 10_000
RATE = 500.0


def counted() -> list[tuple[Any, ...]]:
    """The groups: exception, count."""
    return rows("select exception, count from djqueue_error_group order by exception, frame")


def state_of(id_: int) -> tuple[Any, ...]:
    """Where a replay stands."""
    return rows("select state, requeued, succeeded, failed, reason from djqueue_replay where id = %s", id_)[0]


def test_ten_thousand_dead_letters_of_five_causes_are_five_groups_and_a_replay_stops_or_completes(trial: Trial) -> None:
    """A canary that fails stops the replay by itself; when the cause is mended, it completes at its rate, across a
    restart of all workers."""
    mended = trial.file("mended")
    with transaction.atomic():
        mortal.die_of_one_of_five.enqueue_many([(n, mended) for n in range(LETTERS)])
    workers = trial.supervisor("--processes", "2", options=OPTIONS)
    eventually(lambda: sum(count for _, count in counted()) == LETTERS, 60, message=lambda: str(counted()))
    assert [count for _, count in counted()] == [LETTERS // mortal.CAUSES] * mortal.CAUSES
    cause = rows("select fingerprint from djqueue_error_group where exception = 'builtins.ValueError'")[0][0]
    chosen = Letters(fingerprint=cause)

    hopeless = replay.create("default", Wanted(letters=chosen, per_second=RATE, canary=5))
    eventually(lambda: state_of(hopeless)[0] != "running", 20, message=lambda: str(state_of(hopeless)))
    assert state_of(hopeless)[:4] == ("stopped", 5, 0, 5)
    assert "5 of 5 of the canary failed" in state_of(hopeless)[4]
    assert len(dead()) == LETTERS

    trial.make("mended")
    began = time.monotonic()
    hopeful = replay.create("default", Wanted(letters=chosen, per_second=RATE, canary=5))
    eventually(lambda: state_of(hopeful)[1] >= LETTERS / mortal.CAUSES / 4, 30, message=lambda: str(state_of(hopeful)))
    assert state_of(hopeful)[0] == "running"
    restarted(workers, trial)
    eventually(lambda: state_of(hopeful)[0] != "running", 60, message=lambda: str(state_of(hopeful)))
    seconds = time.monotonic() - began

    assert state_of(hopeful) == ("finished", LETTERS // mortal.CAUSES, LETTERS // mortal.CAUSES, 0, "")
    assert letters.count("default", chosen) == 0
    assert len(dead()) == LETTERS - LETTERS // mortal.CAUSES
    assert seconds >= LETTERS / mortal.CAUSES / RATE - 1.5, (
        "faster than the rate, but for a second's worth at its start"
    )


def restarted(workers: Supervisor, trial: Trial) -> Supervisor:
    """Stop all workers and start others."""
    workers.signal(signal.SIGTERM)
    eventually(lambda: not workers.is_running(), 30)
    return trial.supervisor("--processes", "2", options=OPTIONS)


def test_r29_a_hook_takes_secrets_out_of_all_that_is_recorded(trial: Trial) -> None:
    card = "4111111111111111"
    mortal.die_saying.enqueue(f"card {card} refused")
    trial.supervisor(options={**OPTIONS, "redact": "testproject.trials.mortal.without_card_numbers"})

    eventually(lambda: counted() == [("builtins.ValueError", 1)], 20)

    assert [message for (message,) in rows("select errors->0->>'message' from djqueue_dead_letter")] == [
        "card [card] refused"
    ]
    assert card not in everything_but_arguments()


def test_r29_a_hook_that_fails_leaves_a_placeholder_never_the_text(trial: Trial) -> None:
    mortal.die_saying.enqueue("the password is swordfish")
    workers = trial.supervisor(options={**OPTIONS, "redact": "testproject.trials.mortal.broken_hook"})

    eventually(lambda: counted() == [("builtins.ValueError", 1)], 20)

    [(message, trace)] = rows("select errors->0->>'message', errors->0->>'traceback' from djqueue_dead_letter")
    assert message == trace == "[redacted: the redact hook failed with RuntimeError]"
    assert "swordfish" not in everything_but_arguments()
    assert "swordfish" not in workers.output()


def everything_but_arguments() -> str:
    """All that was written about deaths."""
    with connection.cursor() as cursor:
        cursor.execute("select (to_jsonb(d) - 'args')::text from djqueue_dead_letter d")
        found = [row[0] for row in cursor.fetchall()]
        cursor.execute("select to_jsonb(g)::text from djqueue_error_group g")
        return "\n".join([*found, *(row[0] for row in cursor.fetchall())])


def test_a_poison_job_has_a_group_that_names_its_task(trial: Trial) -> None:
    from testproject.trials import tasks

    tasks.poison.using(max_attempts=1).enqueue("poison")
    trial.supervisor(options=OPTIONS)

    eventually(lambda: counted() == [("djqueue.WorkerLost", 1)], 20)

    assert rows("select frame, tasks->>0 from djqueue_error_group") == [
        ("task testproject.trials.tasks.poison", "testproject.trials.tasks.poison")
    ]


def test_a_job_in_a_paused_queue_expires_without_being_claimed(trial: Trial) -> None:
    from datetime import timedelta

    from django.utils import timezone

    from djqueue.store import operate

    operate.pause("default", "default", timezone.now() + timedelta(hours=1))
    mortal.briefly.using(expires_after=0.1).enqueue("late")
    mortal.briefly.enqueue("in time")
    trial.supervisor(options=OPTIONS)

    eventually(lambda: rows("select outcome from djqueue_history") == [("cancelled",)], 20)

    assert rows("select count(*) from djqueue_job") == [(1,)]
