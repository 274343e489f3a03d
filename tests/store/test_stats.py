"""Minute statistics and the figures in the queue rows."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import UUID

import pytest
from django.db import connections, transaction

from djqueue.policy.histogram import BUCKETS, bucket
from djqueue.policy.ids import uuid7
from djqueue.store import db, enqueue, stats
from tests.helpers import BLOCKED, eventually, raw_connection

pytestmark = pytest.mark.usefixtures("live_database")


def stat(task: str = "noop", count: int = 1, seconds: float = 0.5, queue: str = "default") -> stats.Stat:
    histogram = [0] * BUCKETS
    histogram[bucket(seconds)] = count
    return stats.Stat(
        queue_name=queue, task_name=task, outcome="succeeded", count=count, seconds=seconds, histogram=histogram
    )


def recorded() -> dict[tuple[str, str], tuple[int, float, list[int]]]:
    found = db.rows(
        "default",
        "select queue_name, task_name, sum(count)::int, sum(seconds), array(select sum(h)::bigint from djqueue_stat x, "
        "unnest(x.histogram) with ordinality u(h, n) where (x.queue_name, x.task_name) = (s.queue_name, s.task_name) "
        "group by n order by n) from djqueue_stat s group by 1, 2",
    )
    return {(queue, task): (count, seconds, histogram) for queue, task, count, seconds, histogram in found}


def put(queue: str, state: str = "ready", count: int = 1) -> list[UUID]:
    ids = [uuid7() for _ in range(count)]
    for id_ in ids:
        enqueue.enqueue("default", enqueue.NewJob(id=id_, queue_name=queue, task_name="noop", args="[]"))
    lease = ", lease_until = now(), leased_by = 'w', attempts = 1" if state == "leased" else ""
    db.rows("default", f"update djqueue_job set state = '{state}'{lease} where id = any(%(ids)s)", {"ids": ids})
    return ids


def summary(queue: str) -> tuple[int, int, int, int, bool, bool]:
    found = db.rows(
        "default",
        "select ready, scheduled, parked, leased, oldest_ready_at is not null, "
        "clock_timestamp() - summary_at < interval '5 s' from djqueue_queue where name = %(name)s",
        {"name": queue},
    )
    return found[0]  # type: ignore[return-value]


def test_reports_of_one_key_add_up() -> None:
    stats.record("default", [stat(count=2, seconds=0.5), stat(count=1, seconds=3)])
    stats.record("default", [stat(count=4, seconds=0.5)])

    count, seconds, histogram = recorded()["default", "noop"]
    assert (count, seconds, sum(histogram), len(histogram)) == (7, 4.0, 7, BUCKETS)
    assert histogram[bucket(0.5)] == 6


def test_waits_add_up_beside_rows_of_older_workers() -> None:
    db.rows(
        "default",
        "insert into djqueue_stat (minute, queue_name, task_name, outcome, count, seconds, histogram) values "
        "(date_trunc('minute', now()), 'default', 'noop', 'succeeded', 1, 1, '{1}')",
    )
    waits = [0] * BUCKETS
    waits[3] = 2

    for _ in range(2):
        stats.record("default", [replace(stat(), wait_histogram=waits)])

    found = db.rows("default", "select wait_histogram[4]::int from djqueue_stat order by minute")
    assert sum(number or 0 for (number,) in found) == 4


def test_a_histogram_of_another_length_is_added_all_the_same() -> None:
    """R22: an older worker may know fewer buckets."""
    stats.record("default", [stat(count=2, seconds=0)])
    db.rows("default", "update djqueue_stat set histogram = '{2, 5}'")

    stats.record("default", [stat(count=1, seconds=0)])

    assert recorded()["default", "noop"][2][:3] == [3, 5, 0]


def test_no_report_writes_nothing() -> None:
    stats.record("default", [])

    assert recorded() == {}


def test_workers_that_report_the_same_keys_in_opposite_order_do_not_deadlock() -> None:
    start = threading.Barrier(2)
    keys = [f"task {n}" for n in range(50)]

    def report(names: list[str]) -> None:
        try:
            for _ in range(20):
                start.wait()
                stats.record("default", [stat(name) for name in names])
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(report, [keys, keys[::-1]]))

    assert {count for count, _, _ in recorded().values()} == {40}


def test_old_minutes_are_pruned() -> None:
    stats.record("default", [stat("old")])
    db.rows("default", "update djqueue_stat set minute = now() - interval '31 days'")
    stats.record("default", [stat("new")])

    assert stats.prune_stats("default") == 1
    assert list(recorded()) == [("default", "new")]


def test_a_summary_counts_exactly_and_makes_missing_rows() -> None:
    put("a", count=3)
    put("a", "parked")
    put("b", "leased", count=2)
    put("b", "scheduled")

    stats.summarise_queues("default")
    stats.summarise_queues("default")

    assert summary("a") == (3, 0, 1, 0, True, True)
    assert summary("b") == (0, 1, 0, 2, False, True)


def test_every_queue_that_had_statistics_lately_or_is_named_gets_a_row() -> None:
    stats.record("default", [stat("a", queue="quick")])
    put("busy", count=2)

    stats.summarise_queues("default", ["named", "busy"])

    assert {name: summary(name) for name in ("quick", "named")} == dict.fromkeys(
        ("quick", "named"), (0, 0, 0, 0, False, True)
    )
    assert summary("busy")[0] == 2


def test_a_queue_that_ran_empty_goes_back_to_nothing() -> None:
    ids = put("a", count=2)
    stats.summarise_queues("default")
    db.rows("default", "delete from djqueue_job where id = any(%(ids)s)", {"ids": ids})

    stats.summarise_queues("default")

    assert summary("a") == (0, 0, 0, 0, False, True)


def test_a_summary_keeps_the_settings_of_a_queue() -> None:
    put("a")
    db.rows("default", "insert into djqueue_queue (name, weight, paused_reason) values ('a', 7, 'repairs')")

    stats.summarise_queues("default")

    assert db.rows("default", "select weight, paused_reason, ready from djqueue_queue") == [(7, "repairs", 1)]


def test_a_summary_passes_over_a_queue_that_is_being_edited() -> None:
    put("a")
    put("b")
    stats.summarise_queues("default")
    put("a")
    put("b")
    with raw_connection() as other, other.transaction():
        other.execute("update djqueue_queue set weight = 3 where name = 'a'")
        stats.summarise_queues("default")
        assert (summary("a")[0], summary("b")[0]) == (1, 2)

    stats.summarise_queues("default")
    assert summary("a")[0] == 2


def test_summaries_at_once_do_not_deadlock() -> None:
    for name in "abcdefgh":
        put(name)
    with transaction.atomic():
        stats.summarise_queues("default")
        second = threading.Thread(target=summarise_elsewhere)
        second.start()
        with raw_connection() as other:
            eventually(lambda: not second.is_alive() or is_blocked(other))
    second.join()

    assert [summary(name)[0] for name in "abcdefgh"] == [1] * 8


def summarise_elsewhere() -> None:
    try:
        stats.summarise_queues("default")
    finally:
        connections.close_all()


def is_blocked(other) -> bool:  # type: ignore[no-untyped-def]
    return bool(other.execute(BLOCKED).fetchall())
