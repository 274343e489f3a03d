"""A task that names a circuit: its jobs carry the gate as their lane, however they are enqueued."""

from uuid import UUID

import pytest

from djqueue.policy.gates import Gate, gate
from djqueue.testing import run_jobs
from tests.contract.examples import add, charge
from tests.store.factories import row

GATE = gate(Gate.CIRCUIT, "stripe")


def test_a_job_with_a_circuit_has_its_gate_as_its_lane(db: None) -> None:
    one = charge.enqueue(1)
    [many] = charge.enqueue_many([(2,)])

    assert row(UUID(one.id), "lane") == row(UUID(many.id), "lane") == GATE
    assert row(UUID(add.enqueue(1).id), "lane") == ""


def test_a_circuit_belongs_to_the_task_and_not_to_one_call() -> None:
    with pytest.raises(TypeError, match=r"circuit belongs to the task, not to one call; declare it with @task\(circ"):
        charge.using(circuit="paypal")  # type: ignore[arg-type]


def test_jobs_with_a_circuit_run_in_users_tests(db: None) -> None:
    charge.enqueue(1)
    add.enqueue(1)

    assert run_jobs().succeeded == 2
