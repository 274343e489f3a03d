import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from djqueue.policy.weights import QueueSelection, parse_slots, serves, shuffle


def test_queues_are_read_with_their_weights() -> None:
    selection = QueueSelection.parse("default:5, email:3 ,images")
    assert selection.weights == {"default": 5, "email": 3, "images": 1}
    assert not selection.everything
    assert selection.names(["other", "email"]) == ["default", "email", "images"]


def test_a_star_serves_every_known_queue_but_the_excluded_ones() -> None:
    selection = QueueSelection.parse("email:3,*,-reports")
    assert selection.names(["default", "reports", "email"]) == ["email", "default"]


def test_exclusions_alone_mean_all_others() -> None:
    selection = QueueSelection.parse("-reports,-images")
    assert selection.everything
    assert selection.names(["images", "default"]) == ["default"]


def test_a_name_with_a_colon_is_read_when_it_has_a_weight() -> None:
    assert QueueSelection.parse("mail:high:2").weights == {"mail:high": 2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected names parted by commas"),
        ("a,,b", "expected names parted by commas"),
        ("a b", "expected a queue's name without spaces, got 'a b'"),
        ("-", "expected a queue's name"),
        ("-*", "expected a queue's name"),
        (":3", "expected a queue's name"),
        ("a:0", "expected a weight from 1 to 1000"),
        ("a:1001", "expected a weight from 1 to 1000"),
        ("a:99999999999999999999", "expected a weight from 1 to 1000"),
        ("a:-1", "expected a weight from 1 to 1000"),
        ("a:", "expected a weight from 1 to 1000"),
        ("a:²", "expected a weight from 1 to 1000"),
        ("mail:high", "a name that contains a colon needs a weight"),
        ("*:2", r'expected "\*" without a weight'),
        ("a,a:2", "expected each queue once, got 'a' twice"),
        ("*,a,-a", "expected 'a' either named or excluded"),
        ("a,-b", 'do nothing without "\\*"'),
    ],
)
def test_a_selection_that_can_not_be_meant_is_refused(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        QueueSelection.parse(text)


@given(st.text())
def test_any_text_is_read_or_refused_with_a_value_error(text: str) -> None:
    try:
        selection = QueueSelection.parse(text)
    except ValueError:
        return
    assert selection.weights or selection.everything


@given(st.dictionaries(st.text(), st.floats(min_value=0, max_value=1000)), st.integers())
def test_shuffling_loses_and_doubles_no_queue(weights: dict[str, float], seed: int) -> None:
    assert sorted(shuffle(weights, random.Random(seed))) == sorted(weights)


def test_a_queue_comes_first_as_often_as_its_share_of_the_weights() -> None:
    rng = random.Random(3)
    first = Counter(shuffle({"a": 5, "b": 3, "c": 2}, rng)[0] for _ in range(10_000))
    assert abs(first["a"] - 5000) < 200
    assert abs(first["b"] - 3000) < 200
    assert abs(first["c"] - 2000) < 200


def test_a_weight_of_zero_comes_last() -> None:
    assert all(shuffle({"a": 0, "b": 0.001}, random.Random(seed)) == ["b", "a"] for seed in range(100))


@pytest.mark.parametrize(
    ("text", "served", "others"),
    [
        ("a:5,b", ["a", "b"], ["c"]),
        ("*", ["a", "z"], []),
        ("*,-a", ["b"], ["a"]),
        ("a,*,-b", ["a", "c"], ["b"]),
    ],
)
def test_what_a_worker_says_of_itself_tells_which_queues_it_serves(
    text: str, served: list[str], others: list[str]
) -> None:
    words = QueueSelection.parse(text).words()

    assert all(serves(words, name) for name in served)
    assert not any(serves(words, name) for name in others)


def test_reserved_slots_are_read() -> None:
    assert parse_slots("critical:2, a:b:1") == {"critical": 2, "a:b": 1}
    assert parse_slots("") == {}


@pytest.mark.parametrize(
    "text", ["critical", "critical:", ":2", "critical:0", "critical:501", "critical:x", "a:1,a:2", "a:1,"]
)
def test_what_is_no_reservation_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="critical:2,emails:1"):
        parse_slots(text)
