"""Plans of the cron statements at 200,000 fires: none reads all fires or all jobs, by values or prepared."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from pytest_django.plugin import DjangoDbBlocker

from djqueue.store import cron, cronedit, cronfire, db
from tests.live import Template, live_copy
from tests.store.test_plans import explained, explained_generic

pytestmark = pytest.mark.slow

NAMES = [f"entry {number}" for number in range(1, 501)]
TIMES = [datetime(2026, 3, 1, tzinfo=UTC)] * len(NAMES)
JOBS = [UUID(int=number) for number in range(len(NAMES))]
FILL = """
insert into djqueue_cron_entry (name, schedule, task_name, changed_at)
select 'entry ' || n, '* * * * *', 'noop', now() from generate_series(1, 5000) n;
insert into djqueue_cron_memory select 'entry ' || n, now() from generate_series(1, 5000) n;
insert into djqueue_cron_fire (name, fire_at, fired_at, job_id)
select 'entry ' || 1 + n % 5000, now() - n * interval '1 s', now(), gen_random_uuid() from generate_series(1, 200000) n;
insert into djqueue_job (id, queue_name, task_name)
select gen_random_uuid(), 'q', 't' from generate_series(1, 20000) n;
"""


@pytest.fixture(scope="module")
def loaded(live_template: Template, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """A database with many fires."""
    with django_db_blocker.unblock(), live_copy(live_template):
        for statement in FILL.split(";"):
            if statement.strip():
                db.rows("default", statement)
        for table in ("cron_entry", "cron_memory", "cron_fire", "job"):
            db.rows("default", f"vacuum analyze djqueue_{table}")
        yield


@pytest.mark.parametrize("explain", [explained, explained_generic])
@pytest.mark.parametrize(
    ("sql", "params"),
    [
        (cronfire.FIRE, {"names": NAMES, "ats": TIMES, "outcomes": ["enqueued"] * len(NAMES)}),
        (cronfire.ANSWERED_BY, {"names": NAMES, "ats": TIMES, "jobs": JOBS}),
        (cronfire.REPLACED, {"names": NAMES, "ats": TIMES}),
        (cronfire.LEAVE_QUEUE, {"names": NAMES, "ats": TIMES}),
        (cronfire.BUSY, {"ids": JOBS}),
        (cron.FORGET_DISABLED, {}),
        (cron.LOOK, {}),
        (cronedit.LIST, {}),
    ],
    ids=["fire", "answered by", "replaced", "leave queue", "busy", "forget", "look", "list"],
)
def test_no_statement_reads_all_fires_or_all_jobs(
    loaded: None,
    django_db_blocker: DjangoDbBlocker,
    explain: Callable[[str, dict[str, Any]], dict[str, Any]],
    sql: str,
    params: dict[str, Any],
) -> None:
    with django_db_blocker.unblock(), transaction.atomic():
        plan = explain(sql, params)
        transaction.set_rollback(True)

    scans = [node for node in nodes(plan) if node.get("Node Type") == "Seq Scan"]
    assert not {node["Relation Name"] for node in scans} & {"djqueue_cron_fire", "djqueue_job"}, json.dumps(scans)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)
