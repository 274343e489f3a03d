"""The circuit breaker: when it opens, how it probes, and that a ramp is never passed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from djqueue.circuitconf import CircuitOptions
from djqueue.policy import circuit as policy
from djqueue.policy.circuit import BUCKETS, BURST_SECONDS, Circuit, CircuitState, Report

OPTIONS = CircuitOptions(
    failure_ratio=0.5,
    min_calls=10,
    window_seconds=10,
    consecutive_failures=5,
    open_seconds=10,
    max_open_seconds=60,
    probes=3,
    ramp_per_second=2,
    ramp_double_seconds=5,
    ramp_seconds=20,
)
ONLY_RATIO = replace(OPTIONS, consecutive_failures=0)


def ok(number: int = 1, term: int = 0) -> Report:
    return Report(term=term, successes=number)


def bad(number: int = 1, term: int = 0) -> Report:
    return Report(term=term, failures=number, streak=number)


def after(
    *reports: Report, circuit: Circuit | None = None, at: float = 1000, options: CircuitOptions = OPTIONS
) -> Circuit:
    found = circuit or Circuit()
    for report in reports:
        found = policy.count(found, report, at, options)
    return found


def half_open(options: CircuitOptions = OPTIONS) -> Circuit:
    opened = after(bad(5), options=options)
    assert opened.open_until is not None
    return policy.tick(opened, opened.open_until, options)


def ramping(options: CircuitOptions = OPTIONS) -> Circuit:
    probing = half_open(options)
    return after(ok(3, probing.term), circuit=probing, at=probing.changed_at, options=options)


def test_failures_in_a_row_open_it_and_a_success_between_them_begins_anew() -> None:
    assert after(bad(4)).state is CircuitState.CLOSED
    assert after(bad(4), ok(), bad(4)).state is CircuitState.CLOSED
    opened = after(bad(4), bad())

    assert (opened.state, opened.reason, opened.open_until) == ("open", "5 calls in a row failed", 1010)


def test_failures_after_the_last_success_of_a_report_are_the_row() -> None:
    mixed = Report(term=0, successes=1, failures=3, streak=1)

    assert after(bad(3), mixed).streak == 1
    assert after(mixed, bad(4)).state is CircuitState.OPEN


def test_a_ratio_needs_a_minimum_of_calls() -> None:
    assert after(bad(4), ok(4), bad(1), options=ONLY_RATIO).state is CircuitState.CLOSED
    opened = after(bad(4), ok(4), bad(1), ok(1), options=ONLY_RATIO)

    assert (opened.state, opened.reason) == ("open", "5 of 10 calls failed within 10 s")
    assert after(bad(4), ok(6), options=ONLY_RATIO).state is CircuitState.CLOSED


def test_what_is_older_than_the_window_does_not_count() -> None:
    old = after(bad(9), options=ONLY_RATIO)

    assert after(bad(1), circuit=old, at=1009, options=ONLY_RATIO).state is CircuitState.OPEN
    assert after(bad(1), circuit=old, at=1012, options=ONLY_RATIO).state is CircuitState.CLOSED


def test_an_open_circuit_lets_nothing_start_and_becomes_half_open_in_time() -> None:
    opened = after(bad(5))

    assert policy.admit(opened, 10, 0, 1009.9, OPTIONS)[0] == 0
    allowed, probing = policy.admit(opened, 10, 0, 1010, OPTIONS)
    assert (allowed, probing.state) == (3, CircuitState.HALF_OPEN)


def test_no_more_probes_run_at_once_than_there_may() -> None:
    probing = half_open()

    assert [policy.admit(probing, 10, running, 1011, OPTIONS)[0] for running in range(5)] == [3, 2, 1, 0, 0]
    assert policy.next_start_at(probing, 2, 1011, OPTIONS) == 1011
    assert policy.next_start_at(probing, 3, 1011, OPTIONS) is None


def test_a_probe_that_fails_opens_it_for_twice_as_long_up_to_the_limit() -> None:
    circuit, waits = after(bad(5)), []
    for _ in range(5):
        assert circuit.open_until is not None
        waits.append(circuit.open_until - circuit.changed_at)
        circuit = policy.tick(circuit, circuit.open_until, OPTIONS)
        circuit = after(bad(1, circuit.term), circuit=circuit, at=circuit.changed_at)

    assert waits == [10, 20, 40, 60, 60]


def test_enough_probes_close_it_at_a_ramp_and_then_for_good() -> None:
    probing = half_open()
    two = after(ok(2, probing.term), circuit=probing, at=1011)
    ramp = after(ok(1, probing.term), circuit=two, at=1012)

    assert (two.state, ramp.state) == (CircuitState.HALF_OPEN, CircuitState.RAMP)
    assert policy.tick(ramp, 1031.9, OPTIONS).state is CircuitState.RAMP
    closed = policy.tick(ramp, 1032, OPTIONS)
    assert (closed.state, closed.openings) == (CircuitState.CLOSED, 0)
    assert policy.admit(closed, 7, 0, 1033, OPTIONS)[0] == 7


def test_failures_in_the_ramp_open_it_again_for_longer() -> None:
    ramp = ramping()
    opened = after(bad(5, ramp.term), circuit=ramp, at=1011)

    assert (opened.state, opened.openings, opened.open_until) == (CircuitState.OPEN, 2, 1031)


def test_without_a_ramp_it_is_closed_when_the_probes_have_succeeded() -> None:
    assert ramping(replace(OPTIONS, ramp_seconds=0)).state is CircuitState.CLOSED


def test_calls_that_began_before_the_opening_or_the_probes_change_nothing() -> None:
    probing = half_open()

    assert after(bad(9, 0), bad(9, probing.term - 1), ok(9, 0), circuit=probing, at=1011) == probing
    ramp = ramping()
    assert after(bad(9, ramp.term - 1), circuit=ramp, at=1011) == ramp


def test_by_hand_it_stays_open_until_the_moment_or_until_somebody_closes_it() -> None:
    forced = policy.forced_open(Circuit(), None, "they are moving", 1000)
    timed = policy.forced_open(Circuit(), 2000, "they are moving", 1000)

    assert policy.tick(forced, 9e9, OPTIONS) == forced
    assert policy.tick(timed, 1999, OPTIONS) == timed
    assert policy.tick(timed, 2000, OPTIONS).state is CircuitState.HALF_OPEN
    assert policy.closed_by_hand(forced, 3000, OPTIONS).state is CircuitState.RAMP
    assert policy.reset(forced, 3000).state is CircuitState.CLOSED
    assert policy.reset(forced, 3000).term > forced.term


def test_the_rate_of_a_ramp_doubles() -> None:
    ramp = ramping()
    begin = ramp.changed_at

    assert [policy.ramp_rate(ramp, begin + at, OPTIONS) for at in (0, 4.9, 5, 10, 15)] == [2, 2, 4, 8, 16]


def test_a_ramp_says_when_the_next_may_start() -> None:
    ramp = ramping()
    begin = ramp.changed_at

    assert policy.next_start_at(ramp, 0, begin, OPTIONS) == begin
    _, spent = policy.admit(ramp, 5, 0, begin, OPTIONS)
    assert policy.next_start_at(spent, 0, begin, OPTIONS) == pytest.approx(begin + 0.5)


def test_the_window_stays_small() -> None:
    circuit = Circuit()
    for moment in range(300):
        circuit = policy.count(circuit, ok(), 1000 + moment / 7, OPTIONS)

    assert len(circuit.window) <= BUCKETS + 1


looks = st.lists(st.tuples(st.floats(0, 3), st.integers(0, 200)), max_size=60)


@given(looks, st.floats(0.1, 500), st.floats(0.5, 10))
def test_in_no_stretch_of_a_ramp_do_more_start_than_the_rate_and_a_burst_allow(
    looks: list[tuple[float, int]], rate: float, double: float
) -> None:
    options = replace(OPTIONS, ramp_per_second=rate, ramp_double_seconds=double, ramp_seconds=1_000)
    circuit = ramping(options)
    now, starts = circuit.changed_at, []
    for pause, wanted in looks:
        now += pause
        allowed, circuit = policy.admit(circuit, wanted, 0, now, options)
        starts.append((now, allowed))

    for first in range(len(starts)):
        for last in range(first, len(starts)):
            begin, end = starts[first][0], starts[last][0]
            top = policy.ramp_rate(circuit, end, options)
            allowed = sum(count for _, count in starts[first : last + 1])
            assert allowed <= top * (end - begin) + max(1.0, top * BURST_SECONDS) + 1e-6


events = st.lists(st.tuples(st.floats(0, 20), st.integers(0, 3), st.integers(0, 6), st.integers(-1, 0)), max_size=40)


@given(events)
def test_whatever_happens_the_term_grows_and_only_closed_circuits_let_all_through(
    events: list[tuple[float, int, int, int]],
) -> None:
    circuit, now = Circuit(), 1000.0
    for pause, successes, failures, lag in events:
        now += pause
        before = circuit.term
        report = Report(term=circuit.term + lag, successes=successes, failures=failures, streak=failures)
        circuit = policy.count(circuit, report, now, OPTIONS)
        allowed, circuit = policy.admit(circuit, 1_000, 0, now, OPTIONS)
        assert circuit.term >= before
        assert (allowed == 1_000) is (circuit.state is CircuitState.CLOSED)
        assert (circuit.open_until is not None) is (circuit.state is CircuitState.OPEN)
