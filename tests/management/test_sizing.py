"""`manage.py djqueue plan`: from flags, from the last week, and what it refuses."""

from typing import Any

import pytest
from django.core.management import CommandError

from djqueue.store import stats
from tests.management.saying import answer, run

pytestmark = pytest.mark.django_db
EXAMPLE = ("--jobs-per-day", "50,000,000", "--peak", "4", "--seconds", "2", "--slots", "10", "--bytes", "1000",
           "--days", "7", "--headroom", "0.3")  # fmt: skip


def ended(count: int, seconds: float, outcome: str = "succeeded") -> None:
    of: Any = {"queue_name": "q", "task_name": "t", "outcome": outcome, "histogram": [0] * 24}
    stats.record("default", [stats.Stat(count=count, seconds=seconds, **of)])


def test_the_example_of_the_envelope_is_said_with_its_formulas() -> None:
    said = run("plan", *EXAMPLE)

    for words in ("2,310 enqueues/s", "7,080 store operations/s", "4,630 in flight", "602 workers", "350 GB of h"):
        assert words in said
    assert "in flight ÷ 10 slots, and 30% headroom" in said
    assert "More connections than this server allows" in said


def test_the_answer_as_json_has_the_documented_keys() -> None:
    found = answer("plan", *EXAMPLE)

    assert set(found) == {
        "source", "load", "enqueues_per_second", "operations_per_second", "in_flight", "workers", "storage_bytes",
        "shards", "connections", "connections_per_shard", "max_connections",
    }  # fmt: skip
    assert (found["source"], found["workers"], found["storage_bytes"]) == ("flags", 602, 350e9)


def test_without_flags_it_goes_by_what_ended_in_the_last_week() -> None:
    ended(3_600, 7_200.0)
    ended(360, 3_600.0, outcome="scheduled")

    found = answer("plan", "--slots", "3")

    assert found["source"] == "last week"
    assert found["load"]["jobs_per_day"] == pytest.approx(86_400, rel=0.01)
    assert found["load"]["seconds"] == 3
    assert (found["in_flight"], found["workers"]) == (pytest.approx(3, rel=0.02), 2)


def test_without_flags_and_without_a_week_it_says_what_it_needs() -> None:
    with pytest.raises(CommandError, match="expected --jobs-per-day"):
        run("plan")


@pytest.mark.parametrize("words", [("--slots", "1.5"), ("--peak", "0"), ("--jobs-per-day", "many"), ("--days", "nan")])
def test_a_number_that_is_none_or_out_of_range_is_refused(words: tuple[str, str]) -> None:
    with pytest.raises(CommandError, match=f"{words[0]}: expected a"):
        run("plan", *words)
