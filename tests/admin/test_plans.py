"""R20: with 100,000 rows in a table a list reads a page of it, and counts no further than it says."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from djqueue.admin import counting
from djqueue.store import search, searchcount
from tests.admin import rows
from tests.admin.conftest import Login
from tests.admin.pages import list_of, text_of

pytestmark = pytest.mark.slow

COUNT = 100_000
PAGE = 50
NEWEST = 4_000
COUNTED = 2_000

# Ids that grow with n, as uuid7 does; one job in 10,000 is of another queue.
ID = "('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid"
QUEUE = "case when n % 10000 = 0 then 'images' else 'emails' end"
COMMON = "'other.task', '', '{}', '[]', '{}'"
JOBS = f"""
insert into djqueue_job (id, queue_name, task_name, tenant_id, args, errors, options, state, run_at, lease_until,
    leased_by)
select {ID}, {QUEUE}, {COMMON}, case when n % 10000 = 0 then 'leased' when n % 2 = 0 then 'scheduled' else 'ready' end,
    now() + interval '1 day', case when n % 10000 = 0 then now() end, case when n % 10000 = 0 then 'w' end
from generate_series(1, {COUNT}) n
"""
ENDED = "id, queue_name, task_name, tenant_id, args, errors, options, created_at, lease_token, attempts, interruptions"
ENDED_VALUES = f"{ID}, {QUEUE}, {COMMON}, now(), 1, 1, 0"
HISTORY = f"""
insert into djqueue_history ({ENDED}, runs, priority, worker_ids, finished_at, outcome)
select {ENDED_VALUES}, 1, 0, '{{}}', now(), 'succeeded' from generate_series(1, {COUNT}) n
"""
DEAD = f"""
insert into djqueue_dead_letter ({ENDED}, runs, priority, worker_ids, seq, died_at, max_attempts, reason, lane, on_dead)
select {ENDED_VALUES}, 1, 0, '{{}}', n, now(), 1, 'because', '', 'skip' from generate_series(1, {COUNT}) n
"""


@pytest.fixture
def client(login: Login, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Somebody who may see all, and lower limits, so that a scan of the table shows."""
    monkeypatch.setattr(counting, "MOST_COUNTED", COUNTED)
    monkeypatch.setattr(counting, "NEWEST", NEWEST)
    return login("*")


def load(statement: str, table: str) -> None:
    """Fill a table and let the planner know."""
    with connection.cursor() as cursor:
        cursor.execute(statement)
        cursor.execute(f"analyze {table}")


def rows_read(client: Client, address: str, table: str) -> list[float]:
    """How many rows each statement of a page takes from the table's scans, those thrown away included."""
    with CaptureQueriesContext(connection) as found:
        text_of(client.get(address))
    return [sum(scanned(plan_of(query["sql"]))) for query in found if f'FROM "{table}"' in query["sql"]]


def plan_of(sql: str) -> dict[str, Any]:
    """The plan of a statement, as it ran."""
    with connection.cursor() as cursor:
        cursor.execute("explain (analyze, timing off, format json) " + sql.replace("%", "%%"), [])
        answer = cursor.fetchone()[0]
    plan: dict[str, Any] = (json.loads(answer) if isinstance(answer, str) else answer)[0]["Plan"]
    return plan


def scanned(plan: dict[str, Any]) -> Iterator[float]:
    """The rows that each scan of a plan looked at."""
    if plan["Node Type"].endswith("Scan") and plan["Node Type"] != "Bitmap Index Scan":
        removed = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        yield (plan["Actual Rows"] + removed) * plan["Actual Loops"]
    for child in plan.get("Plans", []):
        yield from scanned(child)


@pytest.mark.parametrize(
    ("model", "table", "statement"),
    [
        ("history", "djqueue_history", HISTORY),
        ("deadletter", "djqueue_dead_letter", DEAD),
    ],
)
def test_r20_a_list_reads_one_page_and_counts_so_far(client: Client, model: str, table: str, statement: str) -> None:
    load(statement, table)
    wanted = f"00000000-0000-7000-8000-{77:012x}"

    assert sorted(rows_read(client, list_of(model), table)) == [PAGE, COUNTED + 1]
    assert sorted(rows_read(client, list_of(model) + "?p=3", table)) == [3 * PAGE, COUNTED + 1]
    assert max(rows_read(client, list_of(model) + "?queue=emails", table)) <= COUNTED + 2
    assert max(rows_read(client, f"{list_of(model)}?q={wanted}", table)) <= 1


@pytest.mark.parametrize("query", ["?outcome=cancelled", "?q=nobody.knows", "?outcome=succeeded&q=nobody.knows"])
def test_r20_a_condition_without_an_index_reads_only_the_newest_history(client: Client, query: str) -> None:
    load(HISTORY, "djqueue_history")

    assert max(rows_read(client, list_of("history") + query, "djqueue_history")) <= NEWEST


def test_a_dead_letter_is_searched_among_the_newest(client: Client) -> None:
    load(DEAD, "djqueue_dead_letter")

    assert max(rows_read(client, list_of("deadletter") + "?q=nobody.knows", "djqueue_dead_letter")) <= NEWEST


@pytest.mark.parametrize(
    ("model", "table", "statement"),
    [("history", "djqueue_history", HISTORY), ("deadletter", "djqueue_dead_letter", DEAD)],
)
@pytest.mark.parametrize("queue", ["images", "nowhere"])
def test_what_ended_in_a_rare_queue_is_found_by_its_index(
    client: Client, model: str, table: str, statement: str, queue: str
) -> None:
    load(statement, table)

    assert max(rows_read(client, f"{list_of(model)}?queue={queue}", table)) <= PAGE


@pytest.fixture
def loaded(client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """All three tables full, and a small window."""
    monkeypatch.setattr(search, "WINDOW", NEWEST)
    monkeypatch.setattr(search, "JSON_WINDOW", NEWEST)
    monkeypatch.setattr(searchcount, "MOST_COUNTED", COUNTED)
    load(JOBS, "djqueue_job")
    load(HISTORY, "djqueue_history")
    load(DEAD, "djqueue_dead_letter")
    return client


def read_whole(plan: dict[str, Any]) -> Iterator[str]:
    """The tables with rows that are read without an index."""
    if plan["Node Type"] == "Seq Scan" and plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) > 0:
        yield plan["Relation Name"]
    for child in plan.get("Plans", []):
        yield from read_whole(child)


SEARCHES = [
    "",
    "?state=ready",
    "?state=running",
    "?state=scheduled",
    "?state=retrying",
    "?state=parked",
    "?state=succeeded",
    "?state=cancelled",
    "?state=dead",
    "?q=nobody.knows",
    "?q=queue:images",
    "?q=queue:nowhere+state:running",
    "?q=tenant:nobody",
    "?q=key:nobody",
    "?q=tag:nobody",
    "?q=error:nobody",
    "?q=args.a:1",
    "?q=older:10m",
    "?q=cause:nobody",
    f"?q=id:00000000-0000-7000-8000-{77:012x}",
    f"?before=00000000-0000-7000-8000-{50_000:012x}",
    f"?q=tenant:nobody&before=00000000-0000-7000-8000-{50_000:012x}",
]


def test_r20_no_list_of_jobs_reads_more_than_a_window_of_any_table(loaded: Client) -> None:
    """Nor history, nor any of its partitions, without an index."""
    for query in SEARCHES:
        with CaptureQueriesContext(connection) as found:
            text_of(loaded.get(list_of("job") + query))

        assert len(found) <= 12, query
        for each in found:
            if "djqueue_" in each["sql"]:
                plan = plan_of(each["sql"])
                assert max(scanned(plan), default=0) <= NEWEST + PAGE, (query, each["sql"])
                assert not [name for name in read_whole(plan) if name.startswith("djqueue_history")], query


def test_r20_the_page_that_asks_reads_no_history(loaded: Client) -> None:
    address = reverse("admin:djqueue_job_bulk")

    with CaptureQueriesContext(connection) as found:
        text_of(loaded.post(address, {"act": "requeue", "all": "1", "q": "queue:images"}))

    assert len(found) <= 12
    assert not [
        each["sql"] for each in found if "from djqueue_history " in each["sql"] and "case when false" not in each["sql"]
    ]


def test_an_action_finds_its_rows_by_their_ids(client: Client) -> None:
    load(JOBS, "djqueue_job")
    job = rows.make_scheduled_job()

    with CaptureQueriesContext(connection) as found:
        client.post(list_of("job"), {"action": "retry_now", "index": "0", "_selected_action": [str(job.pk)]})

    selects = [query["sql"] for query in found if query["sql"].startswith("SELECT") and job.pk.hex in query["sql"]]
    assert selects
    assert max(sum(scanned(plan_of(sql))) for sql in selects) <= 1
