"""The options of a task: obeyed, or refused with a sentence that helps."""

from datetime import timedelta
from typing import Any

import pytest

from djqueue import DjqueueTask, RetryPolicy, task
from djqueue.api import options
from djqueue.api.options import KNOWN, PER_CALL, TaskOptions, Timeout
from djqueue.compat import InvalidTask


def work(value: int = 0) -> int:
    """Do nothing."""
    return value


def work_in_context(context: Any) -> None:
    """Do nothing."""


plain = task(work)


def test_a_task_may_be_declared_bare_or_with_options() -> None:
    assert isinstance(task(work), DjqueueTask)
    assert task()(work) == task(work)
    assert task(queue_name="emails", priority=3)(work).priority == 3


def test_every_option_reaches_the_task() -> None:
    policy = RetryPolicy(base_seconds=1)

    declared = task(
        queue_name="emails",
        priority=-3,
        max_attempts=1,
        timeout_seconds=0.5,
        retry=policy,
        atomic=True,
        isolation="read committed",
        dedupe_key="k",
        on_conflict="ignore",
        ordering_key="o",
        on_dead="block",
        aliases=["old.path"],
        tags=(each for each in ["a"]),
        keep_result=False,
        circuit="stripe",
    )(work)

    assert (declared.queue_name, declared.priority, declared.max_attempts) == ("emails", -3, 1)
    assert (declared.timeout_seconds, declared.retry, declared.atomic) == (0.5, policy, True)
    assert (declared.isolation, declared.dedupe_key, declared.keep_result) == ("read committed", "k", False)
    assert (declared.aliases, declared.tags, declared.circuit) == (("old.path",), ("a",), "stripe")
    assert (declared.ordering_key, declared.on_dead) == ("o", "block")


def test_the_documented_options_are_the_fields_of_a_task() -> None:
    internal = {"func", "run_after", "run_in", "outside_transaction", "follows"}

    assert set(KNOWN) == set(DjqueueTask.__dataclass_fields__) - internal
    assert set(PER_CALL) - {"run_after", "outside_transaction"} < set(KNOWN)


def test_an_unknown_option_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(TypeError, match=r"@task of tests.api.test_options.work: unknown option 'max_attempt'.*mean 'm"):
        task(max_attempt=3)(work)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"work.using: unknown option 'dedup_key' \(did you mean 'dedupe_key'\?\)"):
        plain.using(dedup_key="x")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["run_after", "outside_transaction"])
def test_what_belongs_to_one_call_can_not_be_declared(name: str) -> None:
    with pytest.raises(TypeError, match=rf"use .using\({name}=…\)"):
        task(**{name: True})(work)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", sorted(set(TaskOptions.__annotations__) - set(PER_CALL)))
def test_what_belongs_to_the_task_can_not_be_given_per_call(name: str) -> None:
    with pytest.raises(TypeError, match=rf"declare it with @task\({name}=…\)"):
        plain.using(**{name: None})  # type: ignore[arg-type]


BAD: list[tuple[str, Any, str]] = [
    ("max_attempts", 0, "a whole number from 1 to 1,000"),
    ("max_attempts", 1_001, "a whole number from 1 to 1,000"),
    ("max_attempts", 2.0, "a whole number from 1 to 1,000"),
    ("max_attempts", True, "a whole number from 1 to 1,000"),
    ("timeout_seconds", 0, "seconds above 0 and up to 604,800"),
    ("timeout_seconds", 604_801, "seconds above 0 and up to 604,800"),
    ("timeout_seconds", float("nan"), "seconds above 0 and up to 604,800"),
    ("timeout_seconds", "30", "seconds above 0 and up to 604,800"),
    ("timeout_seconds", timedelta(seconds=3), "seconds above 0 and up to 604,800"),
    ("timeout_seconds", None, "name a limit or take the context"),
    ("tags", "word", "expected a list of texts, got str"),
    ("tags", ["x"] * 21, "at most 20, got 21"),
    ("tags", [1], r"tags\[0\]: expected text, got int"),
    ("tags", ["x" * 101], r"tags\[0\]: expected at most 100 characters"),
    ("dedupe_key", 7, "text, a function or None, got int"),
    ("ordering_key", 7, "text, a function or None, got int"),
    ("ordering_key", "", "expected text, got an empty one"),
    ("on_dead", "skip", "expected 'continue' or 'block', got 'skip'"),
]
BAD_DECLARED: list[tuple[str, Any, str]] = [
    ("retry", 3, "expected a RetryPolicy, a FixedRetry, a function or None, got int"),
    ("atomic", 1, "expected True or False, got 1"),
    ("keep_result", None, "expected True or False, got None"),
    ("isolation", "serializable", "expected 'process', 'read committed' or None, got 'serializable'"),
    ("on_conflict", "update", "expected 'ignore', 'replace', 'reschedule' or 'raise', got 'update'"),
    ("aliases", "old.path", "expected a list of texts, got str"),
    ("circuit", "", "circuit: expected text, got an empty one"),
    ("circuit", 7, "circuit: expected text, got int"),
    ("circuit", "x" * 101, "circuit: expected at most 100 characters, got 101"),
    ("aliases", ["x" * 301], r"aliases\[0\]: expected at most 300 characters"),
]


@pytest.mark.parametrize(("name", "value", "words"), [*BAD, *BAD_DECLARED])
def test_a_value_out_of_bounds_is_refused_when_the_task_is_declared(name: str, value: Any, words: str) -> None:
    with pytest.raises(InvalidTask, match=rf"tests.api.test_options.work: .*{words}"):
        task(**{name: value})(work)


@pytest.mark.parametrize(("name", "value", "words"), BAD)
def test_a_value_out_of_bounds_is_refused_when_it_is_given_per_call(name: str, value: Any, words: str) -> None:
    with pytest.raises(InvalidTask, match=words):
        plain.using(**{name: value})


@pytest.mark.parametrize("delay", [timedelta(seconds=-1), timedelta(days=3_651)])
def test_a_relative_delay_has_bounds(delay: timedelta) -> None:
    with pytest.raises(InvalidTask, match="run_after: expected between 0 and"):
        plain.using(run_after=delay)


@pytest.mark.parametrize("priority", ["high", True, [1]])
def test_a_priority_that_is_no_number_is_refused_with_the_range(priority: Any) -> None:
    words = r"work: priority: expected a whole number from -100 to 100 \(higher comes first\), got"
    with pytest.raises(InvalidTask, match=words):
        task(priority=priority)(work)
    with pytest.raises(InvalidTask, match=words):
        plain.using(priority=priority)


def test_a_run_after_that_is_no_moment_is_refused_with_the_remedy() -> None:
    with pytest.raises(
        InvalidTask, match=r"run_after: expected a datetime or a timedelta, got 5; write timedelta\(sec"
    ):
        plain.using(run_after=5)  # type: ignore[arg-type]


def test_an_unknown_queue_is_refused_with_the_nearest_one_and_the_place_where_queues_are_listed() -> None:
    with pytest.raises(InvalidTask, match=r"work: Queue 'email' is not valid .* one of .* \(did you mean 'emails'\?\)"):
        plain.using(queue_name="email")
    with pytest.raises(InvalidTask, match=r"TASKS\['default'\]\['QUEUES'\]"):
        task(queue_name="nosuch")(work)


def test_no_time_limit_is_for_tasks_that_can_prove_that_they_live() -> None:
    declared = task(takes_context=True, timeout_seconds=None)(work_in_context)

    assert declared.timeout_seconds is None
    assert declared.using(timeout_seconds=5).timeout_seconds == 5
    assert declared.using(priority=1).timeout_seconds is None


def test_using_changes_what_it_names_and_nothing_else() -> None:
    declared = task(priority=3, tags=["a"], max_attempts=2)(work)

    changed = declared.using(queue_name="emails")

    assert (changed.queue_name, changed.priority, changed.tags, changed.max_attempts) == ("emails", 3, ("a",), 2)
    assert declared.queue_name == "default"
    assert declared.timeout_seconds is Timeout.OF_BACKEND


def test_a_name_that_is_too_long_to_be_stored_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "TASK_NAME_LIMIT", 20)

    with pytest.raises(InvalidTask, match="the task's name: expected at most 20 characters"):
        task(work)
