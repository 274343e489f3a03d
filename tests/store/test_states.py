"""One state machine: the table in code, its drawing, the CHECK constraints, the SQL and the models say the same.

And no job, whatever happens to it in whatever order, leaves it or starts more often than it may (R3).
"""

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from pytest_django.plugin import DjangoDbBlocker

from djqueue import states
from djqueue.states import FINISHED, LIVE, TRANSITIONS, State
from djqueue.store import change, claim, db, expire, lease, letters, operate, recover
from tests.live import Template, live_copy
from tests.store.factories import (
    ALIAS,
    PARTITION_FOR_ALL,
    YEAR_1,
    YEAR_9999,
    ack,
    add_one,
    bend,
    fail,
    lease_of,
    request,
    row,
    take,
)

# ------------------------------------------------------------------------------------------------ the machine itself


def test_every_state_has_its_transitions_and_is_either_live_or_finished() -> None:
    assert set(TRANSITIONS) == set(State)
    assert set(LIVE) | set(FINISHED) == set(State)
    assert not set(LIVE) & set(FINISHED)


def test_every_state_can_be_reached_and_every_live_one_can_end() -> None:
    reachable = set().union(*TRANSITIONS.values())

    assert reachable >= set(State) - {State.SCHEDULED, State.READY, State.PARKED}
    for state in LIVE:
        assert State.CANCELLED in TRANSITIONS[state]


def test_the_drawing_names_every_state() -> None:
    drawing = str(states.__doc__)

    assert [state for state in State if not re.search(rf"\b{state}\b", drawing)] == []


# ------------------------------------------------------------------------------------------------ every transition

Step = Callable[[UUID], Any]


def leased(id_: UUID) -> lease.Lease:
    """Its lease; where it is not leased (any more), the last one that somebody can have had."""
    return lease.Lease(id_, row(id_, "lease_token - (state <> 'leased')::int") or 0)


def expired() -> None:
    """Nothing may be started any more."""
    bend("expires_at = '2020-01-01'")


STEPS: dict[tuple[State, State], list[Step]] = {
    (State.READY, State.LEASED): [lambda id_: take()],
    (State.READY, State.PARKED): [lambda id_: recover.set_aside_tasks(ALIAS, "q", ["t"])],
    (State.READY, State.CANCELLED): [
        lambda id_: operate.cancel(ALIAS, [id_]),
        lambda id_: (expired(), expire.end_overdue(ALIAS)),
    ],
    (State.READY, State.SCHEDULED): [lambda id_: change.reschedule(ALIAS, [id_], YEAR_9999)],
    (State.SCHEDULED, State.READY): [
        lambda id_: (bend("run_at = '2020-01-01'"), recover.promote(ALIAS)),
        lambda id_: operate.retry_now(ALIAS, [id_]),
        lambda id_: change.reschedule(ALIAS, [id_], YEAR_1),
    ],
    (State.SCHEDULED, State.CANCELLED): [lambda id_: operate.cancel(ALIAS, [id_])],
    (State.PARKED, State.READY): [lambda id_: recover.bring_back(ALIAS, ["task:t"])],
    (State.PARKED, State.SCHEDULED): [
        lambda id_: (bend("run_at = clock_timestamp() + interval '1 h'"), recover.bring_back(ALIAS, ["task:t"]))
    ],
    (State.PARKED, State.CANCELLED): [lambda id_: operate.cancel(ALIAS, [id_])],
    (State.LEASED, State.READY): [
        lambda id_: lease.release(ALIAS, [leased(id_)]),
        lambda id_: fail(leased(id_)),
        lambda id_: lease.snooze(ALIAS, [leased(id_)], [0.0]),
    ],
    (State.LEASED, State.SCHEDULED): [
        lambda id_: fail(leased(id_), delay_seconds=5),
        lambda id_: lease.snooze(ALIAS, [leased(id_)], [5.0]),
    ],
    (State.LEASED, State.PARKED): [lambda id_: lease.set_aside(ALIAS, [leased(id_)])],
    (State.LEASED, State.SUCCEEDED): [lambda id_: ack(leased(id_))],
    (State.LEASED, State.CANCELLED): [
        lambda id_: fail(leased(id_), cancel=True),
        lambda id_: (operate.cancel(ALIAS, [id_]), fail(leased(id_))),
        lambda id_: (operate.cancel(ALIAS, [id_]), lease.release(ALIAS, [leased(id_)])),
        lambda id_: (expired(), expire.refuse(ALIAS, [leased(id_)])),
    ],
    (State.LEASED, State.DEAD): [lambda id_: fail(leased(id_), final=True)],
    (State.DEAD, State.READY): [lambda id_: operate.requeue(ALIAS, [id_])],
    (State.DEAD, State.CANCELLED): [lambda id_: letters.discard(ALIAS, [id_], reason="not needed")],
    (State.DEAD, State.PARKED): [
        lambda id_: (
            db.rows(ALIAS, "update djqueue_dead_letter set ordering_key = 'o'"),
            operate.requeue(ALIAS, [id_]),
        )
    ],
}


def bring_to(state: State) -> UUID:
    """A job in that state."""
    id_ = add_one(delay_seconds=60 if state is State.SCHEDULED else 0)
    if state is State.PARKED:
        recover.set_aside_tasks(ALIAS, "q", ["t"])
    if state in (State.LEASED, State.SUCCEEDED, State.DEAD):
        take()
    if state is State.SUCCEEDED:
        ack(leased(id_))
    if state is State.DEAD:
        fail(leased(id_), final=True)
    if state is State.CANCELLED:
        operate.cancel(ALIAS, [id_])
    assert state_of(id_) is state
    return id_


def state_of(id_: UUID) -> State:
    """Where the job stands, which is in exactly one table."""
    found = db.rows(
        ALIAS,
        "select state from djqueue_job where id = %(id)s union all "
        "select outcome from djqueue_history where id = %(id)s union all "
        "select outcome from djqueue_history_overflow where id = %(id)s union all "
        "select 'dead' from djqueue_dead_letter where id = %(id)s",
        {"id": id_},
    )
    [(state,)] = found
    return State(state)


def test_the_statements_know_each_transition_of_the_table_and_no_other() -> None:
    assert set(STEPS) == {(before, after) for before, afters in TRANSITIONS.items() for after in afters}


WAYS = {f"{b} to {a}, way {n}": (b, a, s) for (b, a), steps in STEPS.items() for n, s in enumerate(steps, 1)}


@pytest.mark.parametrize(("before", "after", "step"), WAYS.values(), ids=WAYS)
def test_a_statement_makes_its_transition(store: str, before: State, after: State, step: Step) -> None:
    id_ = bring_to(before)

    step(id_)

    assert state_of(id_) is after


@pytest.mark.parametrize("before", State)
@pytest.mark.parametrize("step", [step for _, _, step in WAYS.values()], ids=WAYS)
def test_no_statement_makes_a_transition_that_is_not_in_the_table(store: str, before: State, step: Step) -> None:
    id_ = bring_to(before)

    step(id_)

    after = state_of(id_)
    assert after is before or after in TRANSITIONS[before] or any(after in TRANSITIONS[s] for s in TRANSITIONS[before])


# ------------------------------------------------------------------------------------------------ constraints


def test_the_check_constraint_knows_the_live_states_only(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("select pg_get_constraintdef(oid) from pg_constraint where conname = 'djqueue_job_state'")
        [definition] = cursor.fetchone()

    assert set(re.findall(r"'(\w+)'", definition)) == {str(state) for state in LIVE}


@pytest.mark.parametrize(
    "forbidden",
    [
        "state = 'succeeded'",
        "state = 'dead'",
        "state = 'cancelled'",
        "state = 'leased'",
        "state = 'leased', lease_until = now()",
        "state = 'leased', leased_by = 'w'",
        "leased_by = 'w'",
        "lease_until = now()",
        "attempts = max_attempts",
        "state = 'leased', lease_until = now(), leased_by = 'w', attempts = max_attempts + 1",
        "priority = 101",
        "max_attempts = 0",
        "max_attempts = 1001",
        "on_dead = 'explode'",
        "queue_name = ''",
        "task_name = ''",
        "parked_for = repeat('x', 311)",
        "ordering_key = repeat('x', 301)",
        "tenant_id = repeat('x', 201)",
    ],
)
def test_the_table_refuses_what_the_state_machine_forbids(store: str, forbidden: str) -> None:
    id_ = add_one()

    with pytest.raises(Exception, match="violates check constraint"), db.one_transaction(ALIAS):
        bend(forbidden, id_)

    assert state_of(id_) is State.READY


def test_the_table_refuses_two_heads_of_one_ordering_key(store: str) -> None:
    first, second = add_one(), add_one()
    bend("ordering_key = 'o', state = 'parked'")
    bend("state = 'ready'", first)

    with pytest.raises(Exception, match="djqueue_job_head"), db.one_transaction(ALIAS):
        bend("state = 'ready'", second)


# ------------------------------------------------------------------------------------------------ whatever happens


class AnyRoad(RuleBasedStateMachine):
    """One job, two workers who may know old leases, a keeper and an admin, in any order."""

    def __init__(self) -> None:
        super().__init__()
        db.rows(ALIAS, "truncate djqueue_job, djqueue_history, djqueue_history_overflow, djqueue_dead_letter")
        self.most = 2
        self.id = add_one(max_attempts=self.most, dedupe_key="k")
        self.known: list[lease.Lease] = []
        self.tokens: list[int] = []
        self.before = State.READY
        self.starts = self.given_back = 0

    def old_or_new(self, which: int) -> lease.Lease:
        return self.known[which % len(self.known)]

    @rule(free=st.integers(0, 1), suspect=st.booleans())
    def claims(self, free: int, suspect: bool) -> None:
        found = claim.claim_suspect(ALIAS, request(1), ["q"]) if suspect else take(1, free=free)
        for job in found:
            assert job.lease_token > max(self.tokens, default=0)
            assert free or suspect or job.attempts < job.max_attempts
            self.tokens.append(job.lease_token)
            self.known.append(lease_of(job))
            self.starts += 1

    @precondition(lambda self: self.known)
    @rule(which=st.integers(0, 50), delay=st.sampled_from([0.0, 60.0]), crash=st.booleans(), cancel=st.booleans())
    def fails(self, which: int, delay: float, crash: bool, cancel: bool) -> None:
        self.ends_only_if_current(which, lambda held: bool(fail(held, delay_seconds=delay, crash=crash, cancel=cancel)))

    @precondition(lambda self: self.known)
    @rule(which=st.integers(0, 50), interrupted=st.booleans())
    def releases(self, which: int, interrupted: bool) -> None:
        ended = self.ends_only_if_current(
            which, lambda held: bool(lease.release(ALIAS, [held], interrupted=interrupted))
        )
        self.given_back += ended and state_of(self.id) in LIVE

    @precondition(lambda self: self.known)
    @rule(which=st.integers(0, 50), delay=st.sampled_from([0.0, 60.0]))
    def snoozes(self, which: int, delay: float) -> None:
        asked = row(self.id, "cancel_requested_at") is not None
        if not asked:
            self.given_back += self.ends_only_if_current(which, lambda held: bool(lease.snooze(ALIAS, [held], [delay])))

    @precondition(lambda self: self.known)
    @rule(which=st.integers(0, 50))
    def goes_aside(self, which: int) -> None:
        ended = self.ends_only_if_current(which, lambda held: bool(lease.set_aside(ALIAS, [held])))
        self.given_back += ended and state_of(self.id) in LIVE

    @precondition(lambda self: self.known)
    @rule(which=st.integers(0, 50))
    def acks(self, which: int) -> None:
        self.ends_only_if_current(which, lambda held: bool(ack(held)))

    @precondition(lambda self: self.known)
    @rule(which=st.integers(0, 50))
    def beats(self, which: int) -> None:
        held = self.old_or_new(which)
        current = self.is_current(held)
        lost = lease.heartbeat(ALIAS, [lease.Beat(*held, 1.0)], 30).lost
        assert bool(lost) is not current

    @rule()
    def lease_expires_and_is_reaped(self) -> None:
        db.rows(ALIAS, "update djqueue_job set lease_until = now() - interval '1 s' where state = 'leased'")
        with db.one_transaction(ALIAS):
            for found in recover.overdue(ALIAS, 0):
                assert fail(lease.Lease(found.id, found.lease_token), crash=True)

    @rule()
    def becomes_due(self) -> None:
        db.rows(ALIAS, "update djqueue_job set run_at = now() where state = 'scheduled'")
        recover.promote(ALIAS)

    @rule()
    def is_known_again(self) -> None:
        recover.bring_back(ALIAS, ["task:t"])

    @rule()
    def is_cancelled(self) -> None:
        operate.cancel(ALIAS, [self.id])

    @rule()
    def is_requeued(self) -> None:
        if operate.requeue(ALIAS, [self.id]).ids:
            self.starts = self.given_back = 0

    def is_current(self, held: lease.Lease) -> bool:
        return row(self.id, "state, lease_token") == ("leased", held.lease_token)

    def ends_only_if_current(self, which: int, action: Callable[[lease.Lease], bool]) -> bool:
        held = self.old_or_new(which)
        current = self.is_current(held)
        done = action(held)
        assert done is current
        return done

    @invariant()
    def starts_are_bounded(self) -> None:
        assert self.starts - self.given_back <= self.most

    @invariant()
    def the_row_says_what_was_charged(self) -> None:
        if self.before in LIVE and (found := row(self.id, "attempts, cardinality(worker_ids)")):
            assert found == (self.starts - self.given_back,) * 2

    @invariant()
    def it_stands_in_one_table_and_moved_as_the_machine_allows(self) -> None:
        now = state_of(self.id)
        reachable = {self.before} | TRANSITIONS[self.before]
        assert now in reachable | {after for state in reachable for after in TRANSITIONS[state]}
        self.before = now

    @invariant()
    def nothing_waits_that_was_asked_to_cancel(self) -> None:
        assert row(self.id, "state <> 'leased' and cancel_requested_at is not null") in (None, False)

    @invariant()
    def none_is_dead_without_having_started(self) -> None:
        attempts = row(self.id, "attempts", "dead_letter")
        assert attempts is None or attempts >= 1


@pytest.mark.slow
def test_r3_no_road_leads_to_more_charged_starts_than_allowed(
    live_template: Template, django_db_blocker: DjangoDbBlocker
) -> None:
    with django_db_blocker.unblock(), live_copy(live_template):
        db.rows(ALIAS, PARTITION_FOR_ALL)
        db.rows(ALIAS, "set synchronous_commit = off")
        run_state_machine_as_test(
            AnyRoad,
            settings=settings(
                max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
            ),
        )
