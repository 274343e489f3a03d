"""Text that would be SQL, if it were not a parameter, in every entry that takes text: it comes back as it went in, and
nothing else has happened."""

import json
from typing import Any

import pytest
from django.db import connection

from djqueue.api import registry
from djqueue.circuitconf import CircuitOptions
from djqueue.policy.search import SearchInvalid, parse, token
from djqueue.store import (
    circuits,
    conflict,
    cron,
    enqueue,
    finish,
    leader,
    letters,
    limits,
    operate,
    recover,
    search,
    searchcount,
    workers,
)
from djqueue.store.conflict import Terms
from djqueue.store.letters import Letters
from djqueue.store.operate import Jobs
from djqueue.store.workers import WorkerInfo
from tests.store.factories import (
    ALIAS,
    ack,
    add_one,
    bend,
    count,
    fail,
    failure,
    new_job,
    read,
    row,
    take,
    take_from,
    take_one,
)

HOSTILE = [
    "'; drop table djqueue_job; --",
    "' or '1'='1",
    "%s %(x)s %% {} {table}",
    '"; select pg_sleep(100); --',
    "$$; delete from djqueue_job; $$",
    "\\'; rollback; \\",
    "'); copy djqueue_job to program 'id'; --",
    '},{"a": ["\'',
    "{1,2,NULL}",
    "\u202e<script>alert(1)</script>\u2028",
]
hostile = pytest.mark.parametrize("text", HOSTILE)
ROWS = ("job", "history", "history_overflow", "dead_letter", "wake", "queue", "limiter", "circuit", "leader")


@hostile
def test_texts_of_a_job_come_back_as_they_went_in(store: str, text: str) -> None:
    fields: dict[str, Any] = {
        "queue_name": text[:100],
        "task_name": text,
        "dedupe_key": text,
        "ordering_key": text,
        "tenant_id": text,
        "args": json.dumps({"args": [text], "kwargs": {text: text}}),
        "options": json.dumps({"tags": [text]}),
    }
    one = add_one(**fields)
    again = enqueue.enqueue(ALIAS, new_job(**fields))
    assert (again.id, again.created) == (one, False)

    [job] = take_from([(text[:100], "")], worker_id=text)

    assert (job.queue_name, job.task_name, job.tenant_id, job.ordering_key) == (text[:100], text, text, text)
    assert json.loads(job.args) == json.loads(fields["args"])
    assert row(one, "leased_by, dedupe_key") == (text, text)
    assert ack(job, result=json.dumps(text)) == {one}
    assert read(row(one, "result", "history")) == text


@hostile
def test_texts_of_many_jobs_at_once(store: str, text: str) -> None:
    jobs = [new_job(dedupe_key=f"{n}{text}", tenant_id=f"{n}{text}", args=json.dumps([text])) for n in range(3)]

    answers = list(enqueue.enqueue_many(ALIAS, jobs))
    [changed] = conflict.enqueue_all(ALIAS, [new_job(dedupe_key=f"0{text}")], Terms(unique_seconds=60))

    assert [row(answer.id, "dedupe_key, tenant_id") for answer in answers] == [(f"{n}{text}",) * 2 for n in range(3)]
    assert changed.id == answers[0].id


@hostile
def test_texts_of_failures_and_reasons(store: str, text: str) -> None:
    id_ = add_one()
    entry = {"message": text, "exception": text, "traceback": text}
    cause = finish.Cause(fingerprint=text[:16], exception=text, frame=text, message=text, version=text)
    finish.fail(ALIAS, [failure(take_one(), entry=entry, reason=text, final=True, cause=cause)])

    reason, errors = row(id_, "reason, errors", "dead_letter")
    assert reason == text
    assert read(errors)[0]["message"] == text
    assert letters.requeue_edited(ALIAS, id_, json.dumps({"args": [text]}), by=text) == "requeued"
    fail(take_one(), final=True)
    assert letters.discard(ALIAS, [id_], reason=text, by=text) == {id_}
    assert read(row(id_, "errors", "history"))[-1]["message"] == text


@hostile
def test_texts_by_which_people_choose(store: str, text: str) -> None:
    """They choose nothing: no row has them, and none is touched."""
    id_ = add_one()
    before = rows_of_all()

    asked = Jobs(queue_name=text, task_name=text, tenant_id=text, tag=text)
    assert list(operate.cancel_matching(ALIAS, asked)) == []
    chosen = Letters(fingerprint=text, queue_name=text, task_name=text)
    assert letters.count(ALIAS, chosen) == 0
    assert list(letters.requeue_matching(ALIAS, chosen)) == []
    assert recover.set_aside_tasks(ALIAS, text, [text]) == 0
    assert recover.bring_back(ALIAS, [text]) == 0
    assert take(9, queue=text, lane=text) == []

    assert rows_of_all() == before
    assert row(id_) == "ready"


@hostile
def test_texts_of_settings(store: str, text: str) -> None:
    gate = limits.of_key(text)
    operate.pause(ALIAS, text[:100], None, reason=text, by=text)
    limits.set_limit(ALIAS, gate, label=text, running=1)
    limits.pause(ALIAS, [gate, text], seconds=5, reason=text)
    circuits.make(ALIAS, [text[:100]])
    circuits.force_open(ALIAS, text[:100], {text[:100]: CircuitOptions()}, seconds=5, reason=text, by=text)
    leader.acquire(ALIAS, text[:50], text, 5)
    info = WorkerInfo(
        id=text, supervisor_id=text, host=text, pid=1, version=text, slots=1, queues=[text], task_names=[text],
        tasks_hash=text[:16],
    )  # fmt: skip
    workers.register(ALIAS, info)

    with connection.cursor() as cursor:
        cursor.execute("select name, paused_reason, paused_by from djqueue_queue")
        assert cursor.fetchall() == [(text[:100], text, text)]
        cursor.execute("select label from djqueue_limiter")
        assert cursor.fetchall() == [(text,)]
        cursor.execute("select host, queues, task_names from djqueue_worker")
        assert cursor.fetchall() == [(text, [text], [text])]


@hostile
@pytest.mark.parametrize("field", ["", "task", "queue", "tenant", "tag", "key", "error", "subject", "cause", "args.a"])
def test_texts_that_are_searched_for(store: str, text: str, field: str) -> None:
    id_ = add_one()
    asked = parse(token(field, text) if field else f'"{text.replace(chr(92), "").replace(chr(34), "")}"')

    assert search.page(ALIAS, asked).hits == []
    assert searchcount.count(ALIAS, asked).number == 0
    assert row(id_) == "ready"


@hostile
def test_a_search_that_is_not_quoted_is_understood_or_refused(store: str, text: str) -> None:
    before = rows_of_all()
    try:
        search.page(ALIAS, parse(f"args.{text}:{text} {text}"))
    except SearchInvalid as refused:
        assert "xpected" in str(refused)

    assert rows_of_all() == before


@hostile
def test_a_cron_entry_with_such_texts_is_read_as_it_is(store: str, text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "insert into djqueue_cron_entry (name, schedule, timezone, task_name, queue_name, changed_at) "
            "values (%s, %s, %s, %s, %s, now())",
            [text[:100], text[:100], text[:60], text, text[:100]],
        )
    [entry] = cron.read(ALIAS, [each.id for each in cron.look(ALIAS)])

    assert (entry.name, entry.schedule, entry.task_name) == (text[:100], text[:100], text)


def test_a_task_name_in_a_row_is_looked_up_and_never_imported(store: str) -> None:
    import sys

    for name in ("antigravity.fly", "os.system", "this", "builtins.eval", "djqueue.store.db.rows"):
        bend(f"task_name = '{name}'", add_one())
        assert registry.get(name) is None
    assert not {"antigravity", "this"} & set(sys.modules)


def rows_of_all() -> dict[str, int]:
    return {table: count(table) for table in ROWS}
