"""What the admin's pages cost with millions of rows, and how long an act on 10,000 dead letters takes.

    python -m benchmarks.admin_pages [--history 5000000] [--live 100000] [--dead 100000] [--times 5] [--json]

Each page of djqueue is asked for several times by a superuser, in one process, without a network: the time is that of
the server's side. The number of queries and whether one of them reads history without an index come with it.
"""

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.setting import alone, fresh_server, machine

CHUNK = 250_000
DAYS = 7
COUNTED = 10_001

# Ids that begin with the moment of enqueueing, as uuid7 does; moments grow with n over the days before now.
_ID = """(lpad(to_hex((extract(epoch from {at}) * 1000)::bigint), 12, '0') || '7' || substr(md5({salt} || n), 1, 3)
    || '8' || substr(md5({salt} || n), 4, 15))::uuid"""
_AT = "now() - interval '{days} days' * (1 - n::float8 / {rows})"
_NAMES = "'queue' || n % 20, 'shop.tasks.task_' || n % 10, 'tenant' || n % 50"
_KEPT = """jsonb_build_object('args', jsonb_build_array(n, 'customer ' || n % 1000), 'kwargs', '{}'::jsonb),
    case when n % 50 = 0 then '[{"attempt": 1, "kind": "error", "exception": "shop.Down", "message": "no answer"}]'
        else '[]' end::jsonb,
    case when n % 1000 = 0 then jsonb_build_object('subject', 'shop.order:' || n / 1000) else '{}' end"""
HISTORY = """
insert into djqueue_history (id, queue_name, task_name, tenant_id, args, errors, options, finished_at, created_at,
    started_at, lease_token, attempts, interruptions, runs, priority, outcome, worker_ids)
select {id}, {names}, {kept}, {at} + interval '2 s', {at}, {at} + interval '1 s', n, 1, 0, 1, 0,
    case when n % 200 = 0 then 'cancelled' else 'succeeded' end, array['w' || n % 8]
from generate_series({first}, {last}) n
"""
LIVE = """
insert into djqueue_job (id, queue_name, task_name, tenant_id, args, errors, options, run_at, created_at, state,
    attempts, parked_for, lease_until, leased_by, started_at)
select {id}, {names}, {kept}, case when n % 10 between 6 and 8 then now() + interval '1 h' else {at} end, {at},
    case when n % 1000 = 1 then 'leased' when n % 10 between 6 and 8 then 'scheduled' when n % 10 = 9 then 'parked'
        else 'ready' end,
    (n % 10 = 6 or n % 1000 = 1)::int, case when n % 10 = 9 and n % 1000 <> 1 then 'task:shop.tasks.gone' end,
    case when n % 1000 = 1 then now() + interval '1 h' end, case when n % 1000 = 1 then 'w' || n % 8 end,
    case when n % 1000 = 1 then now() end
from generate_series({first}, {last}) n
"""
DEAD = """
insert into djqueue_dead_letter (id, queue_name, task_name, tenant_id, args, errors, options, seq, died_at, created_at,
    lease_token, priority, attempts, max_attempts, interruptions, runs, reason, lane, on_dead, worker_ids, fingerprint)
select {id}, {names}, {kept}, n, {at} + interval '1 h', {at}, n, 0, 8, 8, 0, 1, 'attempts used up', '', 'skip', '{{}}',
    'cause' || n % 20
from generate_series({first}, {last}) n
"""
OTHERS = """
insert into djqueue_error_group (fingerprint, exception, frame, masked, count, first_seen_at, last_seen_at, tasks)
select 'cause' || n, 'shop.Down', 'shop/tasks.py:call', 'no answer', 5000, now() - interval '7 days', now(),
    '["shop.tasks.task_1"]' from generate_series(0, 19) n;
insert into djqueue_stat (minute, queue_name, task_name, outcome, count, seconds, histogram)
select date_trunc('minute', now()) - m * interval '1 minute', 'queue' || t, 'shop.tasks.task_' || t, 'succeeded', 50, 5,
    array_fill(2::bigint, array[24]) from generate_series(0, 10080) m, generate_series(0, 9) t;
"""
SEARCHES = (
    "", "?state=ready", "?state=running", "?state=scheduled", "?state=retrying", "?state=parked", "?state=succeeded",
    "?state=cancelled", "?state=dead", "?q=queue:queue3", "?q=task:task_7", "?q=tenant:nobody", "?q=key:nobody",
    "?q=error:answer", "?q=error:nobody", "?q=args.1:nobody", "?q=args.0:77", "?q=tag:nobody",
    "?q=subject:shop.order:7", "?q=older:3d", "?q=older:3d+state:cancelled", "?q=state:dead+cause:cause7", "?q=nobody",
)  # fmt: skip


def main() -> int:
    """Fill, measure and print."""
    options = _options()
    with alone(), fresh_server():
        began = time.monotonic()
        _fill(options)
        filled = time.monotonic() - began
        pages = list(_pages(options.times))
        report = {
            "benchmark": "admin_pages",
            "rows": {"history": options.history, "live": options.live, "dead": options.dead},
            "machine": machine(),
            "seconds to fill": round(filled, 1),
            "median of medians in ms": round(statistics.median(page["ms"] for page in pages), 1),
            "slowest in ms": max(page["ms"] for page in pages),
            "most queries": max(page["queries"] for page in pages),
            "pages that read history without an index": [page["page"] for page in pages if page["reads history"]],
            "act on dead letters": _act(),
            "pages": pages,
        }
    print(json.dumps(report, indent=2) if options.json else _words(report))
    return 1 if report["pages that read history without an index"] else 0


def _fill(options: argparse.Namespace) -> None:
    from django.db import connection

    from djqueue.models import Worker
    from djqueue.store import history, stats

    today = datetime.now(UTC).date()
    for back in range(DAYS + 2):
        history._ensure_day("default", today - timedelta(days=back))
    _rows(HISTORY, options.history, "h", DAYS)
    _rows(LIVE, options.live, "l", 1)
    _rows(DEAD, options.dead, "d", DAYS)
    with connection.cursor() as cursor:
        cursor.execute(OTHERS)
        for table in ("djqueue_history", "djqueue_job", "djqueue_dead_letter", "djqueue_stat"):
            cursor.execute(f"vacuum analyze {table}")
    for number in range(8):
        Worker.objects.create(id=f"w{number}", host="host", pid=number, queues=["*"], seen_at=datetime.now(UTC))
    stats.summarise_queues("default")


def _rows(statement: str, rows: int, salt: str, days: int) -> None:
    from django.db import connection

    at = _AT.format(days=days, rows=max(1, rows))
    parts = {"names": _NAMES, "kept": _KEPT, "at": at, "id": _ID.format(at=at, salt=f"'{salt}'")}
    with connection.cursor() as cursor:
        cursor.execute("set synchronous_commit = off")
        for first in range(1, rows + 1, CHUNK):
            last = min(first + CHUNK - 1, rows)
            cursor.execute(statement.format(first=first, last=last, **parts))
            print(f"  {statement.split()[2]} {last:,} of {rows:,}", file=sys.stderr)


def _pages(times: int) -> Iterator[dict[str, Any]]:
    from django.contrib.auth.models import User
    from django.test import Client
    from django.urls import reverse

    from djqueue.models import DeadLetter, ErrorGroup, History, Job, Queue, Worker
    from tests.admin.addresses import addresses

    client = Client()
    client.force_login(User.objects.create_superuser("ada"))
    models = (Job, History, DeadLetter, ErrorGroup, Queue, Worker)
    objects = [model._default_manager.order_by("pk")[:1].get() for model in models]
    objects += [Job.objects.filter(state=state)[:1].get() for state in ("leased", "parked")]
    jobs = reverse("admin:djqueue_job_changelist")
    found = [*addresses(objects), *((f"jobs {query}", jobs + query) for query in SEARCHES)]
    for name, address in found:
        page = _measured(client, name, address, times)
        if page is not None:
            yield page


def _measured(client: Any, name: str, address: str, times: int) -> dict[str, Any] | None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as captured:
        response = client.get(address)
    queries = list(captured)  # the next request forgets them
    if response.status_code != 200:
        return None
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        client.get(address)
        spent.append(time.perf_counter() - began)
    reads = any(_reads_history(query["sql"]) for query in queries)
    page = {"page": name, "ms": round(1000 * statistics.median(spent), 1), "queries": len(queries)}
    print(f"  {page['ms']:8.1f} ms  {page['queries']:3d} queries  {name}", file=sys.stderr)
    return {**page, "reads history": reads}


def _reads_history(sql: str) -> bool:
    """Tell whether a statement reads more of a partition without an index than a list counts."""
    from django.db import connection

    if "djqueue_history" not in sql or not re.match(r"\s*(select|with)\b", sql, re.IGNORECASE):
        return False
    with connection.cursor() as cursor:
        cursor.execute("explain (analyze, timing off, format json) " + sql.replace("%", "%%"), [])
        answer = cursor.fetchone()[0]
    return _is_read((json.loads(answer) if isinstance(answer, str) else answer)[0]["Plan"])


def _is_read(plan: dict[str, Any]) -> bool:
    if plan["Node Type"].endswith("Seq Scan") and plan["Relation Name"].startswith("djqueue_history_p"):
        return bool(plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) > COUNTED)
    return any(map(_is_read, plan.get("Plans", [])))


def _act() -> dict[str, Any]:
    """Requeue the dead letters of one queue and more, until 10,000 are done, in one act."""
    from djqueue.models import BulkAct
    from djqueue.policy.search import parse
    from djqueue.store import bulk

    wanted = bulk.Wanted(act=bulk.Act.REQUEUE, search=parse("task:task_7"), query="task:task_7")
    began = time.perf_counter()
    id_ = bulk.create("default", wanted)
    created = time.perf_counter() - began
    steps = 0
    while bulk.step("default", id_):
        steps += 1
    act = BulkAct.objects.get(pk=id_)
    spent = time.perf_counter() - began
    return {
        "jobs": act.done,
        "state": act.state,
        "seconds to count and start": round(created, 2),
        "seconds in all": round(spent, 2),
        "batches": steps,
    }


def _words(report: dict[str, Any]) -> str:
    lines = [f"{page['ms']:8.1f} ms  {page['queries']:3d} queries  {page['page']}" for page in report["pages"]]
    lines += [f"{name}: {value}" for name, value in report.items() if name != "pages"]
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--history", type=int, default=5_000_000)
    parser.add_argument("--live", type=int, default=100_000)
    parser.add_argument("--dead", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
