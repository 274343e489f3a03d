"""Why a job does not run: the conditions in the order in which a claim applies them, each looked at for this job.

    of the job     unfinished · not running · due · not expired · queue not paused · first of its ordering key ·
                   not set aside · task and tenant not paused · gates
    of the fleet   a worker serves its queue · knows its task · has a free slot · its turn

Invariant: `runnable`, that is all conditions of the job hold, is true exactly when the next claim by a worker that
serves its queue, knows its task and has room takes the job and starts it. A test with random states ties the two.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from djqueue.api import registry
from djqueue.compat import DEFAULT_TASK_BACKEND_ALIAS, TaskResultDoesNotExist, task_backends
from djqueue.policy import aside, durations
from djqueue.policy.gates import Gate as GateKind
from djqueue.policy.gates import gates as gates_of
from djqueue.policy.weights import serves
from djqueue.queueconf import QueueOptions
from djqueue.states import State
from djqueue.store import forecast, limits, results
from djqueue.store import why as store
from djqueue.store.limits import Block
from djqueue.store.why import Facts, Gate, Held, Server

GATES: dict[str, str] = {
    GateKind.CIRCUIT: "circuit",
    GateKind.RATE: "rate limit",
    GateKind.CONCURRENCY: "concurrency limit",
    GateKind.TENANT: "tenant",
}
NO_SETTINGS: Mapping[str, QueueOptions] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition, and whether it holds for the job at this moment."""

    name: str
    """A word that stays the same from release to release."""
    holds: bool
    detail: str
    """In words; where it does not hold: what has to happen."""
    until: datetime | None = None
    """When it holds by itself at the latest, if that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The answer about one job."""

    id: UUID
    state: State
    queue_name: str
    task_name: str
    runnable: bool
    """A claim takes it and starts it now."""
    conditions: list[Condition] = field(default_factory=list)
    """Of the job, in the order of the claim; then of the fleet."""
    ahead: int | None = None
    """Ready jobs of its lane that are claimed before it; 10,000 means so many or more. None: it is not runnable."""
    expected_seconds: float | None = None
    """When it starts, if its queue goes on as in the last minutes. None: not known."""

    @property
    def first(self) -> Condition | None:
        """The first condition that does not hold: what people should look at."""
        return next((each for each in self.conditions if not each.holds), None)


def why(id: UUID | str, *, backend: str = DEFAULT_TASK_BACKEND_ALIAS) -> Why:
    """Return why a job does not run, or that nothing is in its way.

    Raises `TaskResultDoesNotExist` where there is no job of this id.
    """
    try:
        id_ = id if isinstance(id, UUID) else UUID(id)
    except (ValueError, TypeError, AttributeError):
        raise TaskResultDoesNotExist(id) from None
    found: Any = task_backends[backend]
    answer = about(found.alias_of_database, id_, found.djqueue_options.queues)
    if answer is None:
        raise TaskResultDoesNotExist(id)
    return answer


def about(alias: str, id_: UUID, queues: Mapping[str, QueueOptions] = NO_SETTINGS) -> Why | None:
    """Return the same of a job in this database; None where there is no such job.

    `queues` are the settings of queues, which say the cap of tenants that have none of their own.
    """
    facts = store.facts(alias, id_)
    if facts is None:
        return _finished(alias, id_)
    facts = _with_other_names(facts)
    gates = store.gates(alias, facts.queue_name, facts.lane)
    own = [*_of_the_job(facts), *_gates(facts, gates), *_limits(facts, _blocks(alias, facts, queues))]
    runnable = all(each.holds for each in own)
    is_ahead_asked = runnable and not facts.is_suspect
    servers, ahead = ([], None) if facts.state is State.LEASED else store.prospects(alias, facts, ahead=is_ahead_asked)
    now = forecast.of_queue(alias, facts.queue_name) if ahead else None
    rate = now.forecast.per_second if now else 0.0
    fleet = [] if facts.state is State.LEASED else [*_fleet(facts, servers), *_turn(facts, ahead, rate)]
    expected = None if not all(each.holds for each in (*own, *fleet[:2])) else _seconds(ahead, rate)
    return Why(
        id=facts.id,
        state=facts.state,
        queue_name=facts.queue_name,
        task_name=facts.task_name,
        runnable=runnable,
        conditions=[*own, *fleet],
        ahead=ahead,
        expected_seconds=expected,
    )


def _finished(alias: str, id_: UUID) -> Why | None:
    job = results.find(alias, [id_]).get(id_)
    if job is None:
        return None
    when = f" at {_moment(job.finished_at)}" if job.finished_at else ""
    remedy = "; requeue it to run it again" if job.state is State.DEAD else ""
    return Why(
        id=job.id,
        state=job.state,
        queue_name=job.queue_name,
        task_name=job.task_name,
        runnable=False,
        conditions=[Condition(name="unfinished", holds=False, detail=f"it ended as {job.state}{when}{remedy}")],
    )


def _with_other_names(facts: Facts) -> Facts:
    """Obey as well pauses under other names of the task, if this process knows any."""
    names = [name for name in registry.same(facts.task_name)[1:] if name in facts.paused_tasks]
    if facts.task_pause is not None or not names:
        return facts
    return replace(facts, task_pause=facts.paused_tasks[names[0]])


def _of_the_job(facts: Facts) -> Iterator[Condition]:
    yield Condition(name="unfinished", holds=True, detail=f"it is {facts.state}")
    yield _not_running(facts)
    yield _due(facts)
    yield _not_expired(facts)
    yield _not_paused("queue", facts.queue_name, facts.queue_pause)
    if facts.ordering_key is not None:
        yield _first_of_its_key(facts)
    yield _not_set_aside(facts)
    yield _not_paused("task", facts.task_name, facts.task_pause)
    if facts.tenant_id:
        yield _not_paused("tenant", facts.tenant_id, facts.tenant_pause)


def _not_running(facts: Facts) -> Condition:
    if facts.state is not State.LEASED:
        return Condition(name="not_running", holds=True, detail="no worker has it")
    since = f"running since {_moment(facts.started_at)}" if facts.started_at else "claimed, about to start"
    detail = f"{since} on worker {facts.leased_by}, attempt {facts.attempts} of {facts.max_attempts}"
    return Condition(name="not_running", holds=False, detail=detail)


def _due(facts: Facts) -> Condition:
    if facts.state is not State.SCHEDULED:
        return Condition(name="due", holds=True, detail=f"since {_moment(facts.run_at)}")
    what = (
        f"waits to be tried again (attempt {facts.attempts} of {facts.max_attempts} failed)" if facts.attempts else ""
    )
    if facts.run_at <= facts.now:
        return Condition(name="due", holds=False, detail="due; a keeper makes it ready within a second")
    detail = f"{what or 'was enqueued for later'}, due at {_moment(facts.run_at)}"
    return Condition(name="due", holds=False, detail=detail, until=facts.run_at)


def _not_expired(facts: Facts) -> Condition:
    if facts.expires_at is None:
        return Condition(name="not_expired", holds=True, detail="it does not expire")
    if facts.expires_at > facts.now:
        return Condition(name="not_expired", holds=True, detail=f"it expires at {_moment(facts.expires_at)}")
    detail = f"it expired at {_moment(facts.expires_at)} and will end as cancelled, unstarted"
    return Condition(name="not_expired", holds=False, detail=detail)


def _not_paused(what: str, name: str, pause: Held | None) -> Condition:
    if pause is None:
        return Condition(name=f"{what}_not_paused", holds=True, detail=f"{what} {name} is not paused")
    told = "".join([f" by {pause.by}" if pause.by else "", f": {pause.reason}" if pause.reason else ""])
    detail = f"{what} {name} is paused until {_moment(pause.until)}{told}; resume it to go on sooner"
    return Condition(name=f"{what}_not_paused", holds=False, detail=detail, until=pause.until)


def _first_of_its_key(facts: Facts) -> Condition:
    name, key = "first_of_its_key", facts.ordering_key
    if facts.state is not State.PARKED or facts.parked_for is not None:
        return Condition(name=name, holds=True, detail=f"no job comes before it under ordering key {key!r}")
    if facts.blocked_by is not None:
        detail = f"dead job {facts.blocked_by} blocks ordering key {key!r}; requeue or discard that one"
    elif facts.head_id is not None:
        detail = f"job {facts.head_id} ({facts.head_state}) comes first under ordering key {key!r}"
    else:
        detail = f"nothing holds ordering key {key!r}; a keeper lets it out within a second"
    return Condition(name=name, holds=False, detail=detail)


def _not_set_aside(facts: Facts) -> Condition:
    if facts.parked_for is None:
        return Condition(name="not_set_aside", holds=True, detail="it is not set aside")
    detail = f"set aside: {aside.in_words(facts.parked_for)}"
    if aside.is_pause(facts.parked_for):
        detail += "; it is let back within seconds after the pause"
    return Condition(name="not_set_aside", holds=False, detail=detail)


def _gates(facts: Facts, gates: Iterable[Gate]) -> Iterator[Condition]:
    """A suspect runs alone: closed gates hold it back, caps do not."""
    for gate in gates:
        name = f"{GATES.get(gate.name[:1], 'gate')} {gate.circuit or gate.name}"
        if gate.closed_until is not None:
            detail = f"{name} is closed until {_moment(gate.closed_until)}" + (
                f": {gate.reason}" if gate.reason else ""
            )
            yield Condition(name="gate_open", holds=False, detail=detail, until=gate.closed_until)
        if gate.max_running is not None and not facts.is_suspect:
            holds = gate.running < gate.max_running
            detail = f"{name}: {gate.running} of {gate.max_running} jobs are running"
            yield Condition(name="gate_has_room", holds=holds, detail=detail)


def _blocks(alias: str, facts: Facts, queues: Mapping[str, QueueOptions]) -> list[Block] | None:
    """Return the limits that are reached; None where the job has none, or already counts in them."""
    if facts.state is State.LEASED:
        return None
    has_tenant = any(each.startswith(GateKind.TENANT) for each in gates_of(facts.lane))
    cap = facts.tenant_cap if has_tenant else None
    if cap is None:
        cap = (queues.get(facts.queue_name) or QueueOptions()).tenant_max_running
    found = limits.blocked_by(alias, queue_name=facts.queue_name, lane=facts.lane, tenant_cap=cap)
    # Closed gates and their caps have conditions of their own; of these only tenants' caps have no row there.
    found = [each for each in found if each.why not in (limits.Why.CLOSED, limits.Why.CAPPED) or _is_of_tenant(each)]
    return [each for each in found if not (facts.is_suspect and each.why is limits.Why.CAPPED)]


def _is_of_tenant(block: Block) -> bool:
    return block.why is limits.Why.CAPPED and block.gate.startswith(GateKind.TENANT)


def _limits(facts: Facts, blocks: list[Block] | None) -> Iterator[Condition]:
    if blocks is None:
        return
    if not blocks and facts.lane:
        yield Condition(name="within_limits", holds=True, detail="none of its limits is reached")
    for block in blocks:
        yield Condition(name="within_limits", holds=False, detail=_limit(facts, block), until=block.until)


def _limit(facts: Facts, block: Block) -> str:
    if _is_of_tenant(block):
        return f"tenant {facts.tenant_id or block.gate}: {block.running} of {block.most} jobs are running"
    name = f"{GATES.get(block.gate[:1], 'limit')} {block.label}".strip()
    match block.why:
        case limits.Why.PAUSED:
            return f"{name} is paused until {_moment(block.until)}"
        case limits.Why.RATE:
            return f"{name}: no start is left until {_moment(block.until)}"
        case _:
            return f"{name}: {block.running} of {block.most} jobs are running"


def _fleet(facts: Facts, servers: list[Server]) -> Iterator[Condition]:
    serving = [each for each in servers if serves(each.queues, facts.queue_name)]
    detail = f"{len(serving)} of {len(servers)} live workers serve queue {facts.queue_name}"
    yield Condition(name="worker_serves_queue", holds=bool(serving), detail=detail)
    knowing = [each for each in serving if each.knows]
    detail = f"{len(knowing)} of them know task {facts.known_as}"
    yield Condition(name="worker_knows_task", holds=bool(knowing), detail=detail)
    slots, busy = sum(each.slots for each in knowing), sum(min(each.busy, each.slots) for each in knowing)
    yield Condition(name="slot_is_free", holds=busy < slots, detail=f"{busy} of {slots} slots are busy")


def _turn(facts: Facts, ahead: int | None, rate: float) -> Iterator[Condition]:
    if facts.is_suspect and facts.state is State.READY:
        yield Condition(name="its_turn", holds=True, detail="a suspect: it runs alone, in a worker of its own")
    elif ahead is not None:
        many = f"{ahead:,} or more" if ahead == store.MOST_AHEAD else f"{ahead:,}"
        seconds = _seconds(ahead, rate)
        when = f"; expected to start in {durations.in_words(seconds)}" if ahead and seconds is not None else ""
        yield Condition(name="its_turn", holds=not ahead, detail=f"{many} ready jobs come before it{when}")


def _seconds(ahead: int | None, rate: float) -> float | None:
    if not ahead:
        return 0.0
    return ahead / rate if rate else None


def _moment(at: datetime | None) -> str:
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"
