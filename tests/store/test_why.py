"""`why`: each condition by itself, and that it says runnable exactly when a claim takes the job and starts it."""

import random
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connections

import djqueue
from djqueue.api import registry, why
from djqueue.api.why import Why
from djqueue.compat import TaskResultDoesNotExist
from djqueue.conf import Options
from djqueue.policy.gates import Gate, gate, lane
from djqueue.policy.weights import QueueSelection
from djqueue.queueconf import QueueOptions
from djqueue.rates import Rate
from djqueue.runtime.claimer import Claimer
from djqueue.runtime.plan import Plan
from djqueue.store import claim, db, limits, operate, pauses, step, workers
from djqueue.store.claim import Claimed
from djqueue.store.pauses import Kind
from djqueue.store.workers import WorkerInfo
from tests.store.factories import ALIAS, ack, add, add_one, bend, fail, take_one

SOON = datetime.now(UTC) + timedelta(hours=1)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def about(id_: UUID) -> Why:
    found = why.about(ALIAS, id_)
    assert found is not None
    return found


def holds(id_: UUID) -> dict[str, bool]:
    return {each.name: each.holds for each in about(id_).conditions}


def detail(id_: UUID, name: str) -> str:
    [found] = [each.detail for each in about(id_).conditions if each.name == name]
    return found


def register(
    name: str = "w1", queues: tuple[str, ...] = ("*",), tasks: tuple[str, ...] = ("t",), slots: int = 8
) -> None:
    info = WorkerInfo(
        id=name, supervisor_id="s", host="h", pid=1, version="1", slots=slots, queues=list(queues),
        task_names=list(tasks), tasks_hash="",
    )  # fmt: skip
    workers.register(ALIAS, info)


def close(
    queue: str, lane: str, until: datetime | None = SOON, reason: str = "circuit open", most: int | None = None
) -> None:
    db.rows(
        ALIAS,
        "insert into djqueue_lane (queue_name, lane, closed_until, reason, max_running) values (%(q)s, %(l)s, %(u)s, "
        "%(r)s, %(m)s)",
        {"q": queue, "l": lane, "u": until, "r": reason, "m": most},
    )


# ------------------------------------------------------------------------------------------------ one by one


def test_nothing_is_in_the_way_of_a_ready_job_with_a_free_worker(store: str) -> None:
    register()
    found = about(add_one())

    assert found.runnable and found.first is None
    assert (found.ahead, found.expected_seconds) == (0, 0.0)
    assert [each.name for each in found.conditions] == [
        "unfinished", "not_running", "due", "not_expired", "queue_not_paused", "not_set_aside", "task_not_paused",
        "worker_serves_queue", "worker_knows_task", "slot_is_free", "its_turn",
    ]  # fmt: skip


def test_a_job_that_is_nowhere_has_no_answer(store: str) -> None:
    assert why.about(ALIAS, uuid4()) is None
    for bad in (uuid4(), "nonsense"):
        with pytest.raises(TaskResultDoesNotExist):
            djqueue.why(bad)


def test_the_function_takes_an_id_as_text(store: str) -> None:
    one = add_one()

    assert djqueue.why(str(one)) == about(one)


def test_an_ended_job_says_how_it_ended(store: str) -> None:
    add(2, max_attempts=1)
    done, dead = take_one(), take_one()
    ack(done)
    fail(dead)

    assert "succeeded at 2" in detail(done.id, "unfinished")
    assert "dead at 2" in detail(dead.id, "unfinished") and "requeue it" in detail(dead.id, "unfinished")
    assert not about(done.id).runnable


def test_a_running_job_says_where(store: str) -> None:
    add_one()
    job = take_one()
    assert "claimed, about to start on worker w1, attempt 1 of 8" in detail(job.id, "not_running")
    bend("started_at = now()")

    assert "running since 2" in detail(job.id, "not_running")
    assert not about(job.id).runnable


def test_a_delayed_job_and_one_that_is_tried_again_say_until_when(store: str) -> None:
    later = add_one(delay_seconds=60)
    assert "was enqueued for later, due at 2" in detail(later, "due")
    add_one()
    again = take_one()
    fail(again, delay_seconds=60)
    assert "waits to be tried again (attempt 1 of 8 failed), due at 2" in detail(again.id, "due")
    first = about(again.id).first
    assert first is not None and first.until is not None

    bend("run_at = now() - interval '1 s'", again.id)
    assert detail(again.id, "due").startswith("due; a keeper")


def test_an_expired_job_will_not_start(store: str) -> None:
    one = add_one(expires_seconds=60.0)
    assert holds(one)["not_expired"]
    bend("expires_at = now() - interval '1 s'")

    assert not about(one).runnable
    assert "unstarted" in detail(one, "not_expired")


def test_pauses_of_queue_task_and_tenant_say_who_why_and_until(store: str) -> None:
    one = add_one()
    bend("tenant_id = 'acme'")
    operate.pause(ALIAS, "q", SOON, reason="moving", by="ada")
    pauses.pause(ALIAS, Kind.TASK, "t", SOON, by="bob")
    pauses.pause(ALIAS, Kind.TENANT, "acme", SOON)

    found = about(one)

    assert [each.name for each in found.conditions if not each.holds][:3] == [
        "queue_not_paused", "task_not_paused", "tenant_not_paused",
    ]  # fmt: skip
    assert "by ada: moving" in detail(one, "queue_not_paused") and "by bob;" in detail(one, "task_not_paused")
    assert found.first is not None and found.first.until == SOON


def test_a_job_set_aside_says_for_what(store: str) -> None:
    one = add_one()
    bend("state = 'parked', parked_for = 'task:gone'")
    assert detail(one, "not_set_aside") == "set aside: no worker knows task gone"
    bend("parked_for = 'paused:t'")
    assert detail(one, "not_set_aside").startswith("set aside: paused task t; it is let back")


def test_a_job_behind_its_ordering_key_names_the_job_that_comes_first(store: str) -> None:
    head, second = add(2)
    bend("ordering_key = 'k'", head)
    bend("ordering_key = 'k', state = 'parked'", second)

    assert holds(head)["first_of_its_key"]
    assert detail(second, "first_of_its_key") == f"job {head} (ready) comes first under ordering key 'k'"
    db.rows(ALIAS, "delete from djqueue_job where id = %(id)s", {"id": head})
    assert "lets it out" in detail(second, "first_of_its_key")
    db.rows(
        ALIAS,
        "insert into djqueue_key_block (queue_name, ordering_key, job_id) values ('q', 'k', %(id)s)",
        {"id": head},
    )
    assert detail(second, "first_of_its_key").startswith(f"dead job {head} blocks")


def test_gates_say_whether_they_are_open_and_have_room(store: str) -> None:
    circuit, tenant = gate(Gate.CIRCUIT, "stripe"), gate(Gate.TENANT, "acme")
    one = add_one(lane=f"{circuit}:{tenant}")
    add_one(lane=tenant)
    close("q", tenant, until=None, most=1)
    assert detail(one, "gate_has_room") == f"tenant {tenant}: 0 of 1 jobs are running"
    assert about(one).runnable

    close("", circuit)
    bend("state = 'leased', lease_until = now(), leased_by = 'w9', attempts = 1", add_one(lane=tenant))

    assert [each.holds for each in about(one).conditions if each.name.startswith("gate")] == [False, False]
    assert f"circuit {circuit} is closed until 2" in detail(one, "gate_open")
    db.rows(
        ALIAS,
        "insert into djqueue_circuit (name, gate, changed_at, credited_at) values ('stripe', %(g)s, now(), now())",
        {"g": circuit},
    )
    assert detail(one, "gate_open").startswith("circuit stripe is closed until 2")
    assert detail(one, "gate_open").endswith(": circuit open")


def test_limits_that_are_reached_are_named_with_their_numbers_and_ends(store: str) -> None:
    key, rate, tenant = limits.of_key("a"), limits.of_rate("partner"), gate(Gate.TENANT, "acme")
    one = add_one(queue_name="q", lane=f"{rate}:{key}:{tenant}")
    bend("tenant_id = 'acme'", one)
    settings = {"q": QueueOptions(tenant_max_running=1)}
    limits.declare_queue(ALIAS, "q", 1, None)
    limits.set_limit(ALIAS, key, label="key a", running=1)
    limits.set_limit(ALIAS, rate, label="key partner", rate=Rate(per_second=0.001, burst=1))
    found = why.about(ALIAS, one, settings)
    assert found is not None and found.runnable and detail(one, "within_limits") == "none of its limits is reached"

    [running] = add(queue_name="q", lane=f"{key}:{tenant}")
    bend("state = 'leased', lease_until = now(), leased_by = 'w9', attempts = 1, tenant_id = 'acme'", running)
    db.rows(ALIAS, "update djqueue_limiter set tokens = 0, filled_at = clock_timestamp() where rate is not null")

    found = why.about(ALIAS, one, settings)
    assert found is not None and not found.runnable
    said = {each.detail[:41] for each in found.conditions if not each.holds}
    assert said >= {
        "concurrency limit key a: 1 of 1 jobs are ", "limit queue q: 1 of 1 jobs are running",
        "tenant acme: 1 of 1 jobs are running", "rate limit key partner: no start is left ",
    }  # fmt: skip
    [until] = [each.until for each in found.conditions if each.detail.startswith("rate limit")]
    assert until is not None and until > SOON - timedelta(hours=1)


def test_a_closed_gate_holds_back_a_suspect_and_a_cap_does_not(store: str) -> None:
    circuit, tenant = gate(Gate.CIRCUIT, "stripe"), gate(Gate.TENANT, "acme")
    one = add_one(queue_name="q", lane=f"{circuit}:{tenant}")
    bend("suspect = true, attempts = 1", one)
    close("q", tenant, until=None, most=0)
    assert about(one).runnable

    close("", circuit)

    assert not about(one).runnable


def test_without_a_worker_that_serves_the_queue_or_knows_the_task_nothing_starts(store: str) -> None:
    one = add_one()
    assert detail(one, "worker_serves_queue") == "0 of 0 live workers serve queue q"
    register("w1", queues=("other",))
    register("w2", queues=("*", "-q"))
    register("w3", queues=("q",), tasks=("u",))

    found = about(one)

    assert found.runnable and found.expected_seconds is None
    assert detail(one, "worker_serves_queue") == "1 of 3 live workers serve queue q"
    assert detail(one, "worker_knows_task") == "0 of them know task t"


def test_a_busy_fleet_and_a_place_in_the_queue_are_said(store: str) -> None:
    register("w1", slots=1)
    add(4)
    take_one()
    last = add_one(priority=-1)
    first = add_one(priority=1)

    assert (about(first).ahead, about(last).ahead) == (0, 4)
    assert detail(last, "its_turn") == "4 ready jobs come before it"
    assert detail(last, "slot_is_free") == "1 of 1 slots are busy"
    assert not holds(last)["slot_is_free"] and about(last).runnable


def test_the_expected_start_follows_from_what_left_the_queue_lately(store: str) -> None:
    register()
    add(10)
    last = add_one()
    db.rows(
        ALIAS, "insert into djqueue_queue (name, ready, oldest_ready_at) values ('q', 11, now() - interval '10 min')"
    )
    db.rows(
        ALIAS,
        "insert into djqueue_stat (minute, queue_name, task_name, outcome, count) "
        "values (date_trunc('minute', now() - interval '2 min'), 'q', 't', 'succeeded', 60)",
    )

    assert about(last).expected_seconds == pytest.approx(25, abs=6)


# ------------------------------------------------------------------------------------------------ all together


@pytest.mark.parametrize("seed", range(12))
def test_why_says_runnable_exactly_when_a_claim_takes_the_job_and_starts_it(store: str, seed: int) -> None:
    rng = random.Random(seed)
    ids = some_jobs(rng)
    some_obstacles(rng)

    said = {id_ for id_ in ids if about(id_).runnable}
    started = {job.id for job in everything_that_starts()}

    wrong = {id_: about_before(id_, said) for id_ in said ^ started}
    assert not wrong
    assert said and said != set(ids), "the states prove nothing"


def about_before(id_: UUID, said: set[UUID]) -> str:
    return f"said {'runnable' if id_ in said else 'not'}; now {[c.detail for c in about(id_).conditions]}"


LIMITED = lane([(Gate.RATE, "key e"), (Gate.TENANT, "c")])
LIMITS = [limits.of_key("d"), limits.of_rate("e")]
LANES = [
    "",
    "",
    lane([(Gate.CIRCUIT, "a")]),
    lane([(Gate.CIRCUIT, "a"), (Gate.TENANT, "b")]),
    lane([(Gate.TENANT, "c")]),
    LIMITED,
    lane([(Gate.CIRCUIT, "a"), (Gate.CONCURRENCY, "key d")]),
]
GATES = [gate(Gate.CIRCUIT, "a"), gate(Gate.TENANT, "b"), gate(Gate.TENANT, "c")]
BENT = [
    "state = 'ready'",
    "state = 'ready'",
    "state = 'ready'",
    "state = 'scheduled', run_at = now() + interval '1 h'",
    "state = 'scheduled', run_at = now() - interval '1 s'",
    "state = 'parked', parked_for = 'task:t'",
    "state = 'parked', parked_for = 'tenant:x'",
    "state = 'leased', lease_until = now() + interval '1 h', leased_by = 'w9', attempts = 1",
    "expires_at = now() - interval '1 s'",
    "expires_at = now() + interval '1 h'",
    "suspect = true, attempts = 1",
    "run_at = '-infinity'::timestamptz + interval '0 s'",
    "run_at = now() - interval '10 days', attempts = 7",
]


def some_jobs(rng: random.Random) -> list[UUID]:
    ids = []
    for _ in range(60):
        ids += add(
            queue_name=rng.choice(["q", "r", "s"]), lane=rng.choice(LANES), priority=rng.choice([-100, 0, 0, 5]),
            task_name=rng.choice(["t", "u"]),
        )  # fmt: skip
        bend(f"tenant_id = '{rng.choice(['', 'x', 'y'])}'", ids[-1])
        bend(rng.choice(BENT[:11] + BENT[12:]), ids[-1])
    keyed = [
        id_ for id_ in ids if db.rows(ALIAS, "select from djqueue_job where id = %(i)s and state = 'ready'", {"i": id_})
    ]
    for number, id_ in enumerate(rng.sample(keyed, min(4, len(keyed)))):
        bend(f"ordering_key = 'k{number}'" + (", state = 'parked'" if number % 2 else ""), id_)
    return ids


def some_obstacles(rng: random.Random) -> None:
    moments = [SOON, LONG_AGO]
    if rng.random() < 0.5:
        operate.pause(ALIAS, rng.choice(["q", "r"]), rng.choice(moments))
    if rng.random() < 0.5:
        pauses.pause(ALIAS, Kind.TASK, "u", rng.choice(moments))
    if rng.random() < 0.5:
        pauses.pause(ALIAS, Kind.TENANT, "x", rng.choice(moments))
    for queue in ("q", "r", "s"):
        for name in GATES:
            if rng.random() < 0.4:
                close(queue, name, rng.choice([*moments, None]), most=rng.choice([None, None, 0, 500]))
    if rng.random() < 0.3:
        close("", rng.choice(GATES))
    for name in LIMITS:
        if rng.random() < 0.7:
            limits.set_limit(ALIAS, name, running=rng.choice([None, 0, 500]), rate=Rate(per_second=1e-6, burst=500))
            spent = rng.choice(["tokens = 0", "tokens = 500", "paused_until = now() + interval '1 h'"])
            db.rows(ALIAS, f"update djqueue_limiter set filled_at = now(), {spent} where name = '{name}'")


def everything_that_starts() -> list[Claimed]:
    """What a worker that serves everything, knows every task and has room starts, by its own claims."""
    connections[ALIAS].ensure_connection()
    plan = Plan(
        backend="default", options=Options(), selection=QueueSelection(everything=True), known_queues=("q", "r", "s")
    )
    claimer = Claimer(plan, "w1")
    claimer.refresh()
    taken: list[Claimed] = []
    for _ in range(20):
        cursor = claimer.start(200, 200)
        jobs = claim.claimed(cursor) if cursor is not None else []
        claimer.learn(jobs, 200)
        if claimer.has_many_lanes:
            jobs += claimer.steps(200, 200)
        taken += jobs
    for name in claimer.names:
        while suspects := step.claim_suspect(ALIAS, claimer.request(1, 1), claimer.way(name)):
            taken += suspects
    left = [job for job in taken if not claimer.stops.sets_aside(job)]
    return [job for job in left if job.expires_in is None or job.expires_in > 0]


def test_a_pause_under_another_name_of_the_task_is_told(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "same", lambda name: [name, "former.t"])
    id_ = add_one()
    pauses.pause(ALIAS, Kind.TASK, "former.t", SOON, reason="moving")

    assert not about(id_).runnable
    assert ": moving; resume it" in detail(id_, "task_not_paused")


def test_a_worker_knows_a_task_in_the_version_of_the_job(store: str) -> None:
    id_ = add_one(options='{"version": 3}')
    register(tasks=("t", "t@2"))
    assert not holds(id_)["worker_knows_task"]

    register("w2", tasks=("t", "t@2", "t@3"))

    assert holds(id_)["worker_knows_task"]
