"""R20: with 100,000 rows in a table a list reads a page of it, and counts no further than it says."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from djqueue.admin import counting
from djqueue.models import Job
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
        ("job", "djqueue_job", JOBS),
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


@pytest.mark.parametrize("query", ["?state=leased", "?state=leased&queue=images"])
def test_the_few_running_jobs_are_found_by_their_index(client: Client, query: str) -> None:
    load(JOBS, "djqueue_job")
    assert Job.objects.filter(state="leased").count() == 10

    assert max(rows_read(client, list_of("job") + query, "djqueue_job")) <= PAGE


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


def test_an_action_finds_its_rows_by_their_ids(client: Client) -> None:
    load(JOBS, "djqueue_job")
    job = rows.make_scheduled_job()

    with CaptureQueriesContext(connection) as found:
        client.post(list_of("job"), {"action": "retry_now", "index": "0", "_selected_action": [str(job.pk)]})

    selects = [query["sql"] for query in found if query["sql"].startswith("SELECT") and job.pk.hex in query["sql"]]
    assert selects
    assert max(sum(scanned(plan_of(sql))) for sql in selects) <= 1
