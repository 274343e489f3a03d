"""Plans are tests: at 100,000 rows every statement goes by its index, and a claim touches few pages.

Both as Django's cursor sends a statement (planned for its values) and as a worker does (prepared, a generic plan).
"""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from pytest_django.plugin import DjangoDbBlocker

from djqueue.store import (
    claim,
    db,
    enqueue,
    enqueue_ordered,
    finish,
    lanes,
    lease,
    limits,
    operate,
    ordering,
    recover,
    results,
    step,
    workers,
)
from djqueue.store.claim import Place
from djqueue.store.lanes import Walk
from tests.live import Template, live_copy
from tests.store.factories import ALIAS, NO_PARTITIONS, PARTITION_FOR_ALL, failure, load, new_job, request

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("loaded")]

HISTORY = """
insert into djqueue_history (id, finished_at, created_at, lease_token, attempts, interruptions, runs, priority, outcome,
    queue_name, task_name, tenant_id, worker_ids, args, errors, options)
select gen_random_uuid(), now(), now(), n, 1, 0, 1, 0, 'succeeded', 'q', 't', '', '{}', '{}', '[]', '{}'
from generate_series(1, 100000) n
"""
LETTERS = """
insert into djqueue_dead_letter (id, seq, died_at, created_at, lease_token, priority, attempts, max_attempts,
    interruptions, runs, reason, queue_name, lane, task_name, tenant_id, on_dead, worker_ids, args, errors, options)
select gen_random_uuid(), n, now(), now(), n, 0, 1, 1, 0, 1, 'r', 'q', '', 't', '', 'skip', '{}', '{}', '[]', '{}'
from generate_series(1, 20000) n
"""


def fill_tables() -> None:
    """100,000 jobs in all states, of which 62,000 are ready: in one lane, in 500 lanes, and behind a closed gate."""
    load(20_000, "queue_name, state, priority, run_at", "'q', 'ready', n % 3, now() + n * interval '1 ms'")
    load(5_000, "queue_name, lane, state", "'lanes', 'l' || n % 500, 'ready'")
    load(37_000, "queue_name, lane, state", "'gated', 'g:' || n % 1000, 'ready'")
    load(20, "queue_name, lane, state", "'gated', 'z' || n, 'ready'")
    load(15_000, "queue_name, state, run_at", "'q', 'scheduled', now() + n * interval '1 s'")
    load(2_000, "queue_name, state, run_at", "'q', 'scheduled', now() - n * interval '1 s'")
    load(
        2_000,
        "queue_name, state, attempts, lease_token, leased_by, lease_until, started_at, timeout_seconds, dedupe_key",
        "'q', 'leased', 1, n, 'w' || n % 20, now() + '1 h', now(), 300, 'k' || n",
    )
    load(
        1_000,
        "queue_name, state, attempts, leased_by, lease_until, tenant_id, lane",
        "'lanes', 'leased', 1, 'w' || n % 20, now() + '1 h', 't' || n % 200, "
        "'k' || lpad(to_hex(n % 300), 16, '0') || ':t' || lpad(to_hex(n % 200), 16, '0')",
    )
    load(10_000, "queue_name, state, ordering_key", "'q', 'parked', 'o' || n % 50")
    load(8_000, "queue_name, state, parked_for", "'q', 'parked', 'task:' || n % 4")
    load(1_000, "queue_name, state, dedupe_key", "'q', 'scheduled', 'later' || n")
    db.rows(ALIAS, "insert into djqueue_lane (queue_name, lane, closed_until) values ('gated', 'g', 'infinity')")
    db.rows(ALIAS, HISTORY)
    db.rows(ALIAS, LETTERS)
    for table in ("job", "history", "dead_letter", "lane"):
        db.rows(ALIAS, f"vacuum analyze djqueue_{table}")


@pytest.fixture(scope="module")
def loaded(live_template: Template, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """A database with many jobs; what the tests do to it is rolled back."""
    with django_db_blocker.unblock(), live_copy(live_template):
        db.rows(ALIAS, NO_PARTITIONS)
        db.rows(ALIAS, PARTITION_FOR_ALL)
        fill_tables()
        yield


@pytest.fixture(autouse=True)
def rolled_back(loaded: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with django_db_blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)


# ------------------------------------------------------------------------------------------------ reading plans


def explained(sql: str, params: dict[str, Any], options: str = "format json") -> dict[str, Any]:
    """The plan of a statement for these values."""
    with connection.cursor() as cursor:
        cursor.execute(f"explain ({options}) {sql}", params or None)
        return as_plan(cursor.fetchone()[0])


def explained_generic(sql: str, params: dict[str, Any]) -> dict[str, Any]:
    """The plan of the prepared statement for whatever values."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    numbered = re.sub(r"%\((\w+)\)s", number, sql)
    values = f"({', '.join('%s' for _ in names)})" if names else ""
    with connection.cursor() as cursor:
        cursor.execute("set local plan_cache_mode = force_generic_plan")
        cursor.execute(f"prepare looked_at as {numbered}")
        cursor.execute(f"explain (format json) execute looked_at {values}", [params[name] for name in names] or None)
        plan = as_plan(cursor.fetchone()[0])
        cursor.execute("deallocate looked_at")
    return plan


def as_plan(found: Any) -> dict[str, Any]:
    plan: dict[str, Any] = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    return plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


def whole_scans(plan: dict[str, Any]) -> list[str]:
    """The big tables that a plan reads whole."""
    scanned = [node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"]
    return [name for name in scanned if name in ("djqueue_job", PARTITION, "djqueue_dead_letter")]


def indexes(plan: dict[str, Any]) -> set[str]:
    return {node["Index Name"] for node in nodes(plan) if "Index Name" in node}


def pages(plan: dict[str, Any]) -> int:
    """The pages that an executed statement touched, in the cache or not."""
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


# ------------------------------------------------------------------------------------------------ every statement

CLAIM_INDEX, PKEY = "djqueue_job_claim", "djqueue_job_pkey"
HOLDING, OF_TENANT = "djqueue_job_holds", "djqueue_job_of_tenant"
LEASED, DUE, SUSPECT, ASIDE = "djqueue_job_leased", "djqueue_job_due", "djqueue_job_suspect", "djqueue_job_aside"
DEDUPE, LETTER = "djqueue_job_dedupe", "djqueue_dead_letter_pkey"
HEAD, NEXT = "djqueue_job_head", "djqueue_job_next"
PARTITION = "djqueue_history_of_the_test"
HISTORY_ID = f"{PARTITION}_id_idx"


def leases(count: int, where: str = "true") -> dict[str, Any]:
    found = db.rows(ALIAS, f"select id, lease_token from djqueue_job where state = 'leased' and {where} limit {count}")
    return {"ids": [row[0] for row in found], "tokens": [row[1] for row in found]}


def some_ids(where: str, table: str = "djqueue_job") -> list[Any]:
    return [row[0] for row in db.rows(ALIAS, f"select id from {table} where {where} limit 20")]


def claim_params(**extra: Any) -> dict[str, Any]:
    return claim.params(request(10)) | {"quotas": [10] * len(extra.get("queues", []))} | extra


def ack_params() -> dict[str, Any]:
    return leases(20) | {"began": [2.0] * 20, "ended": [1.0] * 20, "results": ["null"] * 20}


def fail_params() -> dict[str, Any]:
    found = leases(20)
    pairs = zip(found["ids"], found["tokens"], strict=True)
    return finish._fail_params([failure(lease.Lease(*pair)) for pair in pairs])


def enqueue_params() -> dict[str, Any]:
    job = new_job(dedupe_key="k7")
    return {**enqueue._shared(job), "id": job.id, "args": "{}", "dedupe_key": "k7"}


def pending_params() -> dict[str, Any]:
    return {"names": ["none"], "everything": False, "excluded": [], "scheduled": True}


STATEMENTS: dict[str, tuple[str, Any, set[str]]] = {
    "enqueue": (enqueue.ENQUEUE, enqueue_params, {DEDUPE}),
    "enqueue now": (enqueue.ENQUEUE_NOW, enqueue_params, set()),
    "enqueue all": (enqueue.ENQUEUE_ALL, lambda: enqueue._arrays([new_job() for _ in range(50)]), set()),
    "enqueue many": (
        enqueue.ENQUEUE_MANY,
        lambda: enqueue._arrays([new_job(dedupe_key=f"k{n}") for n in range(50)]),
        {DEDUPE},
    ),
    "enqueue ordered": (
        enqueue_ordered.ENQUEUE_ORDERED,
        lambda: enqueue._arrays([new_job(dedupe_key=f"k{n}", ordering_key=f"o{n}") for n in range(50)]),
        {DEDUPE, HEAD, NEXT},
    ),
    "sweep": (ordering.SWEEP, lambda: {"queue": "", "key": ""}, {HEAD, NEXT}),
    "lock keys": (
        ordering.LOCK,
        lambda: {"queues": ["q"] * 50, "keys": [f"o{n}" for n in range(50)], "most": 100},
        {NEXT},
    ),
    "let out": (
        ordering.LET_OUT,
        lambda: {"queues": ["q"] * 50, "keys": [f"o{n}" for n in range(50)], "note": True, "tell": True},
        {HEAD, NEXT, PKEY},
    ),
    "claim": (
        claim.CLAIM,
        lambda: claim_params(queues=["q", "q"], lanes=["", ""], priorities=[2, 1], marks=[0.0, 0.0]),
        {CLAIM_INDEX},
    ),
    "levels": (claim.LEVELS, lambda: {"queue": "q"}, {CLAIM_INDEX}),
    "full claim": (claim.CLAIM_FULL, lambda: claim_params(queues=["q", "none"], lanes=["", ""]), {CLAIM_INDEX}),
    "step": (
        step.CLAIM_STEP,
        lambda: stepping("lanes"),
        {CLAIM_INDEX, LEASED, HOLDING, OF_TENANT},
    ),
    "lock": (step.LOCK, lambda: stepping("lanes"), {CLAIM_INDEX, LEASED, HOLDING, OF_TENANT}),
    "lanes": (lanes.LANES, lambda: stepping("lanes"), {CLAIM_INDEX}),
    "make limiters": (
        limits.MAKE,
        lambda: {"queue": "lanes", "gates": ["l7", "l8"], "lanes": ["l7", "l8"]},
        {CLAIM_INDEX},
    ),
    "forget limiters": (limits.FORGET, dict, {HOLDING}),
    "blocks": (
        limits.BLOCKS,
        lambda: {"queue": "q", "gates": ["l7"], "queue_gate": "q7", "tenant_cap": 3},
        {LEASED, HOLDING, OF_TENANT},
    ),
    "laned": (lanes.LANED, lambda: {"queues": ["lanes", "q"]}, {CLAIM_INDEX}),
    "queues": (claim.QUEUES, dict, {CLAIM_INDEX}),
    "suspects": (claim.CLAIM_SUSPECT, lambda: claim_params(queues=["q", "lanes"]), {SUSPECT}),
    "suspects wait": (claim.SUSPECTS_WAIT, dict, {SUSPECT}),
    "suspect queues": (claim.SUSPECT_QUEUES, dict, {SUSPECT}),
    "ack": (finish.ACK, ack_params, {PKEY}),
    "ack overflow": (finish.ACK_OVERFLOW, ack_params, {PKEY}),
    "fail": (finish.FAIL, fail_params, {PKEY}),
    "fail overflow": (finish.FAIL_OVERFLOW, fail_params, {PKEY}),
    "heartbeat": (lease.HEARTBEAT, lambda: leases(20) | {"began": [None] * 20, "lease": 30.0}, {PKEY}),
    "look": (lease.LOOK, lambda: leases(20), {PKEY, HISTORY_ID, LETTER}),
    "release": (lease.RELEASE, lambda: leases(20) | {"interrupted": 0}, {PKEY}),
    "snooze": (lease.SNOOZE, lambda: leases(20) | {"delays": [1.0] * 20}, {PKEY}),
    "aside": (lease.ASIDE, lambda: leases(20) | {"reasons": ["task:t"] * 20}, {PKEY}),
    "cancel asked": (lease.CANCEL_ASKED, lambda: leases(20), {PKEY}),
    "owned": (lease.OWNED, lambda: {"worker": "w7"}, {LEASED}),
    "cancel requested": (lease.CANCEL_REQUESTED, lambda: {"workers": ["w7", "w8"]}, {LEASED}),
    "overdue": (recover.OVERDUE, lambda: {"grace": 5.0}, {LEASED}),
    "held": (recover.HELD, lambda: {"worker": "w7"}, {LEASED}),
    "promote": (recover.PROMOTE, dict, {DUE}),
    "next due": (recover.NEXT_DUE, dict, {DUE}),
    "set aside": (recover.SET_ASIDE, lambda: {"queue": "lanes", "tasks": ["new"]}, {CLAIM_INDEX}),
    "bring back": (recover.BRING_BACK, lambda: {"reasons": ["task:1"]}, {ASIDE}),
    "aside reasons": (recover.ASIDE_REASONS, dict, {ASIDE}),
    "cancel": (operate.CANCEL, lambda: {"ids": some_ids("state = 'ready'")}, {PKEY}),
    "cancel overflow": (operate.CANCEL_OVERFLOW, lambda: {"ids": some_ids("state = 'ready'")}, {PKEY}),
    "retry now": (operate.RETRY_NOW, lambda: {"ids": some_ids("state = 'scheduled'")}, {PKEY}),
    "requeue": (operate.REQUEUE, lambda: {"ids": some_ids("true", "djqueue_dead_letter")}, {LETTER}),
    "result": (results.RESULT, lambda: {"ids": some_ids("true")}, {PKEY, HISTORY_ID, LETTER}),
    "pending": (workers.PENDING, pending_params, {CLAIM_INDEX, SUSPECT, LEASED, DUE}),
}
MAY_READ_ALL = {"set aside"}
"""Its rows may be most of the table; it runs once after a worker met an unknown task."""
every_statement = pytest.mark.parametrize("name", STATEMENTS)


@every_statement
def test_a_statement_goes_by_its_index(name: str) -> None:
    sql, params, expected = STATEMENTS[name]

    plan = explained(sql, params())

    assert whole_scans(plan) == []
    assert expected <= indexes(plan)


@every_statement
def test_a_prepared_statement_goes_by_its_index_whatever_the_values(name: str) -> None:
    sql, params, expected = STATEMENTS[name]

    plan = explained_generic(sql, params())

    assert whole_scans(plan) == [] or name in MAY_READ_ALL
    assert expected <= indexes(plan) or name in MAY_READ_ALL


@every_statement
def test_no_statement_looks_so_dear_that_the_server_compiles_it(name: str) -> None:
    """JIT, on by default above this cost, takes a hundred times longer than the statement."""
    sql, params, _ = STATEMENTS[name]

    assert explained(sql, params())["Total Cost"] < 100_000
    assert explained_generic(sql, params())["Total Cost"] < 100_000


@pytest.mark.parametrize("statement", [claim.CLAIM, claim.CLAIM_FULL, step.CLAIM_STEP, claim.CLAIM_SUSPECT])
def test_a_claim_updates_by_the_places_of_the_rows_it_locked(statement: str) -> None:
    params = stepping("q") | {"queues": ["q"], "lanes": [""], "priorities": [2], "marks": [0.0], "quotas": [10]}

    plan = explained_generic(statement, params)

    [update] = [node for node in nodes(plan) if node["Node Type"] == "ModifyTable" and node["Alias"] == "j"]
    assert [node["Node Type"] for node in nodes(update) if node.get("Alias") == "j"][-1] == "Tid Scan"


# ------------------------------------------------------------------------------------------------ what a claim costs

MEASURED = "analyze, buffers, format json"


def everyday(queue: str, lane: str = "", priority: int = 0) -> dict[str, Any]:
    place = Place(queue, lane, priority, 0.0)
    return claim_params(queues=[place.queue_name], lanes=[place.lane], priorities=[place.priority], marks=[place.mark])


def stepping(queue: str, from_lane: str = "", per_lane: int = 1) -> dict[str, Any]:
    walk = Walk(queue_name=queue, from_lane=from_lane, per_lane=per_lane, has_caps=True, tenant_cap=500)
    return claim_params(**lanes.walk_params(walk), limiters=[])


@pytest.mark.parametrize(
    ("sql", "params", "most"),
    [
        (claim.CLAIM, lambda: everyday("q", priority=1), 250),
        (claim.CLAIM_FULL, lambda: claim_params(queues=["none", "q"], lanes=["", ""]), 250),
        (claim.CLAIM_FULL, lambda: claim_params(queues=["lanes"], lanes=["l77"]), 250),
        (step.CLAIM_STEP, lambda: stepping("lanes"), 500),
        (step.CLAIM_STEP, lambda: stepping("lanes", "l400", per_lane=10), 350),
    ],
    ids=["everyday", "full", "one lane of many", "10 lanes", "one lane by stepping"],
)
def test_a_claim_of_ten_touches_few_pages_however_many_jobs_there_are(sql: str, params: Any, most: int) -> None:
    plan = explained(sql, params(), MEASURED)

    assert plan["Actual Rows"] == 10
    assert pages(plan) < most


@pytest.mark.parametrize(
    ("sql", "params"),
    [
        (step.CLAIM_STEP, lambda: stepping("gated", per_lane=1)),
        (claim.CLAIM_FULL, lambda: claim_params(queues=["gated"] * 10, lanes=[f"z{n}" for n in range(1, 11)])),
    ],
    ids=["step", "full"],
)
def test_r18_50000_unclaimable_rows_at_the_head_cost_nothing(sql: str, params: Any) -> None:
    """37,000 ready rows behind a closed gate, 13,000 more of higher priority in another lane, all before these ten."""
    load(13_000, "queue_name, lane, state, priority, run_at", "'gated', 'g:more', 'ready', 100, '2001-01-01'")

    plan = explained(sql, params(), MEASURED)

    assert plan["Actual Rows"] == 10
    assert pages(plan) < 500


def test_r18_50000_rows_of_a_paused_queue_are_not_looked_at() -> None:
    """A worker names the queues it claims from; a paused one is not among them."""
    load(50_000, "queue_name, state, priority, run_at", "'paused', 'ready', 100, '2001-01-01'")

    plan = explained(claim.CLAIM, everyday("q", priority=1), MEASURED)

    assert plan["Actual Rows"] == 10
    assert pages(plan) < 250


def test_scheduled_jobs_of_better_priority_are_not_looked_at() -> None:
    """Promise 7: only claimable rows are in the claim index."""
    load(50_000, "queue_name, state, priority, run_at", "'q', 'scheduled', 100, now() + interval '1 h'")

    plan = explained(claim.CLAIM_FULL, claim_params(queues=["q"], lanes=[""]), MEASURED)

    assert plan["Actual Rows"] == 10
    assert pages(plan) < 250


def test_an_empty_claim_touches_a_handful_of_pages() -> None:
    plan = explained(claim.CLAIM_FULL, claim_params(queues=["none"], lanes=[""]), MEASURED)

    assert plan["Actual Rows"] == 0
    assert pages(plan) < 10


def test_a_promotion_that_finds_little_due_does_not_walk_all_that_wait() -> None:
    """Its moment must be one that an index scan can end at."""
    db.rows(ALIAS, "delete from djqueue_job where state = 'scheduled' and run_at < clock_timestamp()")

    plan = explained(recover.PROMOTE, {}, MEASURED)
    [scan] = [node for node in nodes(plan) if node.get("Index Name") == DUE]

    assert "run_at" in scan["Index Cond"]
    assert scan["Actual Rows"] < 20


def test_heartbeats_change_no_index() -> None:
    """`lease_until` and `started_at` stand in none, so an extension stays within its page (HOT)."""
    held = leases(20, "lease_token % 100 = 0")
    beats = [lease.Beat(*pair, 1.0) for pair in zip(held["ids"], held["tokens"], strict=True)]
    hot = "select pg_stat_get_xact_tuples_hot_updated('djqueue_job'::regclass)"
    [(before,)] = db.rows(ALIAS, hot)

    assert lease.heartbeat(ALIAS, beats, 30).lost == set()

    assert db.rows(ALIAS, hot)[0][0] - before == 20


def test_an_ack_touches_few_pages_per_job() -> None:
    plan = explained(finish.ACK, ack_params(), MEASURED)

    assert plan["Actual Rows"] == 20
    assert pages(plan) < 20 * 40


# ------------------------------------------------------------------------------------------------ ordering keys


NUMBERS = itertools.count()


@pytest.fixture
def one_key() -> str:
    """A key with 100,000 jobs behind its head; another for each test, since what is rolled back leaves dead entries."""
    key = f"one {next(NUMBERS)}"
    load(1, "queue_name, state, priority, ordering_key", f"'q', 'ready', 1, '{key}'")
    load(100_000, "queue_name, state, priority, ordering_key", f"'q', 'parked', 1, '{key}'")
    return key


def test_a_hundred_thousand_jobs_behind_one_key_cost_a_claim_of_others_nothing(one_key: str) -> None:
    plan = explained(claim.CLAIM_FULL, claim_params(queues=["q"], lanes=[""]), MEASURED)

    assert plan["Actual Rows"] == 10
    assert pages(plan) < 250


@pytest.mark.parametrize("is_new", [True, False])
def test_an_enqueue_costs_the_same_whatever_waits_behind_its_key(one_key: str, is_new: bool) -> None:
    key = "new" if is_new else one_key

    plan = explained(enqueue_ordered.ENQUEUE_ORDERED, enqueue._arrays([new_job(ordering_key=key)]), MEASURED)

    assert pages(plan) < 100


@pytest.mark.parametrize("has_head", [True, False])
def test_a_let_out_costs_the_same_however_many_wait(one_key: str, has_head: bool) -> None:
    if not has_head:
        db.rows(ALIAS, f"delete from djqueue_job where ordering_key = '{one_key}' and state = 'ready'")
    keys = {"queues": ["q"], "keys": [one_key]}
    db.rows(ALIAS, ordering.LOCK, keys | {"most": 1})

    plan = explained(ordering.LET_OUT, keys | {"note": True, "tell": True}, MEASURED)

    assert pages(plan) < 100
