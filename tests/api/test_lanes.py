"""Where a job is placed: its lane, its tenant, its limits; from its own options and arguments alone."""

from typing import Any

import pytest

from djqueue import RateLimit, task
from djqueue.api import lanes
from djqueue.api.lanes import NOWHERE
from djqueue.compat import InvalidTask
from djqueue.exceptions import ArgumentsError
from djqueue.policy.gates import Gate, gate, lane


def handler(account: int, *, note: str = "") -> None:
    """A task's function."""


def made(**options: Any) -> Any:
    return task(**options)(handler)


def place(found: Any, *args: Any, **kwargs: Any) -> lanes.Placed:
    return lanes.place(found, args, kwargs)


NAME = f"{handler.__module__}.handler"


def test_a_job_without_such_options_has_no_lane() -> None:
    assert place(made(), 1) is NOWHERE


def test_a_lane_names_every_gate_in_their_order() -> None:
    found = made(
        tenant_id=lambda account, **_: f"a{account}",
        concurrency_key="stripe",
        concurrency_limit=3,
        rate_limit=RateLimit(rate="100/m", burst=20, key=lambda account, **_: f"key {account}"),
        circuit="stripe",
    )

    placed = place(found, 7)

    assert placed.tenant_id == "a7"
    assert placed.lane == lane(
        [
            (Gate.TENANT, "a7"),
            (Gate.CONCURRENCY, "key stripe"),
            (Gate.RATE, "key key 7"),
            (Gate.CIRCUIT, "stripe"),
        ]
    )
    assert placed.limits == {
        "r": {"label": "key key 7", "rate": 100 / 60, "burst": 20.0},
        "k": {"label": "key stripe", "most": 3},
    }


def test_limits_without_a_key_are_the_tasks() -> None:
    placed = place(made(concurrency_limit=2, rate_limit="5/s"), 1)

    assert placed.limits == {
        "r": {"label": f"task {NAME}", "rate": 5.0, "burst": 5.0},
        "k": {"label": f"task {NAME}", "most": 2},
    }


def test_a_key_that_is_none_means_no_limit_and_no_tenant_for_this_job() -> None:
    found = made(
        tenant_id=lambda account, **_: None,
        concurrency_key=lambda account, **_: None,
        concurrency_limit=1,
        rate_limit=RateLimit(rate="1/s", key=lambda account, **_: None),
    )

    assert place(found, 1) == NOWHERE


def test_one_call_can_name_another_tenant_and_key() -> None:
    found = made(tenant_id="a", concurrency_limit=1, concurrency_key="x").using(tenant_id="b", concurrency_key="y")

    assert place(found, 1).tenant_id == "b"
    assert place(found, 1).lane == f"{gate(Gate.CONCURRENCY, 'key y')}:{gate(Gate.TENANT, 'b')}"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tenant_id": 7}, "tenant_id: expected text, a function or None, got int"),
        ({"tenant_id": "t" * 201}, "tenant_id: expected at most 200 characters, got 201"),
        ({"concurrency_limit": 0}, "concurrency_limit: expected a whole number from 1 to 1,000,000, or None, got 0"),
        ({"concurrency_limit": True}, "concurrency_limit: expected a whole number"),
        ({"concurrency_key": "x"}, "concurrency_key: expected a concurrency_limit beside it, got none"),
        ({"rate_limit": "often"}, "rate_limit: expected a number of starts per unit of time, for example"),
        ({"rate_limit": 5}, "rate_limit: expected a number of starts per unit of time"),
        ({"rate_limit": "0/s"}, "rate_limit: expected more than 0 starts in more than 0 seconds"),
        ({"rate_limit": RateLimit(rate="1/s", burst=0)}, "burst: expected a whole number from 1 to 1,000,000, got 0"),
        ({"rate_limit": RateLimit(rate="1/s", key=5)}, "rate_limit: key: expected text, a function or None"),  # type: ignore[arg-type]
    ],
)
def test_values_out_of_bounds_are_refused_when_the_task_is_declared(options: Any, words: str) -> None:
    with pytest.raises(InvalidTask, match=words.replace("(", r"\(")):
        made(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"tenant_id": lambda account, **_: "a\0b"},
        {"concurrency_limit": 1, "concurrency_key": lambda account, **_: 5},
        {"rate_limit": RateLimit(rate="1/s", key=lambda account, **_: "")},
    ],
    ids=["tenant", "key", "rate key"],
)
def test_r9_keys_that_can_not_be_stored_are_refused_at_the_call(options: Any) -> None:
    with pytest.raises(ArgumentsError, match="expected"):
        place(made(**options), 1)
