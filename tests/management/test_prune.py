"""`manage.py djqueue prune`: what is old goes, and it says how much."""

from datetime import timedelta

from djqueue.models import DeadLetter, History, HistoryOverflow
from djqueue.store import history
from tests.live import LiveDatabase
from tests.management.saying import answer, run
from tests.store.factories import add, fail, take
from tests.store.history_rows import days_ago, finished, today


def test_prune_removes_what_is_old_and_says_how_much(live_database: LiveDatabase) -> None:
    add(2, max_attempts=1)
    fail(*take(2))
    finished(days_ago(0), count=2)
    assert run("prune") == "Nothing is old enough.\n"

    DeadLetter.objects.update(died_at="2020-01-01T00:00Z")
    history._make_day("default", today() - timedelta(days=9))
    finished(days_ago(9), count=3)
    finished(days_ago(9), count=4, table="djqueue_history_overflow")

    assert answer("prune", "--history-days", "30") == dict.fromkeys(
        ("history_days", "cron_fires", "statistics", "dedupe_windows", "bulk_acts", "workers"), 0
    )
    found = answer("prune", "--dead-letter-days", "30")

    assert (found["history_days"], found["history"], found["dead_letters"]) == (1, 4, 2)
    assert (DeadLetter.objects.count(), HistoryOverflow.objects.count(), History.objects.count()) == (0, 0, 2)
