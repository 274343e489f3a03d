"""Replays of dead letters: requeued at a rate, watched, stopped, continued after a crash."""

import pytest

from djqueue.store import db, replay
from djqueue.store.letters import Letters
from djqueue.store.replay import Progress, Wanted
from tests.store.factories import ALIAS, Party, ack, add_one, count, fail, take
from tests.store.test_deaths import cause, die


def start(**wanted: object) -> int:
    """A replay of everything that died of the usual cause."""
    letters = Letters(fingerprint=cause().fingerprint)
    return replay.create(ALIAS, Wanted(**{"letters": letters, "per_second": 100, **wanted}))  # type: ignore[arg-type]


def later(seconds: float = 1.0) -> list[Progress]:
    """The next step, so many seconds after the last one."""
    db.rows(ALIAS, f"update djqueue_replay set ticked_at = ticked_at - interval '{seconds} s'")
    return replay.step_all(ALIAS)


def known(columns: str = "state, total, requeued, refused, succeeded, failed") -> tuple[object, ...]:
    [found] = db.rows(ALIAS, f"select {columns} from djqueue_replay")
    return tuple(found)


def test_the_canary_goes_first_and_the_others_follow_when_it_has_succeeded(store: str) -> None:
    die(50)
    start(canary=5)

    assert [step.requeued for step in replay.step_all(ALIAS)] == [5]
    assert [step.requeued for step in later()] == [0]
    ack(*take(50))
    assert [step.requeued for step in later(0.2)] == [45]
    ack(*take(50))
    [last] = later()

    assert last.state == "finished"
    assert known() == ("finished", 50, 50, 0, 50, 0)
    assert count("dead_letter") == 0


def test_a_canary_that_dies_again_stops_the_replay(store: str) -> None:
    die(50)
    start(canary=5)
    replay.step_all(ALIAS)
    fail(*take(50), final=True, cause=cause())

    [step] = later()

    assert step.state == "stopped"
    assert "5 of 5 of the canary failed" in step.reason
    assert (count("dead_letter"), later()) == (50, [])


def test_a_canary_whose_first_attempt_fails_counts_as_failed_until_it_succeeds(store: str) -> None:
    die(10)
    start(canary=2, stop_ratio=1)
    replay.step_all(ALIAS)
    fail(*take(2), delay_seconds=0)
    later(0)
    assert known("succeeded, failed") == (0, 2)

    ack(*take(2))
    later(0)

    assert known("succeeded, failed") == (2, 0)


def test_a_released_job_is_no_failure(store: str) -> None:
    from djqueue.store import lease
    from tests.store.factories import lease_of

    die(5)
    start(canary=2)
    replay.step_all(ALIAS)
    lease.release(ALIAS, [lease_of(job) for job in take(2)])

    later(0)

    assert known("state, failed") == ("running", 0)


def test_cancelled_jobs_count_neither_way_and_the_replay_ends(store: str) -> None:
    die(3)
    start(canary=0)
    replay.step_all(ALIAS)
    fail(*take(3), cancel=True)

    later()

    assert known() == ("finished", 3, 3, 0, 0, 0)


def test_a_job_that_dies_again_is_not_replayed_again(store: str) -> None:
    die(3)
    start(canary=0, stop_ratio=1)
    replay.step_all(ALIAS)
    fail(*take(3), final=True, cause=cause())

    [step] = later()

    assert (step.state, step.requeued) == ("finished", 0)
    assert known() == ("finished", 3, 3, 0, 0, 3)


def test_a_letter_whose_key_is_taken_is_passed_by(store: str) -> None:
    """R8."""
    die(1, dedupe_key="k")
    die(2)
    add_one(dedupe_key="k")
    start(canary=0)

    replay.step_all(ALIAS)

    assert known("requeued, refused") == (2, 1)
    assert count("dead_letter") == 1


def test_a_replay_keeps_its_rate_also_after_a_day(store: str) -> None:
    die(100)
    start(per_second=10, canary=0)

    steps = [replay.step_all(ALIAS), later(0.5), later(86_400)]

    assert [step.requeued for [step] in steps] == [10, 5, 10]


def test_a_paused_replay_does_nothing_until_it_is_resumed(store: str) -> None:
    die(20)
    id_ = start(per_second=10, canary=0)
    replay.step_all(ALIAS)
    assert replay.pause(ALIAS, [id_]) == {id_}
    assert (replay.pause(ALIAS, [id_]), later()) == (set(), [])

    assert replay.resume(ALIAS, [id_]) == {id_}
    [step] = later(0.5)

    assert step.requeued == 5


def test_a_stopped_replay_can_not_be_resumed(store: str) -> None:
    die(2)
    id_ = start()
    assert replay.stop(ALIAS, [id_]) == {id_}

    assert replay.resume(ALIAS, [id_]) == replay.pause(ALIAS, [id_]) == replay.stop(ALIAS, [id_]) == set()
    assert known("state, reason") == ("stopped", "stopped by hand")


def test_letters_that_came_after_the_start_are_left_alone(store: str) -> None:
    die(2)
    start(canary=0)
    db.rows(ALIAS, "update djqueue_replay set created_at = created_at - interval '1 h'")
    db.rows(ALIAS, "update djqueue_dead_letter set died_at = died_at - interval '2 h'")
    die(3)

    replay.step_all(ALIAS)

    assert known("requeued") == (2,)
    assert count("dead_letter") == 3


def test_a_replay_of_nothing_is_finished_at_once(store: str) -> None:
    start()

    assert [step.state for step in replay.step_all(ALIAS)] == ["finished"]


def test_a_replay_by_queue_and_task_takes_those_only(store: str) -> None:
    die(2, task_name="a")
    die(2, task_name="b")
    start(letters=Letters(queue_name="q", task_name="a"), canary=0)

    replay.step_all(ALIAS)

    assert count("job", "task_name = 'a'") == count("job") == 2


def test_of_two_leaders_one_takes_the_step(committed: None, other: Party) -> None:
    die(20)
    id_ = start(per_second=10, canary=0)
    other.begin()
    theirs = other.do(lambda: replay.step(ALIAS, id_))

    mine = replay.step(ALIAS, id_)
    other.commit()

    assert theirs is not None
    assert (theirs.requeued, mine, known("requeued")) == (10, None, (10,))


def test_a_step_that_was_cut_off_has_not_happened(committed: None, other: Party) -> None:
    die(20)
    id_ = start(per_second=10, canary=0)
    other.begin()
    other.do(lambda: replay.step(ALIAS, id_))
    other.rollback()

    assert (known("requeued"), count("job"), count("dead_letter")) == ((0,), 0, 20)
    [step] = replay.step_all(ALIAS)
    assert step.requeued == 10


@pytest.mark.parametrize(
    "wrong", [{"per_second": 0}, {"per_second": 1e6}, {"canary": -1}, {"stop_ratio": 1.5}, {"per_second": float("nan")}]
)
def test_a_replay_out_of_bounds_is_refused(store: str, wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=rf"{next(iter(wrong))}: expected"):
        start(**wrong)
