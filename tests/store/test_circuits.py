"""Circuits in the database: one row for all workers, gates in front of the claim, leases that probe."""

from dataclasses import replace
from typing import Any

import pytest

from djqueue.circuitconf import CircuitOptions
from djqueue.policy.circuit import CircuitState, Report
from djqueue.policy.gates import Gate, gate
from djqueue.store import circuits, claim, db, lease
from djqueue.store import step as walks
from djqueue.store.circuits import View
from djqueue.store.claim import Claimed
from djqueue.store.step import Walk
from tests.store.factories import ALIAS, Party, ack, add, bend, count, lease_of, parties, request, row, told

NAME = "stripe"
GATE = gate(Gate.CIRCUIT, NAME)
OPTIONS = CircuitOptions(min_calls=4, consecutive_failures=3, open_seconds=10, probes=2, ramp_per_second=5)
SETTINGS = {NAME: OPTIONS}
INSTANT = {NAME: replace(OPTIONS, ramp_seconds=0)}


def meet() -> None:
    circuits.make(ALIAS, [NAME])


def report(settings: Any = SETTINGS, **fields: Any) -> View:
    found = circuits.report(ALIAS, NAME, [Report(**{"term": term(), **fields})], settings)
    assert found is not None
    return found


def fail_three() -> View:
    return report(failures=3, streak=3)


def circuit(columns: str = "state") -> Any:
    found = db.rows(ALIAS, f"select {columns} from djqueue_circuit where name = '{NAME}'")
    return None if not found else found[0][0] if len(found[0]) == 1 else found[0]


def term() -> int:
    return int(circuit("term"))


def let_time_pass(seconds: float) -> None:
    """Move all of the circuit's moments, and its gates', into the past."""
    db.rows(
        ALIAS,
        "update djqueue_circuit set changed_at = changed_at - make_interval(secs => %(s)s), "
        "open_until = open_until - make_interval(secs => %(s)s), "
        "credited_at = credited_at - make_interval(secs => %(s)s)",
        {"s": seconds},
    )
    db.rows(ALIAS, "update djqueue_lane set closed_until = closed_until - make_interval(secs => %(s)s)", {"s": seconds})


def step(limit: int = 10, queue: str = "q") -> list[Claimed]:
    return walks.step(ALIAS, request(limit), Walk(queue_name=queue, per_lane=limit)).jobs


def admit(jobs: list[Claimed], settings: Any = SETTINGS) -> int:
    """Ask to start them; give back what may not, as a worker does. Return how many may."""
    allowed, _ = circuits.admit(ALIAS, NAME, [lease_of(job) for job in jobs], settings)
    lease.release(ALIAS, [lease_of(job) for job in jobs[allowed:]])
    return allowed


def half_open() -> None:
    meet()
    fail_three()
    let_time_pass(11)
    circuits.refresh(ALIAS, NAME, SETTINGS)
    assert circuit() == "half_open"


def test_a_circuit_is_made_once_and_closed(store: str) -> None:
    meet()
    fail_three()
    meet()

    assert circuit("state, gate") == ("open", GATE)
    circuits.make(ALIAS, ["paypal", NAME])
    assert db.rows(ALIAS, "select name, state from djqueue_circuit order by 1") == [
        ("paypal", "closed"),
        (NAME, "open"),
    ]


def test_reports_of_several_workers_add_up_and_open_it(store: str) -> None:
    meet()
    report(failures=2, streak=2)
    view = report(failures=1, streak=1)

    assert (view.state, view.term) == (CircuitState.OPEN, 1)
    assert circuit("state, reason, calls, failures, opened") == ("open", "3 calls in a row failed", 3, 3, 1)


def test_jobs_of_an_open_circuit_are_not_claimed_nor_charged(store: str) -> None:
    meet()
    [held_back] = add(lane=GATE)
    [deeper] = add(lane=f"{GATE}:k0123456789abcdef")
    [other] = add()
    fail_three()

    assert [job.id for job in step()] == [other]
    assert row(held_back, "state, attempts") == row(deeper, "state, attempts") == ("ready", 0)


def test_nor_are_suspects_of_an_open_circuit(store: str) -> None:
    meet()
    add(lane=GATE)
    bend("suspect = true")
    assert claim.suspects_wait(ALIAS)
    fail_three()

    assert claim.claim_suspect(ALIAS, request(), ["q"]) == []
    assert not claim.suspects_wait(ALIAS), "no worker is started for them"
    circuits.reset(ALIAS, NAME, SETTINGS)
    assert len(claim.claim_suspect(ALIAS, request(), ["q"])) == 1


def test_its_gate_is_closed_in_every_queue(store: str) -> None:
    meet()
    fail_three()
    add(lane=GATE, queue_name="of another time")

    assert step(queue="of another time") == []


def test_calls_of_an_earlier_term_change_nothing(store: str) -> None:
    half_open()
    report(term=0, failures=9, streak=9)

    assert circuit() == "half_open"
    assert circuit("failures") == 12


def test_after_its_time_it_is_half_open_and_lets_a_few_leases_probe(store: str) -> None:
    half_open()
    add(5, lane=GATE)

    assert admit(step()) == 2
    assert step() == [], "the gate is closed while all probes run"
    assert count("job", "attempts > 0") == 2


def test_a_probe_s_place_is_free_again_when_its_lease_has_ended(store: str) -> None:
    half_open()
    add(5, lane=GATE)
    probes = step(2)
    assert admit(probes) == 2

    ack(probes[0])
    bend("lease_until = clock_timestamp() - interval '1 s'", probes[1].id)
    circuits.refresh(ALIAS, NAME, SETTINGS)

    assert admit(step()) == 2
    assert circuit("jsonb_array_length(probes)") == 2


def test_a_probe_that_fails_opens_it_again_and_its_gate_is_closed(store: str) -> None:
    half_open()
    add(2, lane=GATE)
    [probe] = step(1)
    assert admit([probe]) == 1

    view = report(failures=1, streak=1)

    assert (view.state, view.circuit.openings) == (CircuitState.OPEN, 2)
    assert view.due_seconds == pytest.approx(20, abs=0.1)
    assert step() == []


def test_probes_that_succeed_begin_a_ramp_whose_starts_are_counted_in_the_row(store: str) -> None:
    half_open()
    assert report(successes=2).state is CircuitState.RAMP
    add(20, lane=GATE)

    assert admit(step()) == 1
    assert step() == [], "until the next start is due"
    let_time_pass(0.2)
    circuits.refresh(ALIAS, NAME, SETTINGS)
    assert admit(step()) == 1


def test_the_gate_is_gone_when_the_ramp_has_ended(store: str) -> None:
    half_open()
    report(successes=2)
    let_time_pass(61)

    view = circuits.refresh(ALIAS, NAME, SETTINGS)

    assert view is not None
    assert (view.state, view.due_seconds) == (CircuitState.CLOSED, None)
    assert count("lane") == 0


def test_by_hand_it_is_opened_for_a_time_or_for_ever_closed_and_reset(store: str) -> None:
    meet()
    add(lane=GATE)

    circuits.force_open(ALIAS, NAME, SETTINGS, seconds=None, reason="they are moving", by="ada")
    let_time_pass(1_000_000)
    circuits.refresh(ALIAS, NAME, SETTINGS)
    assert circuit("state, reason, changed_by, open_until") == ("open", "they are moving", "ada", None)
    assert step() == []

    circuits.close(ALIAS, NAME, SETTINGS, by="bob")
    assert circuit("state, changed_by") == ("ramp", "bob")
    circuits.force_open(ALIAS, NAME, SETTINGS, seconds=60, reason="again", by="ada")
    let_time_pass(61)
    circuits.refresh(ALIAS, NAME, SETTINGS)
    assert circuit("state, changed_by") == ("half_open", "")

    circuits.reset(ALIAS, NAME, SETTINGS, by="ada")
    assert circuit("state, openings, reason") == ("closed", 0, "")
    assert len(step()) == 1


def test_a_row_s_settings_go_before_those_of_the_code(store: str) -> None:
    meet()
    circuits.override(ALIAS, NAME, {"consecutive_failures": 2, "probes": "many"})

    view = report(failures=2, streak=2)

    assert view.state is CircuitState.OPEN
    assert (view.options.consecutive_failures, view.options.probes) == (2, OPTIONS.probes)


def test_a_look_finds_what_was_asked_for_and_all_that_are_not_closed(store: str) -> None:
    meet()
    circuits.make(ALIAS, ["paypal"])
    assert [view.name for view in circuits.look(ALIAS, ["paypal"], {})] == ["paypal"]

    fail_three()

    assert {view.name for view in circuits.look(ALIAS, [], {})} == {NAME}


def test_what_nothing_has_changed_about_is_not_written_again(store: str) -> None:
    half_open()
    before = db.rows(ALIAS, "select xmin, cmin, ctid from djqueue_circuit")

    circuits.refresh(ALIAS, NAME, SETTINGS)

    assert db.rows(ALIAS, "select xmin, cmin, ctid from djqueue_circuit") == before


def test_workers_are_told_when_jobs_may_start_again(listener: Any) -> None:
    meet()
    fail_three()
    assert told(listener) == []
    let_time_pass(11)

    circuits.refresh(ALIAS, NAME, SETTINGS)

    assert told(listener) == ["*"]


def test_of_two_workers_that_ask_at_once_no_more_may_start_than_there_are_places(committed: None) -> None:
    """The second waits for the first one's lock, and then sees its probes."""
    half_open()
    add(4, lane=GATE)
    first, second = step(2), step(2)
    assert len(first) == len(second) == 2
    with parties(2) as (one, other):
        _ask_in_a_transaction(one, first)
        late = other.start(circuits.admit, ALIAS, NAME, [lease_of(job) for job in second], SETTINGS)
        other.wait_until_blocked()
        one.commit()

        assert late.result(timeout=20)[0] == 0


def _ask_in_a_transaction(party: Party, jobs: list[Claimed]) -> None:
    party.begin()
    assert party.do(circuits.admit, ALIAS, NAME, [lease_of(job) for job in jobs], SETTINGS)[0] == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"seconds": 1e300}, "force_open: seconds: expected between 0 and 315,360,000"),
        ({"seconds": -1}, "force_open: seconds: expected between 0"),
        ({"reason": "a\0"}, "force_open: reason: expected text without NUL"),
        ({"by": "\ud800"}, "force_open: by: expected valid Unicode"),
    ],
)
def test_opening_by_hand_refuses_what_can_not_be_stored(store: str, given: dict[str, Any], said: str) -> None:
    meet()

    with pytest.raises(ValueError, match=said):
        circuits.force_open(ALIAS, NAME, SETTINGS, **{"seconds": None, "reason": "", **given})

    assert circuit() == "closed"
