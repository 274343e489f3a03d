"""Circuits: one row each, shared by all workers; and the gates that keep claims away from what waits for them.

    workers report calls ─► row, locked: policy decides ─► its gate, a row of djqueue_lane for all queues:
    workers ask to start ─┘                                 closed until when (none while the circuit is closed)

Invariants: all that changes a circuit holds its row's lock and goes by the database's clock; a gate is closed in the
transaction that opens the circuit; of probes only leases that live are counted, so that none leaks.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from djqueue.circuitconf import CircuitOptions, overridden
from djqueue.exceptions import seconds_of
from djqueue.policy import circuit as policy
from djqueue.policy.circuit import Bucket, Circuit, CircuitState, Report
from djqueue.policy.gates import Gate, gate
from djqueue.policy.texts import check_reason
from djqueue.store import db
from djqueue.store.lease import Lease

REASON_LIMIT = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a worker knows of a circuit."""

    name: str
    gate: str
    circuit: Circuit
    options: CircuitOptions
    """Those in force: the code's, and before them what the row says."""
    now: float
    """The database's clock at that moment."""
    due_seconds: float | None = None
    """In so many seconds something may change: it is half-open, jobs may start, the ramp ends. None: nothing will."""

    @property
    def state(self) -> CircuitState:
        """Where it stands."""
        return self.circuit.state

    @property
    def term(self) -> int:
        """What calls that begin now are counted under."""
        return self.circuit.term


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A circuit as people see it."""

    view: View
    changed_at: datetime
    open_until: datetime | None
    changed_by: str
    overrides: dict[str, Any]
    recent_calls: int
    """Calls within the window."""
    recent_failures: int
    calls: int
    failures: int
    opened: int
    held_back: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    name: str
    gate: str
    circuit: Circuit
    probes: list[Lease]
    overrides: dict[str, Any]
    now: float


Change = Callable[[_Row, CircuitOptions], tuple[Circuit, list[Lease]]]

_COLUMNS = """name, gate, state, term, extract(epoch from changed_at)::float8, extract(epoch from open_until)::float8,
    openings, streak, "window"::text, succeeded, credit, extract(epoch from credited_at)::float8, reason, probes::text,
    overrides::text, extract(epoch from clock_timestamp())::float8"""
LOOK = f"select {_COLUMNS} from djqueue_circuit where name = any(%(names)s::text[]) or state <> 'closed'"
LIST = f"""
select {_COLUMNS}, changed_at, open_until, changed_by, calls, failures, opened, held_back
from djqueue_circuit order by name
"""
# Workers wait for each other here, for the milliseconds that a change takes.
LOCK = f"select {_COLUMNS} from djqueue_circuit where name = %(name)s for no key update"

MAKE = """
insert into djqueue_circuit (name, gate, changed_at, credited_at)
select u.name, u.gate, clock_timestamp(), clock_timestamp()
from unnest(%(names)s::text[], %(gates)s::text[]) u(name, gate) order by u.name
on conflict (name) do nothing
"""
SAVE = """
update djqueue_circuit set state = %(state)s, term = %(term)s, changed_at = to_timestamp(%(changed)s),
    open_until = to_timestamp(%(open_until)s::float8), openings = %(openings)s, streak = %(streak)s,
    "window" = %(window)s::jsonb, succeeded = %(succeeded)s, credit = %(credit)s,
    credited_at = to_timestamp(%(credited)s), reason = %(reason)s, probes = %(probes)s::jsonb,
    opened = opened + %(opened)s, calls = calls + %(calls)s, failures = failures + %(failures)s,
    held_back = held_back + %(held_back)s, changed_by = coalesce(%(by)s::text, changed_by)
where name = %(name)s
"""
OVERRIDE = "update djqueue_circuit set overrides = %(overrides)s::jsonb where name = %(name)s"

# Of the leases that probe, those that live: the job is in the same hands, and they have not let it go. By primary key.
PROBING = """
select j.id, j.lease_token from unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) u(id, token)
join djqueue_job j on j.id = u.id and j.lease_token = u.token and j.lease_until > clock_timestamp()
"""

# A gate that nothing but an event opens is closed until the year 9000: Python can read that, unlike infinity.
SHUT = """
insert into djqueue_lane (queue_name, lane, closed_until, reason)
values ('', %(gate)s, coalesce(to_timestamp(%(until)s::float8), timestamptz '9000-01-01 00:00+00'), %(reason)s)
on conflict (queue_name, lane) do update set closed_until = excluded.closed_until, reason = excluded.reason
"""
UNSHUT = "delete from djqueue_lane where queue_name = '' and lane = %(gate)s"
TELL = "select pg_notify('djqueue', '*')"


def look(alias: str, names: Sequence[str], settings: Mapping[str, CircuitOptions]) -> list[View]:
    """Return what there is to know of these circuits, and of all that are not closed."""
    found = (_row(row) for row in db.rows(alias, LOOK, {"names": list(names)}))
    return [_view(row, row.circuit, len(row.probes), _options(row, settings)) for row in found]


def listed(alias: str, settings: Mapping[str, CircuitOptions]) -> list[Listed]:
    """Return all circuits, by name."""
    return [_listed(row, settings) for row in db.rows(alias, LIST)]


def make(alias: str, names: Sequence[str]) -> None:
    """Make rows, closed circuits, for the names that have none."""
    gates = [gate(Gate.CIRCUIT, name) for name in names]
    db.rows(alias, MAKE, {"names": list(names), "gates": gates})


def refresh(alias: str, name: str, settings: Mapping[str, CircuitOptions]) -> View | None:
    """Let time pass for a circuit, and forget probes whose leases have ended; None where there is none."""
    return _change(alias, name, settings, _tick)


def report(
    alias: str, name: str, reports: Sequence[Report], settings: Mapping[str, CircuitOptions], held_back: int = 0
) -> View | None:
    """Count calls that have ended, and jobs that were given back unstarted."""

    def count(row: _Row, options: CircuitOptions) -> tuple[Circuit, list[Lease]]:
        circuit = row.circuit
        for each in sorted(reports, key=lambda each: each.term):
            circuit = policy.count(circuit, each, row.now, options)
        return policy.tick(circuit, row.now, options), row.probes

    calls = sum(each.successes + each.failures for each in reports)
    failures = sum(each.failures for each in reports)
    return _change(alias, name, settings, count, counted=(calls, failures, held_back))


def admit(
    alias: str, name: str, wanted: Sequence[Lease], settings: Mapping[str, CircuitOptions]
) -> tuple[int, View | None]:
    """Return how many of these claimed jobs, the first ones, may be started now; the others must be given back."""
    allowed = 0

    def choose(row: _Row, options: CircuitOptions) -> tuple[Circuit, list[Lease]]:
        nonlocal allowed
        allowed, circuit = policy.admit(row.circuit, len(wanted), len(row.probes), row.now, options)
        probes = row.probes if circuit.term == row.circuit.term else []
        return circuit, [*probes, *wanted[:allowed]] if circuit.state is CircuitState.HALF_OPEN else []

    view = _change(alias, name, settings, choose)
    return allowed if view is not None else len(wanted), view


def force_open(
    alias: str, name: str, settings: Mapping[str, CircuitOptions], *, seconds: float | None, reason: str, by: str = ""
) -> View | None:
    """Open a circuit by hand: for so many seconds, after which it probes, or (None) until somebody closes it.

    Raises `ValueError` for seconds beyond ten years and words that can't be stored.
    """
    for what, words in (("reason", reason), ("by", by)):
        check_reason(f"force_open: {what}", words)
    length = None if seconds is None else seconds_of(seconds, "force_open: seconds")

    def act(row: _Row, options: CircuitOptions) -> tuple[Circuit, list[Lease]]:
        until = None if length is None else row.now + length
        return policy.forced_open(row.circuit, until, reason[:REASON_LIMIT], row.now), []

    return _change(alias, name, settings, act, by=by)


def close(alias: str, name: str, settings: Mapping[str, CircuitOptions], *, by: str = "") -> View | None:
    """Close a circuit without probes; what waits is released at the ramp."""
    return _change(
        alias, name, settings, lambda row, options: (policy.closed_by_hand(row.circuit, row.now, options), []), by=by
    )


def reset(alias: str, name: str, settings: Mapping[str, CircuitOptions], *, by: str = "") -> View | None:
    """Close a circuit at once, without probes and ramp, and forget what was counted."""
    return _change(alias, name, settings, lambda row, options: (policy.reset(row.circuit, row.now), []), by=by)


def override(alias: str, name: str, overrides: Mapping[str, Any]) -> None:
    """Let a circuit's row go before the settings of the code."""
    db.rows(alias, OVERRIDE, {"name": name, "overrides": json.dumps(dict(overrides))})


def _tick(row: _Row, options: CircuitOptions) -> tuple[Circuit, list[Lease]]:
    return policy.tick(row.circuit, row.now, options), row.probes


def _change(
    alias: str,
    name: str,
    settings: Mapping[str, CircuitOptions],
    change: Change,
    *,
    by: str | None = None,
    counted: tuple[int, int, int] = (0, 0, 0),
) -> View | None:
    """Lock the row, change it, and set its gate accordingly; write nothing where nothing is new."""
    with db.one_transaction(alias):
        found = db.rows(alias, LOCK, {"name": name})
        if not found:
            return None
        written = _row(found[0])
        before = replace(written, probes=_living(alias, written.probes))
        options = _options(before, settings)
        circuit, probes = change(before, options)
        if circuit.state is not CircuitState.HALF_OPEN:
            probes = []
        is_new = circuit != before.circuit or probes != written.probes
        if is_new or any(counted) or by is not None:
            db.rows(alias, SAVE, _values(before, circuit, probes, by, counted))
        if is_new:
            _set_gate(alias, before, circuit, len(probes), options)
    return _view(before, circuit, len(probes), options)


def _living(alias: str, probes: Sequence[Lease]) -> list[Lease]:
    if not probes:
        return []
    params = {"ids": [lease.id for lease in probes], "tokens": [lease.lease_token for lease in probes]}
    return [Lease(*row) for row in db.rows(alias, PROBING, params)]


def _set_gate(alias: str, row: _Row, circuit: Circuit, probing: int, options: CircuitOptions) -> None:
    if circuit.state is CircuitState.CLOSED:
        db.rows(alias, UNSHUT, {"gate": row.gate})
    else:
        until = policy.next_start_at(circuit, probing, row.now, options)
        reason = f"circuit {row.name} is {circuit.state.replace('_', '-')}: {circuit.reason}"
        db.rows(alias, SHUT, {"gate": row.gate, "until": until, "reason": reason})
    if circuit.state is not row.circuit.state and circuit.state is not CircuitState.OPEN:
        db.rows(alias, TELL)


def _options(row: _Row, settings: Mapping[str, CircuitOptions]) -> CircuitOptions:
    return overridden(settings.get(row.name) or CircuitOptions(), row.overrides)


def _view(row: _Row, circuit: Circuit, probing: int, options: CircuitOptions) -> View:
    moments = [policy.next_start_at(circuit, probing, row.now, options), circuit.open_until]
    moments += [circuit.changed_at + options.ramp_seconds] if circuit.state is CircuitState.RAMP else []
    due = [each - row.now for each in moments if each is not None]
    return View(
        name=row.name,
        gate=row.gate,
        circuit=circuit,
        options=options,
        now=row.now,
        due_seconds=None if circuit.state is CircuitState.CLOSED or not due else max(0.0, min(due)),
    )


def _listed(row: db.Row, settings: Mapping[str, CircuitOptions]) -> Listed:
    changed_at, open_until, changed_by, calls, failures, opened, held_back = row[-7:]
    found = _row(row[:-7])
    options = _options(found, settings)
    recent_calls, recent_failures = policy.calls_and_failures(found.circuit, found.now, options)
    return Listed(
        view=_view(found, found.circuit, len(found.probes), options),
        changed_at=changed_at,
        open_until=open_until,
        changed_by=changed_by,
        overrides=found.overrides,
        recent_calls=recent_calls,
        recent_failures=recent_failures,
        calls=calls,
        failures=failures,
        opened=opened,
        held_back=held_back,
    )


def _values(
    row: _Row, circuit: Circuit, probes: Sequence[Lease], by: str | None, counted: tuple[int, int, int]
) -> dict[str, Any]:
    calls, failures, held_back = counted
    has_opened = circuit.state is CircuitState.OPEN and circuit.term != row.circuit.term
    if by is None and circuit.state is not row.circuit.state:
        by = ""
    return {
        "name": row.name,
        "state": str(circuit.state),
        "term": circuit.term,
        "changed": circuit.changed_at,
        "open_until": circuit.open_until,
        "openings": circuit.openings,
        "streak": circuit.streak,
        "window": json.dumps(circuit.window),
        "succeeded": circuit.succeeded,
        "credit": circuit.credit,
        "credited": circuit.credited_at,
        "reason": circuit.reason,
        "probes": json.dumps([[str(lease.id), lease.lease_token] for lease in probes]),
        "opened": int(has_opened),
        "calls": calls,
        "failures": failures,
        "held_back": held_back,
        "by": by,
    }


def _row(row: db.Row) -> _Row:
    name, gate_, state, term, changed, open_until, openings, streak, window, succeeded, credit, credited = row[:12]
    reason, probes, overrides, now = row[12:]
    return _Row(
        name=name,
        gate=gate_,
        circuit=Circuit(
            state=CircuitState(state),
            term=term,
            changed_at=changed,
            open_until=open_until,
            openings=openings,
            streak=streak,
            window=tuple(Bucket(*bucket) for bucket in json.loads(window)),
            succeeded=succeeded,
            credit=credit,
            credited_at=credited,
            reason=reason,
        ),
        probes=[Lease(UUID(id_), token) for id_, token in json.loads(probes)],
        overrides=json.loads(overrides),
        now=max(now, changed, credited),  # the clock was read before the lock was there
    )
