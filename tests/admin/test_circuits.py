"""Circuits in the admin: opened, closed and reset by hand, settings that go before the code's; who may (R20)."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry

from djqueue.models import Circuit, Lane
from tests.admin import rows
from tests.admin.conftest import Login
from tests.admin.pages import act, list_of, page_of, text_of


def logged() -> list[str]:
    return list(LogEntry.objects.order_by("id").values_list("change_message", flat=True))


def test_it_is_opened_closed_at_the_ramp_and_reset(login: Login) -> None:
    client = login("view_circuit", "operate_circuit")
    circuit = rows.make_circuit()

    assert act(client, "open_always", [circuit])[-1] == "1 opened."
    circuit.refresh_from_db()
    assert (circuit.state, circuit.open_until, circuit.reason) == ("open", None, "opened by ada")
    assert Lane.objects.get().closed_until is not None
    assert "opened by ada" in text_of(client.get(list_of("circuit")))

    assert act(client, "close", [circuit])[-1] == "1 closing."
    circuit.refresh_from_db()
    assert (circuit.state, circuit.changed_by) == ("ramp", "ada")

    assert act(client, "reset", [circuit])[-1] == "1 closed."
    circuit.refresh_from_db()
    assert circuit.state == "closed"
    assert not Lane.objects.exists()
    assert logged() == ["Circuit opened.", "Circuit closing.", "Circuit closed."]


def test_its_page_opens_it_for_a_while_for_a_reason(login: Login) -> None:
    client = login("view_circuit", "operate_circuit")
    circuit = rows.make_circuit()

    client.post(page_of(circuit), {"open_for": "2h", "open_reason": "they are moving"})

    circuit.refresh_from_db()
    assert (circuit.state, circuit.reason, circuit.changed_by) == ("open", "they are moving", "ada")
    assert circuit.open_until is not None
    assert 7_100 < (circuit.open_until - circuit.changed_at).total_seconds() < 7_300
    assert len(logged()) == 1


@pytest.mark.parametrize("text", ["soon", "0s", "-1m"])
def test_what_is_no_duration_is_refused(login: Login, text: str) -> None:
    client = login("view_circuit", "operate_circuit")
    circuit = rows.make_circuit()

    page = text_of(client.post(page_of(circuit), {"open_for": text, "open_reason": ""}))

    assert "expected a duration above 0" in page
    circuit.refresh_from_db()
    assert circuit.state == "closed"


def test_settings_given_here_go_before_those_of_the_code_and_can_be_taken_back(login: Login) -> None:
    client = login("view_circuit", "change_circuit")
    circuit = rows.make_circuit()

    client.post(page_of(circuit), {"set_probes": "7", "set_failure_ratio": "0.25"})
    circuit.refresh_from_db()
    assert circuit.overrides == {"probes": 7, "failure_ratio": 0.25}
    assert 'value="7"' in text_of(client.get(page_of(circuit)))

    client.post(page_of(circuit), {"set_probes": "", "set_failure_ratio": "0.25"})
    circuit.refresh_from_db()
    assert circuit.overrides == {"failure_ratio": 0.25}


@pytest.mark.parametrize(("name", "value"), [("probes", "0"), ("failure_ratio", "1.5"), ("min_calls", "2.5")])
def test_settings_out_of_their_limits_are_refused(login: Login, name: str, value: str) -> None:
    client = login("view_circuit", "change_circuit")
    circuit = rows.make_circuit()

    assert "Please correct the error" in text_of(client.post(page_of(circuit), {f"set_{name}": value}))
    circuit.refresh_from_db()
    assert circuit.overrides == {}


@pytest.mark.parametrize(
    ("permission", "form"),
    [("change_circuit", {"open_for": "always"}), ("operate_circuit", {"set_probes": "7"}), ("view_circuit", {})],
)
def test_r20_each_of_the_two_needs_its_own_permission(login: Login, permission: str, form: dict[str, Any]) -> None:
    client = login(*{"view_circuit", permission})
    circuit = rows.make_circuit()

    client.post(page_of(circuit), form or {"open_for": "always", "set_probes": "7"})
    for action in ("open_always", "open_for_a_quarter", "close", "reset") if permission != "operate_circuit" else ():
        act(client, action, [circuit])

    found = Circuit.objects.get()
    assert (found.state, found.term, found.overrides) == ("closed", 0, {})


def test_looking_changes_nothing(login: Login) -> None:
    client = login("*")
    circuit = rows.make_circuit(state="open", reason="10 calls in a row failed")
    before = Circuit.objects.values().get()

    for address in (list_of("circuit"), page_of(circuit), page_of(circuit, "history")):
        text_of(client.get(address))

    assert Circuit.objects.values().get() == before
