"""`manage.py djqueue replay`: followed to the end, stopped by its canary, left to the leader, refused."""

from collections.abc import Callable

import pytest
from django.core.management import CommandError

from djqueue.management.verbs import replay as verb
from djqueue.store import replay
from tests.management.saying import answer, partly, run
from tests.store.factories import PARTITION_FOR_ALL, ack, count, db, fail, take
from tests.store.test_deaths import cause, die

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def partition(request: pytest.FixtureRequest) -> None:
    """Make history ready."""
    request.getfixturevalue("db")
    db.rows("default", PARTITION_FOR_ALL)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """What a worker does while the command waits for its next look."""

    def does(work: Callable[[], object]) -> None:
        def pass_a_second(seconds: float) -> None:
            work()
            db.rows("default", "update djqueue_replay set ticked_at = ticked_at - interval '1 s'")

        monkeypatch.setattr(verb, "sleep", pass_a_second)

    return does


def test_a_replay_is_followed_until_its_jobs_have_succeeded(meanwhile: Callable[..., None]) -> None:
    die(20)
    meanwhile(lambda: ack(*take(50)))

    found = answer("replay", "--cause", cause().fingerprint, "--rate", "1000", "--canary", "3")

    assert found.pop("id") > 0
    assert found == {
        "state": "finished", "reason": "", "total": 20, "requeued": 20, "refused": 0, "succeeded": 20, "failed": 0,
    }  # fmt: skip
    assert count("dead_letter") == 0


def test_a_canary_that_fails_stops_it_and_the_exit_code_says_so(meanwhile: Callable[..., None]) -> None:
    die(20)
    meanwhile(lambda: fail(*take(50), final=True, cause=cause()))

    code, found = partly("replay", "--all", "--canary", "5")

    assert (code, found["state"], found["requeued"], found["failed"]) == (3, "stopped", 5, 5)
    assert "of the canary failed" in found["reason"]


def test_detached_it_is_left_to_the_leader() -> None:
    die(2)

    assert "running. 0 of 2 queued again" in run("replay", "--queue", "q", "--detach")
    assert [step.requeued for step in replay.step_all("default")] == [2]


def test_without_a_match_it_is_refused_and_no_run_is_left() -> None:
    with pytest.raises(CommandError, match="expected dead letters that match, got none"):
        run("replay", "--task", "none")
    assert count("replay") == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "expected --cause, --queue, --task or --all, got none"),
        (("--all", "--queue", "q"), "got both"),
        (("--all", "--rate", "0"), "--rate: expected a number"),
        (("--all", "--rate", "fast"), "--rate: expected a number"),
        (("--all", "--canary", "-1"), "--canary: expected a whole number"),
        (("--all", "--stop-ratio", "2"), "--stop-ratio: expected a number"),
        (("--queue", "a\0"), "--queue"),
    ],
)
def test_bad_and_missing_words_are_refused(words: tuple[str, ...], expected: str) -> None:
    with pytest.raises(CommandError, match=expected):
        run("replay", *words)
