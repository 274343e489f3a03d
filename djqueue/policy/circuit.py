"""When calls to a dependency are let through: the circuit breaker as pure functions over one value.

                 too many failures                     open_seconds, then twice as long each time
       closed ───────────────────────► open ──────────────────────────────────────► half-open
         ▲                              ▲ ▲                                          │  │
         │ ramp_seconds                 │ └────────────── a probe failed ────────────┘  │ enough probes succeeded
         │                              │ too many failures                             │
         └───────────────────────────  ramp ◄───────────────────────────────────────────┘

    closed     all jobs start            half-open   only `probes` jobs at a time, in the whole fleet
    open       none starts               ramp        at a rate that begins low and doubles again and again

Moments are seconds since the epoch on one clock, the database's. Invariant: what was learnt of calls that began before
the last opening, or before the probes, changes nothing: each report carries the term in which its calls began.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, assert_never

from djqueue.circuitconf import CircuitOptions

BUCKETS = 10
"""The window slides in so many steps."""

BURST_SECONDS = 0.1
"""A ramp lets at most so many seconds' worth of its rate start at once (one job at the least)."""

MOST_DOUBLINGS = 40


class CircuitState(StrEnum):
    """Where a circuit stands."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    RAMP = "ramp"


class Bucket(NamedTuple):
    """Calls of one step of the window."""

    start: float
    calls: int
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Calls that have ended, all of one term."""

    term: int
    successes: int = 0
    failures: int = 0
    streak: int = 0
    """Failures since the last success among them (all failures, where none succeeded)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """All that is known of a circuit."""

    state: CircuitState = CircuitState.CLOSED
    term: int = 0
    """One more with each opening, and with each time that probes begin."""
    changed_at: float = 0
    open_until: float | None = None
    """When it becomes half-open by itself; None while it is open: when somebody says so."""
    openings: int = 0
    """How often it has opened since it was last closed for good."""
    streak: int = 0
    window: tuple[Bucket, ...] = ()
    succeeded: int = 0
    """Probes that did."""
    credit: float = 0
    credited_at: float = 0
    reason: str = ""
    """Why it is open, or was the last time."""


def count(circuit: Circuit, report: Report, now: float, options: CircuitOptions) -> Circuit:
    """Take in how calls went."""
    circuit = tick(circuit, now, options)
    if report.term != circuit.term or not (report.successes or report.failures):
        return circuit
    match circuit.state:
        case CircuitState.OPEN:
            return circuit
        case CircuitState.HALF_OPEN:
            return _probed(circuit, report, now, options)
        case CircuitState.CLOSED | CircuitState.RAMP:
            counted = _counted(circuit, report, now, options)
            reason = _too_many(counted, options)
            return _opened(counted, now, options, reason) if reason else counted
        case _ as never:
            assert_never(never)


def tick(circuit: Circuit, now: float, options: CircuitOptions) -> Circuit:
    """Let time pass: an open circuit becomes half-open, a ramp ends."""
    if circuit.state is CircuitState.OPEN and circuit.open_until is not None and now >= circuit.open_until:
        half_open = CircuitState.HALF_OPEN
        return replace(circuit, state=half_open, term=circuit.term + 1, changed_at=now, open_until=None, succeeded=0)
    if circuit.state is CircuitState.RAMP and now >= circuit.changed_at + options.ramp_seconds:
        return replace(circuit, state=CircuitState.CLOSED, changed_at=now, openings=0)
    return circuit


def admit(circuit: Circuit, wanted: int, probing: int, now: float, options: CircuitOptions) -> tuple[int, Circuit]:
    """Return how many of `wanted` jobs may start now while `probing` probes run, and the circuit after that."""
    circuit = tick(circuit, now, options)
    match circuit.state:
        case CircuitState.CLOSED:
            return wanted, circuit
        case CircuitState.OPEN:
            return 0, circuit
        case CircuitState.HALF_OPEN:
            return max(0, min(wanted, options.probes - probing)), circuit
        case CircuitState.RAMP:
            credited = _credited(circuit, now, options)
            allowed = max(0, min(wanted, int(credited.credit)))
            return allowed, replace(credited, credit=credited.credit - allowed)
        case _ as never:
            assert_never(never)


def next_start_at(circuit: Circuit, probing: int, now: float, options: CircuitOptions) -> float | None:
    """Return from when on jobs may start again; None where that depends on something else than time."""
    match circuit.state:
        case CircuitState.CLOSED:
            return now
        case CircuitState.OPEN:
            return None
        case CircuitState.HALF_OPEN:
            return now if probing < options.probes else None
        case CircuitState.RAMP:
            rate = ramp_rate(circuit, now, options)
            missing = _burst(rate) - _credited(circuit, now, options).credit
            return now + max(0.0, missing) / rate
        case _ as never:
            assert_never(never)


def ramp_rate(circuit: Circuit, now: float, options: CircuitOptions) -> float:
    """Return the starts per second that a ramp allows now."""
    doublings = _doublings(now - circuit.changed_at, options)
    return float(options.ramp_per_second * 2**doublings)


def forced_open(circuit: Circuit, until: float | None, reason: str, now: float) -> Circuit:
    """Open it by hand: until a moment, when probes begin, or (None) until somebody closes it."""
    return replace(
        circuit,
        state=CircuitState.OPEN,
        term=circuit.term + 1,
        changed_at=now,
        open_until=until,
        window=(),
        streak=0,
        succeeded=0,
        reason=reason,
    )


def closed_by_hand(circuit: Circuit, now: float, options: CircuitOptions) -> Circuit:
    """Close it without probes; what waits is released at the ramp."""
    return circuit if circuit.state in (CircuitState.CLOSED, CircuitState.RAMP) else _ramping(circuit, now, options)


def reset(circuit: Circuit, now: float) -> Circuit:
    """Close it at once, without probes and ramp, and forget what was counted."""
    return Circuit(term=circuit.term + 1, changed_at=now)


def calls_and_failures(circuit: Circuit, now: float, options: CircuitOptions) -> tuple[int, int]:
    """Return how many calls of the window there are, and how many of them failed."""
    window = _recent(circuit.window, now, options)
    return sum(bucket.calls for bucket in window), sum(bucket.failures for bucket in window)


def _probed(circuit: Circuit, report: Report, now: float, options: CircuitOptions) -> Circuit:
    if report.failures:
        return _opened(circuit, now, options, "a probe failed")
    succeeded = circuit.succeeded + report.successes
    circuit = replace(circuit, succeeded=succeeded)
    return _ramping(circuit, now, options) if succeeded >= options.probes else circuit


def _ramping(circuit: Circuit, now: float, options: CircuitOptions) -> Circuit:
    """Begin the ramp (of no length: closed at once), with nothing counted and room for one start."""
    ramp = replace(
        circuit,
        state=CircuitState.RAMP,
        changed_at=now,
        open_until=None,
        streak=0,
        window=(),
        credit=1.0,
        credited_at=now,
    )
    return tick(ramp, now, options)


def _opened(circuit: Circuit, now: float, options: CircuitOptions, reason: str) -> Circuit:
    openings = circuit.openings + 1
    seconds = min(options.max_open_seconds, options.open_seconds * 2 ** min(openings - 1, MOST_DOUBLINGS))
    return replace(forced_open(circuit, now + seconds, reason, now), openings=openings)


def _counted(circuit: Circuit, report: Report, now: float, options: CircuitOptions) -> Circuit:
    step = options.window_seconds / BUCKETS
    start = now // step * step
    window = list(_recent(circuit.window, now, options))
    calls, failures = report.successes + report.failures, report.failures
    if window and window[-1].start >= start:
        last = window.pop()
        window.append(Bucket(last.start, last.calls + calls, last.failures + failures))
    else:
        window.append(Bucket(start, calls, failures))
    streak = report.streak if report.successes else circuit.streak + report.failures
    return replace(circuit, window=tuple(window), streak=streak)


def _recent(window: tuple[Bucket, ...], now: float, options: CircuitOptions) -> tuple[Bucket, ...]:
    """The buckets that touch the window, at most one step longer than asked for."""
    oldest = now - options.window_seconds - options.window_seconds / BUCKETS
    return tuple(bucket for bucket in window if bucket.start > oldest)[-BUCKETS - 1 :]


def _too_many(circuit: Circuit, options: CircuitOptions) -> str:
    """Say why it must open, or nothing."""
    calls = sum(bucket.calls for bucket in circuit.window)
    failures = sum(bucket.failures for bucket in circuit.window)
    if calls >= options.min_calls and failures >= options.failure_ratio * calls:
        return f"{failures:,} of {calls:,} calls failed within {options.window_seconds:g} s"
    if options.consecutive_failures and circuit.streak >= options.consecutive_failures:
        return f"{circuit.streak:,} calls in a row failed"
    return ""


def _credited(circuit: Circuit, now: float, options: CircuitOptions) -> Circuit:
    """Add what the rate has allowed since the last look, across its doublings, up to a burst."""
    earned = _earned(now - circuit.changed_at, options) - _earned(circuit.credited_at - circuit.changed_at, options)
    most = _burst(ramp_rate(circuit, now, options))
    return replace(circuit, credit=min(most, circuit.credit + max(0.0, earned)), credited_at=now)


def _earned(seconds: float, options: CircuitOptions) -> float:
    """Return all starts that a ramp allows in its first seconds."""
    doublings = _doublings(seconds, options)
    steps = options.ramp_per_second * options.ramp_double_seconds * (2**doublings - 1)
    rest = max(0.0, seconds) - doublings * options.ramp_double_seconds
    return float(steps + options.ramp_per_second * 2**doublings * rest)


def _doublings(seconds: float, options: CircuitOptions) -> int:
    return max(0, min(MOST_DOUBLINGS, int(seconds / options.ramp_double_seconds)))


def _burst(rate: float) -> float:
    return max(1.0, rate * BURST_SECONDS)
