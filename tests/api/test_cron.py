"""`@cron`: what it declares, and what it refuses where it stands."""

from typing import Any

import pytest

from djqueue import ArgumentsError, ConfigurationError, cron
from djqueue.api import cron as declarations
from djqueue.policy.cronfires import Missed, Overlap
from djqueue.store.cronsync import Declared
from testproject.shop.tasks import call_partner, noop, send_receipt

NOOP = "testproject.shop.tasks.noop"


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declarations, "_declared", {})


def declared() -> list[Declared]:
    return declarations.declared(["default"])


def test_a_declaration_gives_the_task_back_and_has_defaults() -> None:
    assert cron("30 2 * * *")(noop) is noop

    assert declared() == [Declared(name=NOOP, schedule="30 2 * * *", timezone="UTC", task_name=NOOP)]


def test_everything_can_be_said() -> None:
    cron(
        " H  H(1-5) * * friL ",
        tz="Europe/Paris",
        args=(7,),
        kwargs={"failures": 0},
        missed="run_all(24)",
        grace_seconds=600,
        overlap="queue_one",
        jitter_seconds=30,
        name="partners",
        queue_name="partner",
    )(call_partner)

    assert declared() == [
        Declared(
            name="partners",
            schedule="H H(1-5) * * friL",
            timezone="Europe/Paris",
            task_name="testproject.shop.tasks.call_partner",
            queue_name="partner",
            args="[7]",
            kwargs='{"failures": 0}',
            missed=Missed.RUN_ALL,
            missed_max=24,
            grace_seconds=600,
            overlap=Overlap.QUEUE_ONE,
            jitter_seconds=30,
        )
    ]


def test_one_task_may_have_several_entries_with_names_of_their_own() -> None:
    cron("@daily", name="nightly")(cron("@hourly")(noop))

    assert [each.name for each in declared()] == ["nightly", NOOP]


def test_two_entries_can_not_have_one_name() -> None:
    cron("@daily")(noop)

    with pytest.raises(ConfigurationError, match=r"declared already, for .*noop; give each a name"):
        cron("@hourly")(noop)
    with pytest.raises(ConfigurationError, match="declared already"):
        cron("@hourly", name=NOOP, args=[1])(send_receipt)


def test_without_parentheses_it_is_refused_and_the_task_is_not_swallowed() -> None:
    with pytest.raises(ConfigurationError, match=r'expected a schedule as text, got .*; write @cron\("30 2'):
        cron(noop)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"schedule": "0 0 31 2 *"}, "fires some day"),
        ({"schedule": "@reboot"}, "expected one of @hourly"),
        ({"tz": "Mars/Olympus"}, "tz: expected the name of a zone"),
        ({"tz": "/etc/passwd"}, "tz: expected"),
        ({"missed": "run_al"}, "missed: expected .*did you mean 'run_all'"),
        ({"missed": "run_all(0)"}, "n from 1 to 1,000"),
        ({"missed": "run_all(1001)"}, "n from 1 to 1,000"),
        ({"overlap": "queue"}, "overlap: expected 'allow', 'skip' or 'queue_one'"),
        ({"jitter_seconds": -1}, "jitter_seconds: expected a whole number from 0 to 86,400"),
        ({"jitter_seconds": True}, "jitter_seconds"),
        ({"grace_seconds": 0.5}, "grace_seconds"),
        ({"queue_name": "nowhere"}, "queue_name: .*nowhere"),
        ({"name": ""}, "name: expected text, got an empty one"),
        ({"name": "x" * 201}, "at most 200"),
    ],
)
def test_r17_what_can_not_fire_is_refused_where_it_stands(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        cron(**{"schedule": "@daily", **given})(noop)
    assert declared() == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"args": [1, 2]}, "expected noop"),
        ({"kwargs": {"colour": 1}}, "colour"),
        ({"args": [object()]}, "args"),
        ({"args": "abc"}, "expected a list of arguments"),
    ],
)
def test_r9_arguments_are_checked_where_they_stand(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentsError, match=said):
        cron("@daily", **given)(noop)


def test_a_plain_function_is_refused_with_the_right_order() -> None:
    with pytest.raises(ConfigurationError, match="put @cron above @task"):
        cron("@daily")(lambda: None)  # type: ignore[type-var]


def test_entries_go_where_the_jobs_of_their_tasks_are() -> None:
    cron("@daily")(noop)

    assert declarations.declared(["other"]) == []
