"""From a cron entry to its job, with the shop's own tasks, and the keeper's routines as a whole."""

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from djqueue.api import registry
from djqueue.compat import task_backends, task_signals
from djqueue.conf import Options
from djqueue.policy.weights import QueueSelection
from djqueue.runtime import cron as cron_duty
from djqueue.runtime import leading
from djqueue.runtime.cron import CronDuty
from djqueue.runtime.cron_jobs import CronJobs
from djqueue.runtime.duty import Routine
from djqueue.runtime.plan import Plan
from djqueue.store import db
from djqueue.store.cron import Entry
from tests.helpers import eventually
from tests.live import LiveDatabase
from tests.runtime.keepers import connection_of, keeper


@pytest.fixture(autouse=True, params=["django", "adopted"])
def connection_kind(request: pytest.FixtureRequest, live_database: LiveDatabase) -> Iterator[str]:
    """Duties run on adopted connections; commands may run them on Django's."""
    registry.load()
    with connection_of(request.param) as kind:
        yield kind


def entry(task: str = "noop", args: Any = (), kwargs: Any = None, queue_name: str = "") -> Entry:
    return Entry(
        id=1,
        version="1",
        name="entry",
        schedule="* * * * *",
        timezone="UTC",
        task_name=f"testproject.shop.tasks.{task}",
        queue_name=queue_name,
        args=json.dumps(args),
        kwargs=json.dumps({} if kwargs is None else kwargs),
        next_fire_at=None,
        last_fire_at=None,
        last_error="",
        now=datetime(2026, 3, 1, tzinfo=UTC),
    )


def enqueued(*entries: Entry, delay: int = 0) -> list[UUID]:
    jobs = CronJobs("default")
    with db.one_transaction("default"):
        return jobs.enqueue([(jobs.prepare(each), delay) for each in entries])


def test_a_job_has_the_options_of_its_task() -> None:
    (id_,) = enqueued(entry("call_partner", kwargs={"order_id": 7}))

    assert db.rows(
        "default",
        "select id, task_name, queue_name, max_attempts, args->'kwargs' = '{\"order_id\": 7}', state from djqueue_job",
    ) == [(id_, "testproject.shop.tasks.call_partner", "partner", 5, True, "ready")]


def test_an_entry_may_name_another_queue() -> None:
    enqueued(entry("make_thumbnail", ["a.png"], queue_name="default"))

    assert db.rows("default", "select queue_name, priority, timeout_seconds from djqueue_job") == [("default", -10, 60)]


def test_jobs_of_many_tasks_are_answered_in_order() -> None:
    """Also with arguments of both kinds, and where all together are too large for one statement."""
    large = "x" * 900_000
    entries = [
        entry(args=[1]),
        entry("call_partner", [7], {"failures": 0}),
        entry(kwargs={"number": 2}),
        *(entry("make_thumbnail", [large]) for _ in range(6)),
        entry("call_partner", [8], {"failures": 0}),
    ]

    ids = enqueued(*entries)

    rows = db.rows("default", "select id, task_name, args::text from djqueue_job")
    found = {id_: (name, json.loads(args)) for id_, name, args in rows}
    assert [found[id_][0] for id_ in ids] == [each.task_name for each in entries]
    assert found[ids[1]][1] == {"args": [7], "kwargs": {"failures": 0}}
    assert found[ids[2]][1] == {"args": [], "kwargs": {"number": 2}}


def test_a_job_may_start_later_by_the_databases_clock() -> None:
    enqueued(entry(), delay=30)

    assert db.rows("default", "select state, run_at - created_at from djqueue_job") == [
        ("scheduled", timedelta(seconds=30))
    ]


def test_enqueueing_sends_djangos_signal() -> None:
    """R27."""
    heard: list[str] = []

    def receive(sender: object, task_result: Any, **kwargs: object) -> None:
        heard.append(task_result.id)

    task_signals.task_enqueued.connect(receive)
    try:
        (id_,) = enqueued(entry())
    finally:
        task_signals.task_enqueued.disconnect(receive)

    assert heard == [str(id_)]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (entry("nop"), "did you mean 'testproject.shop.tasks.noop'"),
        (entry(args={"number": 1}), "args: expected a JSON list"),
        (entry(kwargs=[1]), "kwargs: expected a JSON object"),
        (entry(args=[1, 2]), "expected noop"),
        (entry(kwargs={"colour": 1}), "expected noop"),
        (entry(queue_name="nowhere"), "nowhere"),
        (entry(args=["x" * 1_000_001]), "bytes"),
    ],
)
def test_r17_what_is_wrong_is_said_before_anything_is_written(bad: Entry, said: str) -> None:
    with pytest.raises(Exception, match=said):
        CronJobs("default").prepare(bad)


INSERT = """
insert into djqueue_cron_entry (name, schedule, timezone, task_name, args, kwargs, next_fire_at, changed_at)
values (%(name)s, %(schedule)s, %(timezone)s, %(task)s, %(args)s::jsonb, %(kwargs)s::jsonb,
    date_trunc('minute', now()), now())
"""


def put_in(name: str, **values: str) -> None:
    """A row as SQL may put it in, due this minute."""
    good = {
        "schedule": "* * * * *",
        "timezone": "UTC",
        "task": "testproject.shop.tasks.noop",
        "args": "[]",
        "kwargs": "{}",
    }
    db.rows("default", INSERT, {"name": name, **good, **values})


BAD = [
    ({"schedule": "0 0 31 2 *"}, "fires some day"),
    ({"timezone": "Mars/Olympus"}, "got 'Mars/Olympus'"),
    ({"task": "os.system"}, "got 'os.system'"),
    ({"args": '{"not": "a list"}'}, "expected a JSON list"),
    ({"args": "null"}, "expected a JSON list"),
    ({"kwargs": "[1]"}, "expected a JSON object"),
    ({"args": "[1, 2, 3]"}, "expected noop"),
    ({"task": "testproject.shop.tasks.send_receipt"}, "order_id"),
]


def test_r17_bad_rows_beside_good_ones_harm_nobody_and_are_told_once_each(
    live_database: LiveDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    for number, (bad, _) in enumerate(BAD):
        put_in(f"bad {number}", **bad)
        put_in(f"good {number}", args=f"[{number}]")
    duty = CronDuty("default", keeper("keeper a"), CronJobs("default"))

    with caplog.at_level(logging.WARNING, "djqueue"):
        for _ in range(3):
            duty.tick()

    fired = db.rows("default", "select distinct name from djqueue_cron_fire where job_id is not null order by 1")
    assert fired == [(f"good {number}",) for number in range(len(BAD))]
    errors = dict(db.rows("default", "select name, last_error from djqueue_cron_entry where last_error <> ''"))
    for number, (_, said) in enumerate(BAD):
        assert said in errors.pop(f"bad {number}")
    assert errors == {}
    assert len(caplog.records) == len(BAD)


def test_many_entries_that_are_due_together_take_few_transactions(
    live_database: LiveDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1_100):
        put_in(f"entry {number}", args=f"[{number}]")
    monkeypatch.setattr(cron_duty, "TICK_SECONDS", 60.0)
    duty = CronDuty("default", keeper("keeper a"), CronJobs("default"))
    statements: list[str] = []
    rows = db.rows
    monkeypatch.setattr(db, "rows", lambda alias, sql, params=(): statements.append(sql) or rows(alias, sql, params))

    duty.tick()
    duty.tick()
    monkeypatch.undo()

    assert db.rows("default", "select count(distinct name) from djqueue_cron_fire where job_id is not null") == [
        (1_100,)
    ]
    planned = "select count(*) from djqueue_cron_entry e join djqueue_cron_memory m using (name) "
    assert db.rows("default", planned + "where next_fire_at = last_fire_at + interval '1 min'") == [(1_100,)]
    assert len(statements) < 60


def plan(*, cron: bool = True) -> Plan:
    options: Options = task_backends["default"].djqueue_options
    return Plan(
        backend="default",
        options=options,
        selection=QueueSelection.parse("*"),
        known_queues=("default",),
        cron=cron,
    )


def test_a_keepers_routines_fire_a_due_entry_and_write_the_figures(live_database: LiveDatabase) -> None:
    db.rows(
        "default",
        "insert into djqueue_cron_entry (name, schedule, task_name, next_fire_at, changed_at) values "
        "('entry', '* * * * *', 'testproject.shop.tasks.noop', date_trunc('minute', now()), now())",
    )
    running = [
        Routine(name, "default", duties, prepared=True, on_fatal=pytest.fail)
        for name, duties in leading.routines(plan())
    ]
    for routine in running:
        routine.start()
    try:
        eventually(lambda: db.rows("default", "select count(*) from djqueue_job") == [(1,)], within=10)
        eventually(
            lambda: db.rows("default", "select summary_at is not null from djqueue_queue") == [(True,)], within=10
        )
    finally:
        for routine in running:
            routine.stop()

    assert all(routine.join(5) for routine in running)
    assert db.rows("default", "select name, holder from djqueue_leader order by name") == [
        ("cron", ""),
        ("djqueue", ""),
    ]


def test_a_supervisor_without_cron_does_not_ask_to_lead_it() -> None:
    def names(cron: bool) -> list[str]:
        return [duty.name for _, duties in leading.routines(plan(cron=cron)) for duty in duties]

    assert [name for name in names(cron=False) if "cron" in name] == []
    assert [name for name in names(cron=True) if "cron" in name] != []
