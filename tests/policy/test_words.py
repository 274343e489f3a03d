"""Numbers in words."""

import pytest

from djqueue.policy import words


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-3, "0 ms"),
        (0.0004, "0 ms"),
        (0.85, "850 ms"),
        (0.9999, "1.0 s"),
        (4.24, "4.2 s"),
        (9.96, "10 s"),
        (59.6, "1 m"),
        (252, "4 m 12 s"),
        (3_600, "1 h"),
        (11_100, "3 h 5 m"),
        (12 * 86_400 + 4 * 3_600 + 59, "12 d 4 h"),
        (float("inf"), "for ever"),
    ],
)
def test_a_duration_has_two_units_at_the_most(seconds: float, said: str) -> None:
    assert words.span(seconds) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0"), (0.5, "0.5"), (120, "120"), (999.9, "1k"), (12_345, "12.3k"), (4_000_000, "4M"), (5e9, "5G")],
)
def test_an_axis_has_short_numbers(number: float, said: str) -> None:
    assert words.amount(number) == said


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [(0, 0, "0 %"), (0, 9, "0 %"), (1, 1000, "below 1 %"), (1, 2, "50 %"), (999, 1000, "over 99 %"), (7, 7, "100 %")],
)
def test_a_share_never_says_nothing_of_something_nor_all_of_a_part(part: float, whole: float, said: str) -> None:
    assert words.share(part, whole) == said


def test_nouns_and_bytes() -> None:
    assert [words.count(1, "job"), words.count(1_200, "job"), words.count(2, "entry", "entries")] == [
        "1 job",
        "1,200 jobs",
        "2 entries",
    ]
    assert [words.size(900), words.size(64.2 * 2**20)] == ["900 B", "64.2 MB"]
