"""Lanes are made of gates, the same in every process."""

from djqueue.policy.gates import Gate, gate, gates, lane


def test_a_job_without_gates_has_the_empty_lane():
    assert lane([]) == ""
    assert lane([(Gate.TENANT, None), (Gate.CIRCUIT, "")]) == ""
    assert gates("") == []


def test_the_gate_that_closes_most_stands_first_whatever_the_order_given():
    made = lane([(Gate.TENANT, "t1"), (Gate.CIRCUIT, "stripe")])
    assert made == lane([(Gate.CIRCUIT, "stripe"), (Gate.TENANT, "t1")])
    assert gates(made) == [gate(Gate.CIRCUIT, "stripe"), gate(Gate.TENANT, "t1")]


def test_names_of_any_kind_and_length_fit_into_a_lane():
    made = lane([(kind, "x:y;\N{SNOWMAN}" * 300) for kind in Gate])
    assert made.isascii() and len(made) <= 200


def test_a_gate_never_changes_its_name_between_releases():
    assert gate(Gate.CIRCUIT, "stripe") == "c" + "7fa878e4418c50eb"


def test_kinds_do_not_collide():
    assert len({gate(kind, "same") for kind in Gate}) == len(Gate)
