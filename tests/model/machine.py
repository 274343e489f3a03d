"""The same commands to the model and to the real store, after each of which both must be in the same state.

Time passes in ticks of 100 seconds, far more than a run takes: the model adds them to its clock, the rows of the
database are shifted into the past. Within a tick both count on: the model by commands, the database by its clock.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from benchmarks.model import LEASED, PARKED, READY, SCHEDULED, Job, Lease, ModelQueue
from djqueue.states import OnDead
from djqueue.store import claim as claiming
from djqueue.store import db, finish, letters, operate, ordering, recover
from djqueue.store import enqueue as enqueueing
from djqueue.store import lease as leasing
from djqueue.store.operate import CancelAnswer
from djqueue.store.ordering import Key
from tests.store.factories import ALIAS, failure, new_job, request, take

TICK = 100.0
TABLES = (
    "djqueue_job",
    "djqueue_history",
    "djqueue_history_overflow",
    "djqueue_dead_letter",
    "djqueue_death",
    "djqueue_wake",
    "djqueue_key_block",
)
SHIFT = """
update djqueue_job set run_at = run_at - make_interval(secs => %(by)s),
    started_at = started_at - make_interval(secs => %(by)s), lease_until = lease_until - make_interval(secs => %(by)s)
"""
IN_ORDER = """
update djqueue_job j set run_at = x.run_at from (
    select id, max(run_at) over () + row_number() over (order by seq) * interval '1 microsecond' as run_at
    from djqueue_job where id = any(%(ids)s)) x
where j.id = x.id
"""
LIVE = """
select id, state, attempts, interruptions, runs, suspect, priority, max_attempts, dedupe_key,
    ordering_key, cancel_requested_at is not null, lease_token from djqueue_job
"""
HISTORY = """
select id, outcome, attempts, lease_token from djqueue_history union all
select id, outcome, attempts, lease_token from djqueue_history_overflow
"""
DEAD = "select id, 'dead', attempts, lease_token from djqueue_dead_letter"

delays = st.sampled_from([0.0, 0.0, TICK, 3 * TICK])
keys = st.sampled_from([None, None, "a", "b"])
terms = st.sampled_from([TICK, 3 * TICK])
picks = st.integers(0, 11)
"""Which of those that there are."""
tokens = st.sampled_from(["fresh", "fresh", "fresh", "fresh", "stale", "forged"])


class Held(NamedTuple):
    """One lease, as the model and as the store know it."""

    model: Lease
    real: leasing.Lease


class QueueMachine(RuleBasedStateMachine):
    """Drives both queues; every rule compares the answers."""

    @initialize()
    def start(self) -> None:
        self.model = ModelQueue()
        self.ids: dict[int, UUID] = {}
        self.leases: list[Held] = []
        self.numbers: dict[UUID, int] = {}
        self.tokens: dict[UUID, int] = {}
        self.ticks = 0
        self.commands = 0
        for table in TABLES:
            db.rows(ALIAS, f"delete from {table}")
        for number in range(6):
            self.enqueue(most=1 + number % 3, order="o" if number % 2 else None)

    @property
    def now(self) -> float:
        self.commands += 1
        return self.ticks * TICK + self.commands * 1e-6

    # ------------------------------------------------------------------------------------------ commands

    @rule(
        delay=delays,
        priority=st.sampled_from([0, 0, 5, -5]),
        key=keys,
        most=st.integers(1, 3),
        timeout=st.sampled_from([None, TICK]),
        order=st.sampled_from([None, "o", "o", "p"]),
        blocks=st.booleans(),
    )
    def enqueue(
        self,
        *,
        delay: float = 0,
        priority: int = 0,
        key: str | None = None,
        most: int = 3,
        timeout: float | None = TICK,
        order: str | None = None,
        blocks: bool = False,
    ) -> None:
        number, created = self.model.enqueue(
            self.now, delay=delay, priority=priority, dedupe_key=key, max_attempts=most, timeout_seconds=timeout,
            ordering_key=order, blocks=blocks,
        )  # fmt: skip
        job = new_job(
            priority=priority, delay_seconds=delay, dedupe_key=key, max_attempts=most, timeout_seconds=timeout,
            ordering_key=order, on_dead=OnDead.BLOCK if blocks else OnDead.SKIP,
        )  # fmt: skip
        answer = enqueueing.enqueue(ALIAS, job)
        assert answer.created == created
        if created:
            self.ids[number], self.numbers[answer.id] = answer.id, number
        assert answer.id == self.ids[number]

    @precondition(lambda self: self.there_are(READY))
    @rule(limit=st.integers(1, 4), free=st.integers(0, 4), term=terms)
    def claim(self, limit: int, free: int, term: float) -> None:
        expected = self.model.claim(self.now, limit, free, term)
        found = take(limit, free=free, lease_seconds=term)
        self.take_up(expected, found)

    @precondition(lambda self: any(job.suspect for job in self.model.live.values()))
    @rule(term=terms)
    def claim_suspect(self, term: float) -> None:
        expected = self.model.claim_suspect(self.now, term)
        self.take_up(expected, claiming.claim_suspect(ALIAS, request(1, lease_seconds=term), ["q"]))

    @precondition(lambda self: self.leases)
    @rule(pick=picks, token=tokens)
    def ack(self, pick: int, token: str) -> None:
        model, real = self.lease(pick, token)
        key = self.key_of(model.id)
        expected = self.model.ack(self.now, model)
        assert bool(finish.ack(ALIAS, [finish.Ack(real.id, real.lease_token, 2.0, 1.0, "null", key)])) == expected

    @precondition(lambda self: self.leases)
    @rule(pick=picks, token=tokens, delay=delays, final=st.booleans())
    def fail(self, pick: int, token: str, delay: float, final: bool) -> None:
        model, real = self.lease(pick, token)
        expected = self.model.fail(self.now, model, delay=delay, final=final)
        ended = finish.fail(ALIAS, [failure(real, delay_seconds=delay, final=final)])
        assert [str(each.state) for each in ended] == ([expected] if expected else [])

    @precondition(lambda self: self.leases)
    @rule(pick=picks, token=tokens, interrupted=st.booleans())
    def release(self, pick: int, token: str, interrupted: bool) -> None:
        model, real = self.lease(pick, token)
        expected = self.model.release(model, interrupted=interrupted)
        assert bool(leasing.release(ALIAS, [real], interrupted=interrupted)) == expected

    @precondition(lambda self: self.leases)
    @rule(pick=picks, token=tokens, delay=delays)
    def snooze(self, pick: int, token: str, delay: float) -> None:
        model, real = self.lease(pick, token)
        expected = self.model.snooze(self.now, model, delay)
        assert bool(leasing.snooze(ALIAS, [real], [delay])) == expected

    @precondition(lambda self: self.leases)
    @rule(pick=picks, token=tokens, began=st.sampled_from([None, 0.0]))
    def heartbeat(self, pick: int, token: str, began: float | None) -> None:
        model, real = self.lease(pick, token)
        lost = self.model.heartbeat(self.now, [model], 2 * TICK, began)
        found = leasing.heartbeat(ALIAS, [leasing.Beat(real.id, real.lease_token, began)], 2 * TICK)
        assert {self.numbers[id_] for id_ in found.lost} == lost

    @precondition(lambda self: self.ids)
    @rule(pick=picks, waits=st.booleans())
    def cancel(self, pick: int, waits: bool) -> None:
        job = _choose(pick, self.model.live if waits else [each.model.id for each in self.leases], self.ids)
        expected = self.model.cancel([job])[job]
        assert operate.cancel(ALIAS, [self.ids[job]]) == {self.ids[job]: CancelAnswer(expected)}

    @precondition(lambda self: self.model.dead)
    @rule(pick=picks)
    def requeue(self, pick: int) -> None:
        job = _choose(pick, self.model.dead, self.ids)
        expected = self.model.requeue(self.now, job)
        answer = operate.requeue(ALIAS, [self.ids[job]])
        word = "requeued" if answer.ids else "refused" if answer.refused else "gone"
        assert word == expected

    @precondition(lambda self: self.there_are(LEASED))
    @rule()
    def reap(self) -> None:
        expected = self.model.reap(self.now, 0)
        with db.one_transaction(ALIAS):
            late = recover.overdue(ALIAS, 0)
            leases = [leasing.Lease(job.id, job.lease_token) for job in late]
            ended = finish.fail(ALIAS, [failure(each, crash=True) for each in leases])
        assert {self.numbers[each.id]: str(each.state) for each in ended} == expected
        self.in_order([each.id for each in ended])

    @precondition(lambda self: self.there_are(SCHEDULED))
    @rule()
    def promote(self) -> None:
        assert recover.promote(ALIAS) == self.model.promote(self.now)

    @precondition(lambda self: self.there_are(PARKED))
    @rule()
    def let_out(self) -> None:
        expected = self.model.let_out(self.now)
        assert ordering.turn(ALIAS).let_out == expected

    @precondition(lambda self: self.model.dead)
    @rule(pick=picks)
    def discard(self, pick: int) -> None:
        job = _choose(pick, self.model.dead, [])
        assert self.model.discard(job)
        assert letters.discard(ALIAS, [self.ids[job]], reason="enough") == {self.ids[job]}

    @rule(ticks=st.integers(1, 4))
    def time_passes(self, ticks: int) -> None:
        self.ticks += ticks
        db.rows(ALIAS, SHIFT, {"by": ticks * TICK})

    # ------------------------------------------------------------------------------------------ the state

    @invariant()
    def both_are_the_same(self) -> None:
        live = {row[0]: row[1:-1] for row in self.seen(LIVE)}
        assert live == {self.ids[n]: _columns(job) for n, job in self.model.live.items()}
        history = {row[0]: row[1:3] for row in db.rows(ALIAS, HISTORY)}
        assert history == {self.ids[n]: (job.state, job.attempts) for n, job in self.model.history.items()}
        dead = {row[0]: row[1:3] for row in self.seen(DEAD)}
        assert dead == {self.ids[n]: (job.state, job.attempts) for n, job in self.model.dead.items()}

    def seen(self, query: str) -> list[db.Row]:
        """Rows, whose tokens must not have gone back."""
        rows = db.rows(ALIAS, query)
        for row in rows:
            assert row[-1] >= self.tokens.get(row[0], 0), "a token went back"
            self.tokens[row[0]] = row[-1]
        return rows

    def take_up(self, expected: list[Lease], found: list[claiming.Claimed]) -> None:
        """Keep the leases of a claim, once both agree on which and in which order."""
        assert [self.numbers[job.id] for job in found] == [each.id for each in expected]
        for model, job in zip(expected, found, strict=True):
            assert job.lease_token > self.tokens[job.id], "a claim did not mint a greater token"
            self.leases.append(Held(model, leasing.Lease(job.id, job.lease_token)))

    def key_of(self, number: int) -> Key | None:
        """The ordering key of a job, wherever it is."""
        job = self.model.live.get(number) or self.model.history.get(number) or self.model.dead.get(number)
        return Key("q", job.ordering_key) if job is not None and job.ordering_key is not None else None

    def there_are(self, state: str) -> bool:
        """Whether some job is in this state."""
        return any(job.state == state for job in self.model.live.values())

    def lease(self, pick: int, token: str) -> Held:
        """A lease that goes on, one that has ended, or one with a token that nobody was given."""
        fresh = [each for each in self.leases if self.model.holds(each.model)]
        stale = [each for each in self.leases if not self.model.holds(each.model)]
        held = _choose(pick, stale if token == "stale" else fresh, self.leases)
        if token != "forged":
            return held
        model, real = held
        return Held(Lease(model.id, -model.token), leasing.Lease(real.id, -real.lease_token))

    def in_order(self, ids: list[UUID]) -> None:
        """Make jobs that one statement ended due in the order of their numbers, as for the model; the order of its rows
        is the planner's affair."""
        db.rows(ALIAS, IN_ORDER, {"ids": ids})


def _columns(job: Job) -> tuple[Any, ...]:
    return (
        job.state,
        job.attempts,
        job.interruptions,
        job.runs,
        job.suspect,
        job.priority,
        job.max_attempts,
        job.dedupe_key,
        job.ordering_key,
        job.cancel_asked,
    )


def _choose(pick: int, wanted: Iterable[Any], others: Iterable[Any]) -> Any:
    """One of those wanted, else one of the others, of which there are some."""
    found = list(wanted) or list(others)
    return found[pick % len(found)]
