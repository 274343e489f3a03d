"""Versions of payloads: what stands in a row, which upgrades are missing, and what a failing one says."""

import json
from typing import Any

import pytest

from djqueue.policy import payloads
from djqueue.policy.payloads import UpgradeFailed


def named(args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """From a positional order to a named one."""
    return [], {"order_id": args[0], **kwargs}


def with_currency(args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """One argument more."""
    return args, {**kwargs, "currency": "EUR"}


@pytest.mark.parametrize(
    ("options", "version"),
    [
        ({}, 1),
        ({"tags": ["version"]}, 1),
        ({"version": 3}, 3),
        ({"version": 0}, 0),
        ({"version": 10_000}, 0),
        ({"version": "3"}, 0),
        ({"version": True}, 0),
        ({"version": None}, 0),
        (["version"], 1),
    ],
)
def test_the_version_of_a_row_is_1_where_none_stands_there_and_0_where_nonsense_does(
    options: object, version: int
) -> None:
    assert payloads.version_of(json.dumps(options)) == version


@pytest.mark.parametrize(
    "options",
    ['{"version": ' + "[" * 200_000 + "]" * 200_000 + "}", f'{{"version": {"9" * 5_000}}}'],
    ids=["too deep", "too many digits"],
)
def test_options_that_can_not_be_read_have_no_version(options: str) -> None:
    assert payloads.version_of(options) == 0


@pytest.mark.parametrize(("version", "known"), [(1, "shop.send"), (2, "shop.send@2"), (9_999, "shop.send@9999")])
def test_a_worker_names_the_versions_that_it_knows(version: int, known: str) -> None:
    assert payloads.known_as("shop.send", version) == known
    assert payloads.parts(known) == ("shop.send", version)


def test_upgrades_are_applied_one_after_the_other() -> None:
    upgrades = {1: named, 2: with_currency}

    assert payloads.upgraded("t", 1, 3, upgrades, [7], {}) == ([], {"order_id": 7, "currency": "EUR"})
    assert payloads.upgraded("t", 2, 3, upgrades, [], {"order_id": 7}) == ([], {"order_id": 7, "currency": "EUR"})
    assert payloads.upgraded("t", 3, 3, upgrades, [], {"a": 1}) == ([], {"a": 1})


@pytest.mark.parametrize(
    ("upgrades", "said"),
    [
        ({}, r"shop.send: upgrades\[1\]: expected a function .* got none"),
        (
            {1: named},
            r"upgrades\[1\]: the upgrade of the arguments failed with IndexError: list index out of range",
        ),
        ({1: lambda args, kwargs: None}, r"expected it to return \(args, kwargs\), .* got NoneType"),
        ({1: lambda args, kwargs: ([], {1: 2})}, r"expected it to return \(args, kwargs\)"),
        ({1: lambda args, kwargs: (kwargs, args)}, r"expected it to return \(args, kwargs\)"),
    ],
)
def test_a_failing_upgrade_says_which_and_why(upgrades: dict[int, Any], said: str) -> None:
    with pytest.raises(UpgradeFailed, match=said):
        payloads.upgraded("shop.send", 1, 2, upgrades, [], {})


@pytest.mark.parametrize(
    ("version", "upgrades", "missing"),
    [
        (1, {}, None),
        (2, {1: named}, None),
        (4, {2: named, 3: named}, None),
        (2, {}, "for versions 1 to 1, got none for 1"),
        (4, {1: named, 3: named}, "for versions 1 to 3, got none for 2"),
        (4, {1: named}, "got none for 2, 3"),
    ],
)
def test_gaps_are_named_and_the_oldest_upgrades_may_be_gone(
    version: int, upgrades: dict[int, Any], missing: str | None
) -> None:
    said = payloads.gap(version, upgrades)

    assert (missing is None and said == "") or (missing is not None and missing in said)
