"""`manage.py djqueue circuits`: list, open, close, reset; what they refuse."""

import pytest
from django.core.management import CommandError

from djqueue.models import Circuit, Lane
from djqueue.policy.gates import Gate, gate
from testproject.trials import partner
from tests.management.saying import answer, run

NAME = partner.call.circuit or ""

pytestmark = pytest.mark.django_db


def mine() -> dict[str, object]:
    [found] = [each for each in answer("circuits", "list") if each["circuit"] == NAME]
    return dict(found)


def test_a_circuit_that_no_worker_has_met_is_listed_as_closed() -> None:
    assert mine() == {"circuit": NAME, "state": "closed"}
    assert f"{NAME}: closed, no worker has met it yet" in run("circuits", "list")
    assert not Circuit.objects.exists()


def test_it_is_opened_by_hand_with_reason_and_who_until_somebody_closes_it() -> None:
    said = run("circuits", "open", NAME, "--reason", "they are moving", "--by", "ada")

    circuit = Circuit.objects.get()
    assert (circuit.state, circuit.reason, circuit.changed_by) == ("open", "they are moving", "ada")
    assert circuit.open_until is None
    assert said == f"circuit {NAME} is open until somebody closes it: they are moving\n"
    assert Lane.objects.get().lane == gate(Gate.CIRCUIT, NAME)
    assert ", until somebody closes it, they are moving, by ada, 0 of 0" in run("circuits", "list")


def test_it_may_be_opened_for_a_while() -> None:
    assert answer("circuits", "open", NAME, "--for", "15m") == {
        "circuit": NAME,
        "state": "open",
        "open_for_seconds": 900.0,
    }
    assert mine()["open_until"] is not None
    assert mine()["changed_by"] != ""


def test_closing_releases_what_waits_at_the_ramp_and_a_reset_at_once() -> None:
    run("circuits", "open", NAME)

    assert run("circuits", "close", NAME) == f"circuit {NAME} is closing: 1 starts per second, more and more\n"
    assert mine()["state"] == "ramp"
    assert run("circuits", "reset", NAME) == f"circuit {NAME} is closed\n"
    assert not Lane.objects.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["open", "partnr"], "did you mean 'partner'"),
        (["open", NAME, "--for", "soon"], "--for: expected a duration"),
        (["open", NAME, "--for", "0s"], "--for: expected a duration above 0"),
        (["open", NAME, "--reason", "a\0b"], "--reason: expected text without NUL"),
        (["open", NAME, "--by", "a\udcffb"], "--by: expected valid Unicode"),
        (["close", NAME], "which no worker has met yet"),
        (["reset", "no such circuit"], "expected a circuit that a task names or that has a row"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(words: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said.replace("(", r"\(")):
        run("circuits", *words)

    assert not Circuit.objects.exists()
